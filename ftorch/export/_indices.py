"""``x[...]`` as an exported graph has it: one by one the views that the user wrote, for any size.

What an index becomes for one size says too little: ``x[:100]`` of ten rows is all of them, ``x[n - 2:]`` of two as well.
"""

from __future__ import annotations

import math
from typing import Any

from .._ops import ops
from ..eager.core.geometry import Size
from ..eager.tensor import modes
from ..fx.experimental._trace_level import Traced
from ..fx.experimental.symbolic_shapes import SymInt, is_symbolic
from ..fx.node import Node
from ._leaf_calls import ASKING

_END = 9223372036854775807


def items_of(index, rank):
    """The parts of an index that is made of numbers, slices and new dimensions; None for others.

    Args:
        rank: of the tensor, whose dimensions an ellipsis stands for (as `...`, once for each).
    """
    items = list(index) if isinstance(index, tuple) else [index]
    if not all(_is_basic(item) for item in items) or items.count(...) > 1:
        return None
    if ... in items:
        where = items.index(...)
        items[where : where + 1] = [...] * (rank + 1 - len(items) + items.count(None))
    return items


def items_of_static(static, shape):
    """The parts of an index that views are of: numbers, None and (start, step, count), with `...` for whole dimensions."""
    items, sizes = [], iter(shape)
    for item in static:
        size = None if item is None else next(sizes)
        if isinstance(item, tuple):
            start, step, count = item
            stop = start + step * (count - 1) + 1 if count else start
            item = ... if item == (0, 1, size) else slice(start, None if stop == size else stop, step)
        items.append(item)
    return items


def around_tensors(index, rank):
    """(parts as of `items_of`, what is left) of an index with tensors or truths, whose slices come first; None without slices.

    The first has `...` for the dimensions of tensors and numbers, the second whole dimensions for slices and new dimensions.

    Args:
        rank: of the tensor.
    """
    items = list(index) if isinstance(index, tuple) else [index]
    left = rank - sum(_dims_taken(item) for item in items if item is not None and item is not ...)
    if left < 0 or sum(item is ... for item in items) > 1:  # an error, which the engine raises
        return None
    first, rest = [], []
    for item in items:
        if item is ...:
            first += [...] * left
            rest += [slice(None)] * left
        elif item is None or (isinstance(item, slice) and _is_basic(item)):
            first.append(item)
            rest.append(slice(None))
        else:
            first += [...] * _dims_taken(item)
            rest.append(item)
    return (first, tuple(rest)) if any(isinstance(item, slice) for item in first) else None


def _dims_taken(item):
    """How many dimensions an index is for: one, and a mask, also one of nested lists, for as many as it has."""
    depth = 0
    while isinstance(item, (list, tuple)) and item:
        item, depth = item[0], depth + 1
    is_mask = isinstance(item, bool) or getattr(getattr(item, "dtype", None), "name", "") in ("bool", "uint8")
    return depth + getattr(item, "ndim", 0) if is_mask else 1


def _is_basic(item):
    if isinstance(item, slice):
        return all(part is None or _is_number(part) for part in (item.start, item.stop, item.step))
    return item is None or item is ... or _is_number(item)


def _is_number(item):
    return isinstance(item, (int, SymInt)) and not isinstance(item, bool)


def calls(items):
    """The calls of overloads that a basic index is: (overload, its arguments behind the tensor)."""
    found, dim = [], 0
    for item in items:
        if item is None:
            found.append((ops.aten.unsqueeze.default, (dim,)))
        elif isinstance(item, slice):
            start, stop = 0 if item.start is None else item.start, _END if item.stop is None else item.stop
            step = () if item.step in (None, 1) else (item.step,)
            found.append((ops.aten.slice.Tensor, (dim, start, stop, *step)))
        elif item is not ...:
            found.append((ops.aten.select.int, (dim, item)))
            continue
        dim += 1
    return found


def decide(sizes, items) -> None:
    """Compares what slices ask for with the sizes that they are of, as PyTorch's kernel does, where one is a symbol."""
    dim = 0
    for item in items:
        if item is None:
            continue
        if isinstance(item, slice):
            bounds = item.start, item.stop
            if is_symbolic([sizes[dim], *bounds]) and item != slice(None):
                _clamped(sizes[dim], *bounds)
        dim += 1


def _clamped(size, start, stop):
    start = 0 if start is None else start
    if start < 0:
        start = start + size
    if start < 0:
        start = 0
    elif start > size:
        start = size
    if stop is None:
        return
    if stop < 0:
        stop = stop + size
    bool(stop < start or stop > size)


def settle(graph, outputs) -> None:
    """Writes the indices of a graph whose sizes are known, numbers or symbols, as PyTorch's export does.

    Args:
        outputs: specifications of the graph's, which have nodes' names.
    """
    slices = [n for n in graph.nodes if n.target is ops.aten.slice.Tensor]
    names = [n.name for n in slices]
    _without_whole(graph)
    for node, name in zip([n for n in slices if n.graph is graph and not n._erased], names):
        node.name = name
    for spec, value in zip(outputs, graph.output_node().args[0]):
        if isinstance(value, Node):
            spec.arg.name = value.name


def _without_whole(graph):
    chains: dict[int, list[Node]] = {}
    for node in graph.nodes:
        if "index" in node.meta:
            chains.setdefault(id(node.meta["index"]), []).append(node)
    for chain in chains.values():
        has_symbol = any(isinstance(a, Node) for node in chain for a in node.args[1:])
        is_alone = chain[0].meta["index"].is_alone
        for node in chain:
            del node.meta["index"]
            if node.target is not ops.aten.slice.Tensor:
                continue
            if has_symbol:
                source, dim, start, stop, *step = node.args
                bounds = _unless(start, 0), _unless(stop, _END)
                if step or bounds != (None, None):
                    node.args = source, dim, *(bounds[:1] if bounds[1] is None and not step else bounds), *step
                    continue
            elif is_alone or not _is_whole(*node.args):
                continue
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def _unless(value, default):
    return None if isinstance(value, int) and value == default else value


def _is_whole(x, dim, start, stop, step=1):
    """Whether a slice is known to be all of a dimension."""
    size = x.meta["val"].shape[dim]
    return not is_symbolic(size) and start == 0 and step == 1 and stop in (size, _END)


class Index:
    """What the nodes of one index have in common.

    Attributes:
        is_alone: whether the index was no tuple.
    """

    def __init__(self, is_alone):
        self.is_alone = is_alone


# --- tensors of a run ---------------------------------------------------------------------


class Indexed(Traced):
    """A tensor that tells its level how the user indexes it."""

    __slots__ = ()

    def __getitem__(self, index):
        return _by_views(self, index, Traced.__getitem__)

    def __setitem__(self, index, value):
        _by_views(self, index, Traced.__setitem__, value)


def _by_views(x: Any, index, method, *value):
    """Reads or writes what an index is of, where its views are told first."""
    level, items = x._ftorch_level, items_of(index, x.dim())
    if items is not None:
        return level.indexed(x, items, not isinstance(index, tuple), lambda: method(x, index, *value))
    parts = around_tensors(index, x.dim())
    if parts is None:
        return method(x, index, *value)
    first, rest = parts
    whole = tuple(slice(None) if item is ... else item for item in first)
    return method(level.indexed(x, first, False, lambda: Traced.__getitem__(x, whole)), rest, *value)


def _asking(name):
    """A method that asks the level first whether its graph has the call as one op."""
    method = getattr(Traced, name)

    def call(self, *args, **kwargs):
        level = self._ftorch_level
        if level.composites and modes.levels and modes.levels[-1] is level:
            result = level.composite(method, (self, *args), kwargs)
            if result is not NotImplemented:
                return result
        return method(self, *args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


for _name in ASKING:
    setattr(Indexed, _name, _asking(_name))


class Watched(Indexed):
    """A tensor whose sizes know how they follow from symbols, to Python."""

    __slots__ = ()

    @property
    def shape(self):
        shape = self._ftorch_geometry.shape
        return tuple.__new__(Size, self._ftorch_level.sizes_shown(self._node, shape))  # type: ignore[attr-defined]

    def size(self, dim=None):
        """The sizes, or one of them."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self):
        """The number of elements."""
        return math.prod(self.shape)

    nelement = numel

    def is_same_size(self, other):
        """Whether another tensor has the same sizes."""
        return self.shape == other.shape

    def __len__(self):
        shape = self.shape
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        return int(shape[0])


__all__ = ["Index", "Indexed", "Watched", "around_tensors", "calls", "decide", "items_of", "items_of_static", "settle"]
