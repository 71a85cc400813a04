"""Reductions of nested tensors: over dimensions of the rows, over the ragged one, and over the batch with it."""

from __future__ import annotations

import math

import numpy as np

from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from ..eager.kernels._common import wrap_dim

# What the rows that a component has not are filled up with.
_NEUTRAL = {"sum": 0, "mean": 0, "prod": 1, "all": True, "any": False}
NAMES = frozenset((*_NEUTRAL, "amax", "amin", "argmax", "argmin", "max", "min", "cumsum"))


def _padding(name, dtype):
    if name in _NEUTRAL:
        return _NEUTRAL[name]
    if dtype.is_floating_point:
        return math.inf if "min" in name else -math.inf
    if dtype is _dtype.bool:
        return "min" in name
    limits = _dtype.iinfo(dtype)
    return limits.max if "min" in name else limits.min


def _dims(input, dim):
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return [wrap_dim(d, input.dim()) for d in dims]


def reduced(func, name, input, dim=None, keepdim=False, **kwargs):
    """``func(input, dim, keepdim, **kwargs)`` of a jagged tensor: dense where it reduces the ragged dimension.

    Raises:
        RuntimeError, AssertionError: for dimensions that say nothing of a batch of different sizes.
    """
    from ._tensor import mapped

    if dim is None or dim == () or dim == []:
        return func(input.values(), **kwargs)
    dims, at = _dims(input, dim), input._at
    listed = not isinstance(dim, int)
    if 0 in dims and at in dims:
        inner = sorted({d - 1 for d in dims if d})
        out = func(input.values(), inner if listed else inner[0], keepdim, **kwargs)
        return out.unsqueeze(0) if keepdim else out
    if 0 in dims:
        raise RuntimeError(
            f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for nested tensors"
        )
    if at in dims:
        if len(dims) > 1:
            if name == "mean":
                raise AssertionError("Cannot reduce on both ragged and non-batch dimensions without also reducing on batch")
            raise RuntimeError(
                f"{name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors"
            )
        return _over_ragged(func, name, input, dim, at, keepdim, kwargs)
    inner = [d - 1 for d in dims]
    rest = () if name == "cumsum" else (keepdim,)
    out = mapped(lambda x: func(x, inner if listed else inner[0], *rest, **kwargs), name, input, (input,), {})
    if not keepdim and name != "cumsum":
        for part in out if isinstance(out, tuple) else (out,):
            part._at -= sum(d < at for d in dims)
    return out


def _over_ragged(func, name, input, dim, at, keepdim, kwargs):
    if name == "cumsum":
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim={at}")
    places = [at] if not isinstance(dim, int) else at
    counts = input.counts()
    padded = input.to_padded_tensor(_padding(name, input.dtype))
    if name != "mean":
        return func(padded, places, keepdim, **kwargs)
    total = torch.sum(padded, places, keepdim, **kwargs)
    shape = (len(counts),) + (1,) * (total.dim() - 1)
    return total / torch.from_numpy(np.asarray(counts)).to(total.dtype).reshape(shape)


def softmax(func, name, input, dim=None, *args, **kwargs):
    """``softmax`` and ``log_softmax``, also over the ragged dimension.

    Raises:
        RuntimeError: over the batch.
    """
    from . import _jagged
    from ._tensor import mapped

    if dim is None:
        return func(input._leaves[0], *args, **kwargs)
    at = wrap_dim(dim, input.dim())
    if at == 0:
        raise RuntimeError(f"{name}(): not supported when reducing across the batch dimension for NestedTensor")
    if at == input._at:
        if at != 1:
            return softmax(func, name, input.transpose(1, at), 1, *args, **kwargs).transpose(1, at)
        return _jagged.softmax(func, input, *args, **kwargs)
    return mapped(lambda x: func(x, at - 1, *args, **kwargs), name, input, (input,), {})
