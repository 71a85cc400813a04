"""Ops whose kernels work on NumPy arrays, composed of differentiable ones (`OpDef.composed`): places on the host, elements
taken there. A transform sees these; so does the tape where PyTorch's node is theirs, too.

The places (a mask, how often each element) belong to no example: they are one tensor for all.
"""

from __future__ import annotations

from ..core import api
from ..kernels._common import wrap_dim
from ..kernels.indexing.masking import masked_select
from ..kernels.shape.joining import repeat_interleave_tensor


def _masked_select(x, mask):
    if mask.dtype.name != "bool":
        return None
    shape = api.broadcast_shapes(tuple(x.shape), tuple(mask.shape))
    places = mask.expand(shape).reshape(-1).nonzero().reshape(-1)
    return x.expand(shape).reshape(-1).index_select(0, places)


def _repeat_interleave(x, repeats, dim, output_size):
    if dim is None:
        x = x.reshape(-1)
    elif not x.dim():
        return None
    dim = 0 if dim is None else wrap_dim(dim, x.dim())
    if repeats.dim() > 1 or repeats.numel() not in (1, x.shape[dim]) or repeats.dtype.name not in ("int32", "int64"):
        return None
    repeats = repeats.reshape(-1).expand(x.shape[dim])
    return x.index_select(dim, api.repeat_interleave(repeats, output_size=output_size))


masked_select.composed, repeat_interleave_tensor.composed = _masked_select, _repeat_interleave
