"""Ops as the core ATen ops that they are made of, for `ExportedProgram.run_decompositions`: views, creation, products, pieces.

A form takes the functionalizer, the old node and its arguments as they are now, and gives a node; NotImplemented leaves
the op as it is.
"""

from __future__ import annotations

import math
import operator

from .._ops import ops, own_name
from ..eager.core.formats import contiguous_format
from ..fx.experimental.symbolic_shapes import is_symbolic
from ..fx.node import Node

aten = ops.aten

# Conversions that give the tensor itself where nothing changes.
SAME = frozenset("to type_as contiguous".split())
_RESHAPED = frozenset("reshape flatten unflatten ravel reshape_as view_as _unsafe_view".split())
_REVERSED = frozenset("t mT mH adjoint matrix_H numpy_T".split())


def is_whole(node):
    """Whether it is ``atleast_1d`` or its like of a tensor with that many dimensions, which is the tensor itself."""
    name = own_name(node.target)
    if not name.startswith("atleast_") or not isinstance(node.args[0], Node) or "val" not in node.meta:
        return False
    return len(node.args[0].meta["val"].shape) == len(node.meta["val"].shape)


def core_view(node):
    """(overload, arguments behind the tensor) of a view as a core op; None where it is one, or sizes do not tell."""
    name, args, x = node.target._opname, node.args[1:], node.args[0].meta.get("val")
    shape = None if node.meta.get("val") is None else tuple(node.meta["val"].shape)
    if x is None or shape is None or node.kwargs:
        return None
    rank = len(x.shape)
    if name in _RESHAPED:
        sizes = [-1 if is_symbolic(n) else int(n) for n in shape]
        given = args[0] if args and name in ("reshape", "_unsafe_view") else sizes
        return (aten.view.default, (list(given),)) if sizes.count(-1) < 2 or name in ("reshape", "_unsafe_view") else None
    if name in _REVERSED:
        order = [*range(rank)]
        if name == "numpy_T":
            order.reverse()
        elif rank > 1:
            order[-2:] = order[:-3:-1]
        return aten.permute.default, (order,)
    if name in ("swapaxes", "swapdims", "transpose"):
        order = [*range(rank)]
        a, b = (d % rank for d in args[:2]) if rank else (0, 0)
        if rank:
            order[a], order[b] = b, a
        return aten.permute.default, (order,)
    if name in ("movedim", "moveaxis") and len(args) == 2:
        sources, targets = ([d % rank for d in ([v] if isinstance(v, int) else v)] for v in args)
        order = [d for d in range(rank) if d not in sources]
        for target, source in sorted(zip(targets, sources)):
            order.insert(target, source)
        return aten.permute.default, (order,)
    if name == "narrow" and isinstance(args[1], int) and isinstance(args[2], int) and args[1] >= 0:
        return aten.slice.Tensor, (args[0], args[1], args[1] + args[2])
    if name in ("expand_as", "broadcast_to"):
        old = (None,) * (len(shape) - rank) + tuple(x.shape)
        if any(is_symbolic(n) and not is_symbolic(o) for n, o in zip(shape, old)):
            return None
        return aten.expand.default, ([-1 if is_symbolic(n) else int(n) for n in shape],)
    if name == "squeeze" and node.target._overloadname in ("default", "dim"):
        return aten.squeeze.dims, ([d % rank if rank else 0 for d in args] if args else [*range(rank)],)
    if name.startswith("atleast_") and len(shape) == rank + 1:
        return aten.unsqueeze.default, (-1 if name == "atleast_3d" else 0,)
    if name == "detach":
        return aten.alias.default, ()
    return None


# --- other ops ------------------------------------------------------------------------


def _shape(x):
    return tuple(x.meta["val"].shape)


def _fake(like, shape, dtype=None):
    return like.new_empty(shape, dtype=dtype or like.dtype)


def _is_static(*shapes):
    return not any(is_symbolic(n) for shape in shapes for n in shape)


def _viewed(f, x, sizes, like):
    """A view of other sizes, of a copy where elements do not lie in order."""
    if not x.meta["val"].is_contiguous():
        x = f.call(aten.clone.default, x, like=x.meta["val"], memory_format=contiguous_format)
    node = f.graph.call_function(aten.view.default, (x, list(sizes)), name="view")
    node.meta["val"] = like
    return node


def _reshape(f, node, x, sizes):
    if not node.meta.get("owns_memory"):  # a view
        return NotImplemented
    like = node.meta["val"]
    copy = f.call(aten.clone.default, x, like=x.meta["val"], memory_format=contiguous_format)
    copy = f.graph.call_function(aten.view.default, (copy, list(sizes)), name="view")
    copy.meta["val"] = like
    return copy


def _full(value):
    def form(f, node, size, **options):
        like = node.meta["val"]
        options = {"dtype": like.dtype, **options}
        return f.call(aten.full.default, list(size), value, like=like, **options)

    return form


def _full_like(value):
    def form(f, node, x, **options):
        return f.call(aten.full_like.default, x, value, like=node.meta["val"], **options)

    return form


def _new(value):
    def form(f, node, x, size, *given, **options):
        like = node.meta["val"]
        options = {"dtype": like.dtype, "device": like.device, **options}
        return f.call(aten.full.default, list(size), *(given or (value,)), like=like, **options)

    return form


def _arange(f, node, end, **options):
    return f.call(aten.arange.start_step, 0, end, like=node.meta["val"], **options)


def _sum(f, node, x, **options):
    return f.call(aten.sum.dim_IntList, x, [], like=node.meta["val"], **options)


def _square(f, node, x):
    return f.call(aten.pow.Tensor_Scalar, x, 2, like=node.meta["val"])


def _floor_divide(f, node, x, other):
    return f.call(aten.div.Tensor_mode, x, other, like=node.meta["val"], rounding_mode="floor")


def _clamp(place):
    def form(f, node, x, bound):
        bounds = (bound,) if place == 0 else (None, bound)
        kind = aten.clamp.Tensor if isinstance(bound, Node) else aten.clamp.default
        return f.call(kind, x, *bounds, like=node.meta["val"])

    return form


def _silu(f, node, x):
    like = node.meta["val"]
    return f.call(aten.mul.Tensor, x, f.call(aten.sigmoid.default, x, like=like), like=like)


def _scalar(f, value, like):
    return f.call(aten.scalar_tensor.default, value, like=_fake(like, ()), dtype=like.dtype, device=like.device)


def _where(f, node, condition, x, y):
    like = node.meta["val"]
    x, y = (v if isinstance(v, Node) else _scalar(f, v, like) for v in (x, y))
    return f.call(aten.where.self, condition, x, y, like=like)


def _masked_fill(f, node, x, mask, value):
    like = node.meta["val"]
    return f.call(aten.where.self, mask, _scalar(f, value, like), x, like=like)


def _stacked(dim, rank):
    def form(f, node, tensors):
        if any(len(_shape(t)) < rank for t in tensors):
            return NotImplemented
        return f.call(aten.cat.default, list(tensors), *(() if dim == 0 else (dim,)), like=node.meta["val"])

    return form


def _deep(f, node, tensors):
    if any(len(_shape(t)) < 2 for t in tensors):
        return NotImplemented
    parts = [
        f.call(aten.unsqueeze.default, t, -1, like=t.meta["val"].unsqueeze(-1)) if len(_shape(t)) == 2 else t for t in tensors
    ]
    return f.call(aten.cat.default, parts, 2, like=node.meta["val"])


def _stack(f, node, tensors, dim=0):
    like, shape = node.meta["val"], _shape(tensors[0])
    dim %= len(shape) + 1
    if not _is_static(like.shape) or len({t.meta["val"].dtype for t in tensors}) > 1:
        return NotImplemented
    if dim == len(shape):  # elements of several tensors lie beside each other
        parts = [f.call(aten.unsqueeze.default, t, dim, like=_fake(like, (*shape, 1))) for t in tensors]
        return f.call(aten.cat.default, parts, dim, like=like)
    joined = (*shape[:dim], shape[dim] * len(tensors), *shape[dim + 1 :])
    whole = f.call(aten.cat.default, list(tensors), *(() if dim == 0 else (dim,)), like=_fake(like, joined))
    return _viewed(f, whole, [int(n) for n in like.shape], like)


def _tile(f, node, x, dims):
    rank = len(_shape(x))
    return f.call(aten.repeat.default, x, [*[1] * (rank - len(dims)), *dims], like=node.meta["val"])


def _argsort(f, node, x, dim=-1, descending=False):
    like, values = node.meta["val"], x.meta["val"]
    whole = f.call(aten.sort.default, x, dim, descending, like=(values, like))
    return f.call(operator.getitem, whole, 1, like=like, name="getitem")


def _addcmul(f, node, x, first, second, value=1):
    like = node.meta["val"]
    product = f.call(aten.mul.Tensor, first, second, like=like)
    return f.call(aten.add.Tensor, x, f.call(aten.mul.Tensor, product, value, like=like), like=like)


def _pad(f, node, x, pad, mode="constant", value=None):
    if mode != "constant":
        return NotImplemented
    return f.call(aten.constant_pad_nd.default, x, list(pad), 0.0 if value is None else value, like=node.meta["val"])


def _deviation(f, node, x, *args, **options):
    like = node.meta["val"]
    return f.call(aten.sqrt.default, f.call(aten.var.correction, x, *args, like=like, **options), like=like)


def _outer(f, node, a, b):
    like = node.meta["val"]
    column = _viewed(f, a, [-1, 1], _fake(like, (like.shape[0], 1), a.meta["val"].dtype)) if _is_static(like.shape) else None
    return NotImplemented if column is None else f.call(aten.mul.Tensor, column, b, like=like)


def _mse_loss(f, node, x, target, reduction=1):
    like, given = node.meta["val"], x.meta["val"]
    if not _is_static(given.shape) or tuple(given.shape) != _shape(target) or given.dtype != target.meta["val"].dtype:
        return NotImplemented
    squares = f.call(aten.pow.Tensor_Scalar, f.call(aten.sub.Tensor, x, target, like=given), 2, like=given)
    if reduction == 0:
        return squares
    if reduction == 1:
        return f.call(aten.mean.default, squares, like=like)
    return f.call(aten.sum.dim_IntList, squares, [], like=like)


def _in_pieces(f, node, x, size, dim=0):
    """``chunk`` and ``split`` as pieces of known sizes."""
    parts = node.meta["val"]
    if not _is_static(_shape(x)):
        return NotImplemented
    sizes = [int(p.shape[dim]) for p in parts]
    return f.call(aten.split_with_sizes.default, x, sizes, *(() if dim == 0 else (dim,)), like=parts)


# --- products -------------------------------------------------------------------------


def _product(f, a, b, like):
    """``a @ b`` of matrices and of batches of them; NotImplemented for others."""
    left, right = _shape(a), _shape(b)
    if not _is_static(left, right):
        return NotImplemented if (len(left), len(right)) != (2, 2) else f.call(aten.mm.default, a, b, like=like)
    if len(left) == len(right) == 2:
        return f.call(aten.mm.default, a, b, like=like)
    if len(left) == 1 and len(right) == 2:
        row = f.call(aten.unsqueeze.default, a, 0, like=_fake(like, (1, *left)))
        found = f.call(aten.mm.default, row, b, like=_fake(like, (1, right[1])))
        return f.call(aten.squeeze.dims, found, [0], like=like)
    if len(left) > 2 and len(right) == 2:
        rows = math.prod(left[:-1])
        flat = _viewed(f, a, [rows, left[-1]], _fake(like, (rows, left[-1])))
        return _viewed(f, f.call(aten.mm.default, flat, b, like=_fake(like, (rows, right[1]))), like.shape, like)
    if len(left) > 2 and len(right) > 2:
        batch = tuple(like.shape[:-2])
        flat = []
        for x, shape in ((a, left), (b, right)):
            whole = (*batch, *shape[-2:])
            x = f.call(aten.expand.default, x, list(whole), like=_expanded(x.meta["val"], whole))
            flat.append(_viewed(f, x, [math.prod(batch), *shape[-2:]], _fake(like, (math.prod(batch), *shape[-2:]))))
        found = f.call(aten.bmm.default, *flat, like=_fake(like, (math.prod(batch), *like.shape[-2:])))
        return _viewed(f, found, like.shape, like)
    return NotImplemented


def _expanded(x, shape):
    return x if tuple(x.shape) == shape else x.expand(shape)


def _matmul(f, node, a, b):
    return _product(f, a, b, node.meta["val"])


def _linear(f, node, x, weight, bias=None):
    like, shape, rank = node.meta["val"], _shape(x), len(_shape(x))
    if len(_shape(weight)) != 2 or rank == 1 or not _is_static(shape) and rank != 2:
        return NotImplemented
    with_bias = bias is not None and len(_shape(bias)) == 1
    if bias is not None and not with_bias:
        return NotImplemented
    flat = x
    if rank > 2:
        rows = math.prod(shape[:-1])
        flat = _viewed(f, x, [rows, shape[-1]], _fake(like, (rows, shape[-1])))
    turned = f.call(aten.permute.default, weight, [1, 0], like=weight.meta["val"].t())
    inner = like if rank == 2 else _fake(like, (math.prod(shape[:-1]), like.shape[-1]))
    found = f.call(aten.addmm.default, bias, flat, turned, like=inner) if with_bias else f.call(
        aten.mm.default, flat, turned, like=inner)
    return found if rank == 2 else _viewed(f, found, like.shape, like)


FORMS = {
    aten.zeros.default: _full(0), aten.ones.default: _full(1),
    aten.zeros_like.default: _full_like(0), aten.ones_like.default: _full_like(1),
    aten.new_zeros.default: _new(0), aten.new_ones.default: _new(1), aten.new_full.default: _new(None),
    aten.arange.default: _arange, aten.sum.default: _sum, aten.square.default: _square,
    aten.floor_divide.default: _floor_divide, aten.reshape.default: _reshape,
    aten.clamp_min.default: _clamp(0), aten.clamp_max.default: _clamp(1), aten.silu.default: _silu,
    aten.where.ScalarOther: _where, aten.where.ScalarSelf: _where, aten.masked_fill.Scalar: _masked_fill,
    aten.hstack.default: _stacked(1, 2), aten.column_stack.default: _stacked(1, 2), aten.vstack.default: _stacked(0, 2),
    aten.dstack.default: _deep, aten.stack.default: _stack, aten.tile.default: _tile,
    aten.argsort.default: _argsort, aten.addcmul.default: _addcmul, aten.pad.default: _pad,
    aten.std.correction: _deviation, aten.outer.default: _outer, aten.mse_loss.default: _mse_loss,
    aten.chunk.default: _in_pieces, aten.split.Tensor: _in_pieces, aten.matmul.default: _matmul, aten.linear.default: _linear,
}

__all__ = ["FORMS", "SAME", "core_view", "is_whole"]
