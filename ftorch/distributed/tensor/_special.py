"""Calls on `DTensor`s that are more than the same call on parts: norms, dropout, rows of a divided table."""

from __future__ import annotations

import math

import ftorch as torch

from ._redistribute import global_strides, local_shape, move, offsets
from .placement_types import NormPartial, Partial, Replicate, along, divides


def _made(local, x, placements, shape):
    from ._api import DTensor

    return DTensor._made(local, x.device_mesh, placements, tuple(shape), global_strides(local, shape))


def _given(args, kwargs, place, name, default=None):
    return kwargs[name] if name in kwargs else args[place] if len(args) > place else default


def norm(func, args, kwargs):
    """A norm of all elements, or along dimensions that are divided: the parts' norms, which are combined when somebody wants
    the numbers."""
    x = args[0]
    order = _given(args, kwargs, 1, "p" if "norm" == func.__name__.strip("_") else "ord", 2)
    dim, keep = _given(args, kwargs, 2, "dim"), _given(args, kwargs, 3, "keepdim", False)
    rest = {k: v for k, v in kwargs.items() if k not in ("p", "ord", "dim", "keepdim") and v is not None}
    plain = len(args) < 5 and not rest and (order is None or order == "fro" or isinstance(order, (int, float)))
    dense = x.is_floating_point() and x._local_tensor.numel()
    if not plain or not dense or x._local_tensor.requires_grad:
        return NotImplemented
    dims = [d % x.dim() for d in (dim if isinstance(dim, (tuple, list)) else [dim])] if dim is not None else []
    dims = dims or [*range(x.dim())]
    if not any(divides(p) and p.dim in dims for p in x.placements) or any(p.is_partial() for p in x.placements):
        return NotImplemented
    from ._dispatch import evenly_divided

    if not evenly_divided(x.shape, x.device_mesh, x.placements):
        return NotImplemented
    kind = 2 if order is None or order == "fro" else order
    local = torch.linalg.vector_norm(x._local_tensor, kind, dims, bool(keep))

    def left(p):
        if not divides(p):
            return p
        return _combined(kind) if p.dim in dims else along(p, p.dim if keep else p.dim - sum(d < p.dim for d in dims))

    return _made(local, x, [left(p) for p in x.placements], [
        1 if d in dims else size for d, size in enumerate(x.shape) if keep or d not in dims
    ])


def _combined(kind):
    """How norms of parts are terms of the whole one."""
    if math.isinf(kind):
        return Partial("max" if kind > 0 else "min")
    return NormPartial(kind) if kind else Partial()


def dropout(func, args, kwargs):
    """Each process draws the whole mask, that of one process alone, and applies its part."""
    x = args[0]
    p = _given(args, kwargs, 1, "p", 0.5)
    training = _given(args, kwargs, 2, "training", True)
    if _given(args, kwargs, 3, "inplace", False) or x.placements == (Replicate(),) * x.device_mesh.ndim:
        return NotImplemented
    if any(q.is_partial() and q.reduce_op not in ("sum", "avg") for q in x.placements):
        return NotImplemented
    if not training or p == 0:
        return _made(x._local_tensor.clone(), x, x.placements, x.shape)
    whole = [Replicate()] * x.device_mesh.ndim
    with torch.no_grad():
        mask = torch.nn.functional.dropout(torch.ones(tuple(x.shape), dtype=x.dtype), p)
        divided = [q if divides(q) else Replicate() for q in x.placements]
        mask = move(mask, x.device_mesh, tuple(x.shape), whole, divided)
    return _made(x._local_tensor * mask, x, x.placements, x.shape)


def drawn(func, args, kwargs):
    """`rand_like` and its like: what one process would draw, of which each takes its part."""
    x = args[0]
    if kwargs.get("device") is not None:
        return NotImplemented
    placed = [p if divides(p) else Replicate() for p in x.placements]
    options = {k: v for k, v in kwargs.items() if k not in ("dtype", "requires_grad")}
    with torch.no_grad():
        whole = func(torch.empty(tuple(x.shape), dtype=kwargs.get("dtype") or x.dtype), *args[1:], **options)
        local = move(whole, x.device_mesh, tuple(x.shape), [Replicate()] * x.device_mesh.ndim, placed)
    made = _made(local, x, placed, x.shape)
    return made.requires_grad_() if kwargs.get("requires_grad") else made


def embedding(func, args, kwargs):
    """Rows of a table whose rows are divided: each process looks up its own; the others are zeros of a sum."""
    from ._api import DTensor

    index, table = _given(args, kwargs, 0, "input"), _given(args, kwargs, 1, "weight")
    given = [_given(args, kwargs, i, n) for i, n in ((2, "padding_idx"), (3, "max_norm"))]
    if not isinstance(table, DTensor) or any(g is not None for g in given):
        return NotImplemented
    if _given(args, kwargs, 5, "scale_grad_by_freq", False) or _given(args, kwargs, 6, "sparse", False):
        return NotImplemented
    mesh = table.device_mesh
    if not isinstance(index, DTensor):
        index = DTensor._made(index, mesh, [Replicate()] * mesh.ndim, tuple(index.shape))
    rows = [m for m, p in enumerate(table.placements) if p.is_shard(0)]
    others = [p for m, p in enumerate(table.placements) if m not in rows]
    whole = all(p.is_replicate() for p in index.placements)
    if len(rows) != 1 or not whole or not all(p.is_replicate() for p in others):
        return NotImplemented
    count = local_shape(tuple(table.shape), mesh, table.placements)[0]
    first = offsets(tuple(table.shape), mesh, table.placements)[0]
    if any(s == 0 for s in table._local_tensor.shape):
        return NotImplemented
    position = index._local_tensor - first
    elsewhere = (position < 0) | (position >= count)
    found = torch.nn.functional.embedding(position.masked_fill(elsewhere, 0), table._local_tensor)
    found = found.masked_fill(elsewhere.unsqueeze(-1), 0)
    placed = [Partial() if m in rows else Replicate() for m in range(mesh.ndim)]
    return _made(found, table, placed, (*index.shape, table.shape[1]))


def made_like(func, args, kwargs):
    """``x.new_zeros`` and its like: a tensor of x's own shape lies as x does, others are whole, and nobody tells anybody."""
    x = args[0]
    size = _given(args, kwargs, 1, "size")
    size = tuple(size) if isinstance(size, (tuple, list)) else tuple(a for a in args[1:] if isinstance(a, int))
    same = size == tuple(x.shape) and not any(p.is_partial() for p in x.placements)
    placed = list(x.placements) if same else [Replicate()] * x.device_mesh.ndim
    shape = tuple(local_shape(size, x.device_mesh, placed)) if same else size
    options = {k: v for k, v in kwargs.items() if k not in ("size", "requires_grad")}
    scattered = func.__name__ == "new_empty_strided"
    if scattered and same:
        return NotImplemented
    rest = args[2:] if func.__name__ in ("new_full", "new_empty_strided") else ()
    local = func(x._local_tensor.detach(), shape, *rest, **options)
    strides = local.stride() if not same else None
    from ._api import DTensor

    made = DTensor._made(local, x.device_mesh, placed, size, strides)
    return made.requires_grad_() if kwargs.get("requires_grad") else made


def filled(func, args, kwargs):
    """`fill_`: the terms of a sum get the number, too, each of them."""
    x, value = args[0], _given(args, kwargs, 1, "value")
    if isinstance(value, torch.Tensor):
        return NotImplemented
    x._local_tensor.fill_(value)
    return x


def is_same_size(func, args, kwargs):
    """Whether two tensors have one shape, of which one may be plain."""
    return tuple(args[0].shape) == tuple(_given(args, kwargs, 1, "other").shape)


SPECIAL = {
    **{f"new_{n}": made_like for n in ("empty", "zeros", "ones", "full", "empty_strided")},
    "fill_": filled, "is_same_size": is_same_size,
    "norm": norm, "vector_norm": norm, "linalg_vector_norm": norm, "dropout": dropout, "embedding": embedding,
    **{n: drawn for n in ("rand_like", "randn_like", "randint_like")},
}


def combined_norms(local, kind, group):
    """The norm of parts whose norms are given."""
    from .. import distributed_c10d as dist

    out = local.clone()
    if math.isinf(kind):
        dist.all_reduce(out, dist.ReduceOp.MAX if kind > 0 else dist.ReduceOp.MIN, group=group)
        return out
    if kind not in (0, 1):
        out = out**kind
    dist.all_reduce(out, group=group)
    return out if kind in (0, 1) else out ** (1 / kind)
