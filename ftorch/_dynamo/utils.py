"""Counters (``torch._dynamo.utils``)."""

from __future__ import annotations

import collections
import sys
import warnings

from ..eager.native.contexts import contextmanager, putting_back

counters: collections.defaultdict = collections.defaultdict(collections.Counter)
warn_once_cache: set[str] = set()


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warns of a text, the first time in a process."""
    if msg not in warn_once_cache:
        warn_once_cache.add(msg)
        warnings.warn(msg, stacklevel=stacklevel + 1)


def compile_times(repr="str", aggregate=False):
    """How much was compiled, as a table."""
    from ..eager.runtime.executor import stats

    return f"TorchDynamo compilation metrics:\nFunction  Count\nXLA       {stats.compilations}"


def is_compile_supported(device_type) -> bool:
    """Whether programs run on a device type."""
    return device_type in ("cpu", "cuda", "tpu")


@contextmanager
def disable_cache_limit():
    """Within it functions are compiled anew as often as calls ask for it."""
    from . import config

    def put_back(single, together):
        config.recompile_limit, config.accumulated_recompile_limit = single, together

    with putting_back(put_back, config.recompile_limit, config.accumulated_recompile_limit):
        put_back(sys.maxsize, sys.maxsize)
        yield


def ifdynstaticdefault(count1, count2):
    """The first where sizes are constants until they change, the second where they are symbols at once."""
    from . import config

    return count1 if config.assume_static_by_default else count2


def clone_input(x, *, dtype=None):
    """A copy of a tensor with its strides, also where elements overlap; leaves keep that they require gradients.

    >>> import ftorch as torch
    >>> from ftorch._dynamo.utils import clone_input
    >>> clone_input(torch.zeros(3).expand(2, 3)).stride()
    (0, 1)
    """
    from ..autograd import no_grad
    from ..eager.core import api as torch
    from ..eager.core.formats import strided

    if hasattr(x, "fake_mode"):  # a fake tensor has no values to copy
        return x
    with no_grad():
        if x.layout != strided or x.is_quantized:
            made = x.clone()
        else:
            span = sum((n - 1) * step for n, step in zip(x.shape, x.stride())) + 1 if x.numel() else 0
            flat = torch.empty(span, dtype=dtype or x.dtype, device=x.device)
            made = flat.as_strided(x.shape, x.stride())
            flat.copy_(x.as_strided((span,), (1,)))
        if x.is_leaf:
            made.requires_grad_(x.requires_grad)
            if x.grad is not None:
                made.grad = clone_input(x.grad, dtype=dtype)
        return made


def same(ref, res, tol=1e-4, equal_nan=False, **_) -> bool:
    """Whether two nested results are close."""
    from ..eager.core import api as torch
    from ..eager.tensor import TensorBase

    if isinstance(ref, (list, tuple)):
        return len(ref) == len(res) and all(same(a, b, tol, equal_nan) for a, b in zip(ref, res))
    if isinstance(ref, dict):
        return ref.keys() == res.keys() and all(same(ref[k], res[k], tol, equal_nan) for k in ref)
    if isinstance(ref, TensorBase):
        return torch.allclose(ref, res, tol, tol, equal_nan)
    if type(ref) is type(res) and hasattr(ref, "__dict__") and not callable(ref):
        return same(vars(ref), vars(res), tol, equal_nan)
    return ref == res


def clone_inputs(example_inputs):
    """Copies of a call's tensors, in a list or in the dictionary that they came in.

    Raises:
        AssertionError: a value of the dictionary is neither a tensor nor a tuple.
    """
    from ..eager.tensor import TensorBase

    def cloned(value):
        return clone_input(value) if isinstance(value, TensorBase) else value

    if type(example_inputs) is dict:
        for value in example_inputs.values():
            if not isinstance(value, (tuple, TensorBase)):
                raise AssertionError(f"Expected value to be a torch.Tensor, got {type(value)}")
        return {k: clone_inputs(v) if isinstance(v, tuple) else cloned(v) for k, v in example_inputs.items()}
    return list(map(cloned, example_inputs))


def __getattr__(name):
    if name == "LazyString":  # logs stand above
        import importlib

        return importlib.import_module(f"{__package__.rpartition('.')[0]}._logging").LazyString
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
