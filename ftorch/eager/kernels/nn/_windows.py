"""What the kernels of torch.nn.functional share: window arguments and reductions of losses."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from .._common import is_integral, up


def sizes(shape) -> str:
    """A shape as PyTorch's messages print it: ``[2, 3]``."""
    return "[" + ", ".join(map(str, shape)) + "]"


def ntuple(value, n: int) -> tuple[int, ...]:
    """``n`` integers from one integer, one-element or n-element list."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return values * n if len(values) == 1 else values


def legacy_reduction(reduction: str, size_average, reduce) -> str:
    """The reduction that the deprecated flags ``size_average`` and ``reduce`` stand for."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def legacy_notice(reduction, size_average, reduce):
    """The warning of the deprecated flags, if they are used."""
    if size_average is None and reduce is None:
        return None
    meant = legacy_reduction(reduction, size_average, reduce)
    return f"size_average and reduce args will be deprecated, please use reduction='{meant}' instead."


def check_reduction(reduction: str) -> None:
    """Raises PyTorch's ValueError unless ``reduction`` is 'none', 'mean' or 'sum'."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")


def reduce_loss(loss, reduction: str, dtype=None):
    """The elements of a loss reduced and cast to ``dtype`` (default: the dtype it has)."""
    check_reduction(reduction)
    dtype = np.dtype(loss.dtype if dtype is None else dtype)
    if reduction == "none":
        return loss.astype(dtype)
    total = jnp.sum(up(loss))
    if reduction == "mean":
        if is_integral(loss):
            raise RuntimeError(
                "mean(): could not infer output dtype. Input dtype must be either a floating "
                f"point or complex dtype. Got: {dtype_title(loss.dtype)}"
            )
        # An empty mean is nan, as 0 / 0 is.
        total = total / jnp.asarray(loss.size, total.dtype)
    return total.astype(dtype)


def dtype_title(dtype) -> str:
    """PyTorch's scalar type name: ``Float``, ``Long``."""
    from .._common import dtype_name

    return dtype_name(dtype)
