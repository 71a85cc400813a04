"""Views as the core ATen ops that they are: `permute`, `view`, `slice`, `squeeze`, `expand`, whatever they were called by."""

from __future__ import annotations

from .._ops import ops
from ..fx.experimental.symbolic_shapes import is_symbolic
from ..fx.node import Node

aten = ops.aten

# Conversions that give the tensor itself where nothing changes.
SAME = frozenset("to type_as contiguous".split())
_RESHAPED = frozenset("reshape flatten unflatten ravel reshape_as view_as _unsafe_view".split())
_REVERSED = frozenset("t mT mH adjoint matrix_H numpy_T".split())


def is_whole(node):
    """Whether it is ``atleast_1d`` or its like of a tensor with that many dimensions, which is the tensor itself."""
    name = getattr(node.target, "_opname", "")
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


__all__ = ["SAME", "core_view", "is_whole"]
