"""Differentiable calls of NumPy's under a transform, by calls that it transforms: places on the host, elements taken there."""

from __future__ import annotations

from ..core import api
from ..kernels._common import wrap_dim


def composed(op, operands, static):
    """The result of a host's op by differentiable ops, or None where there are none (or the op refuses the call).

    The places (a mask, how often each element) belong to no example: they are one tensor for all.
    """
    rule = _RULES.get(op.definition.full_name)
    return None if rule is None else rule(*operands, *static)


def _masked_select(x, mask):
    if mask.dtype.name != "bool":
        return None
    shape = api.broadcast_shapes(tuple(x.shape), tuple(mask.shape))
    places = mask.expand(shape).reshape(-1).nonzero().reshape(-1)
    return x.expand(shape).reshape(-1).index_select(0, places)


def _repeat_interleave(x, repeats, dim, output_size):
    if dim is None or x.dim() == 0:
        x = x.reshape(-1)
    dim = 0 if dim is None else wrap_dim(dim, x.dim())
    if repeats.dim() > 1 or repeats.numel() not in (1, x.shape[dim]) or repeats.dtype.name not in ("int32", "int64"):
        return None
    repeats = repeats.reshape(-1).expand(x.shape[dim])
    return x.index_select(dim, api.repeat_interleave(repeats, output_size=output_size))


_RULES = {"masked_select": _masked_select, "repeat_interleave.self_Tensor": _repeat_interleave}
