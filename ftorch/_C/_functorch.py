"""What libraries ask of the transforms' tensors (``torch._C._functorch``)."""

from __future__ import annotations

import enum as _enum

from ..eager.dispatch.levels import Wrapped as _Wrapped
from ..eager.tensor import modes as _modes
from ..eager.transforms.batching import Batched as _Batched
from ..eager.transforms.batching import fallback as _fallback
from ..eager.transforms.vmap import (
    _add_batch_dim,
    _remove_batch_dim,
    get_unwrapped,
    is_batchedtensor,
)

__all__ = [
    "TransformType",
    "get_unwrapped", "is_batchedtensor", "is_functorch_wrapped_tensor", "is_gradtrackingtensor",
    "is_legacy_batchedtensor", "maybe_current_level", "maybe_get_bdim", "maybe_get_level",
    "_add_batch_dim", "_is_vmap_fallback_enabled", "_remove_batch_dim", "_set_vmap_fallback_enabled",
]


class TransformType(_enum.Enum):
    """The transforms, for which kernels of operators may be registered."""

    Torch = 0
    Vmap = 1
    Grad = 2
    Jvp = 3
    Functionalize = 4


def is_functorch_wrapped_tensor(tensor) -> bool:
    """Whether it is a tensor of a transform."""
    return isinstance(tensor, _Wrapped)


def is_gradtrackingtensor(tensor) -> bool:
    """Whether it is a tensor of `grad`, `vjp` or `jvp`."""
    return isinstance(tensor, _Wrapped) and not isinstance(tensor, _Batched)


def is_legacy_batchedtensor(tensor) -> bool:
    """False: there is one `vmap`."""
    return False


def maybe_get_level(tensor) -> int:
    """The number of the tensor's level, counted from 1; -1 without one."""
    return tensor._ftorch_level.depth if isinstance(tensor, _Wrapped) else -1


def maybe_get_bdim(tensor) -> int:
    """The dimension that `vmap` hides; -1 without one."""
    bdim = tensor._bdim if isinstance(tensor, _Batched) else None
    return -1 if bdim is None else bdim


def maybe_current_level() -> int | None:
    """The number of the innermost active transform, or None."""
    return len(_modes.levels) or None


def _is_vmap_fallback_enabled() -> bool:
    """Whether `vmap` calls operators that nothing maps in one go for each example."""
    return _fallback.is_enabled


def _set_vmap_fallback_enabled(enabled: bool) -> None:
    """Lets `vmap` call such operators for each example, or raise a RuntimeError for them; in all threads."""
    _fallback.is_enabled = bool(enabled)
