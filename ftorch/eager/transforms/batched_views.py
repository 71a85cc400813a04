"""Views of ``vmap``'s tensors as the same views of tensors with one dimension more, for whoever sees the calls below.

Where nobody does, a view of all examples is taken at once, by strides.
"""

from __future__ import annotations

from ..autograd.views import view_call
from ..core.registry import OPS


def of_examples(definition, inner, rank, static, shape):
    """The view of all examples, by calls of PyTorch's views; None for one that has no rule.

    Args:
        inner: the tensor below, examples in front; of ``rank`` dimensions each.
        shape: of the view of one example.
    """
    name = definition.full_name
    if name.startswith("_index_"):
        return view_call(definition, inner, (((0, 1, inner.shape[0]), *static[0]), *static[1:]))
    rule = _RULES.get(name)
    if rule is None:
        return None
    steps = _expanded(inner, rank, tuple(shape)) if rule is _expanded else rule(inner.shape[0], rank, tuple(shape), *static)
    for view, arguments in steps:
        inner = view_call(OPS[view], inner, arguments)
    return inner


def _at(dim, rank):
    return dim % max(rank, 1) + 1


def _swapped(_, rank, shape, a, b):
    return [("transpose.int", (_at(a, rank), _at(b, rank)))]


def _last_swapped(_, rank, shape):
    return [("transpose.int", (rank - 1, rank))] if rank > 1 else [("alias", ())]


def _reshaped(size, rank, shape, *__):
    return [("view", ((size, *shape),))]


def _expanded(inner, rank, shape):
    """``expand``: dimensions that the tensor lacks come first."""
    lead = (1,) * (len(shape) - rank)
    return [("view", ((inner.shape[0], *lead, *inner.shape[1:]),)), ("expand", ((inner.shape[0], *shape), False))]


def _moved(_, rank, shape, source, destination):
    source, destination = ((d,) if isinstance(d, int) else d for d in (source, destination))
    placed = {d % rank: s % rank for s, d in zip(source, destination)}
    rest = iter(d for d in range(rank) if d not in placed.values())
    return [("permute", ((0, *(1 + (placed[d] if d in placed else next(rest)) for d in range(rank))),))]


_RULES = {
    "alias": lambda *_: [("alias", ())],
    "select.int": lambda _, rank, shape, dim, index: [("select.int", (_at(dim, rank), index))],
    "slice.Tensor": lambda _, rank, shape, dim, start, end, step: [("slice.Tensor", (_at(dim, rank), start, end, step))],
    "narrow": lambda _, rank, shape, dim, start, length: [("slice.Tensor", (_at(dim, rank), start, start + length, 1))],
    "transpose.int": _swapped, "swapaxes": _swapped, "swapdims": _swapped, "t": _last_swapped, "mT": _last_swapped,
    "permute": lambda _, rank, shape, dims: [("permute", ((0, *(_at(d, rank) for d in dims)),))],
    "numpy_T": lambda _, rank, shape: [("permute", ((0, *range(rank, 0, -1)),))],
    "unsqueeze": lambda _, rank, shape, dim: [("unsqueeze", (_at(dim, rank + 1),))],
    "squeeze.dim": lambda _, rank, shape, dim: [("squeeze.dims", ((_at(dim, rank),),))],
    "squeeze.dims": lambda _, rank, shape, dims: [("squeeze.dims", (tuple(_at(d, rank) for d in dims),))],
    "movedim.intlist": _moved, "expand": _expanded, "broadcast_to": _expanded,
    "squeeze": _reshaped, "view": _reshaped, "unflatten.int": _reshaped,
    "diagonal": lambda _, rank, shape, offset, a, b: [("diagonal", (offset, _at(a, rank), _at(b, rank)))],
    "unfold": lambda _, rank, shape, dim, size, step: [("unfold", (_at(dim, rank), size, step))],
    "view_as_real": lambda *_: [("view_as_real", ())], "view_as_complex": lambda *_: [("view_as_complex", ())],
}
