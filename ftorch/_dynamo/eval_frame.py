"""``torch._dynamo.eval_frame``: the names that libraries look for there."""

from __future__ import annotations

from ..compiler import disable, set_stance  # noqa: F401
from ..jit.compiler import _optimized_class

OptimizedModule = _optimized_class()


def innermost_fn(fn):
    """The function under decorators of this package."""
    while hasattr(fn, "_torchdynamo_orig_callable"):
        fn = fn._torchdynamo_orig_callable
    return fn


def is_dynamo_supported() -> bool:
    """True: functions are captured wherever Python runs."""
    return True


def is_inductor_supported() -> bool:
    """True: XLA compiles for every device."""
    return True
