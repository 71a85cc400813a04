"""Results of a compiled call that are views of its arguments: made of the arguments that the call was given."""

from __future__ import annotations

import functools

import numpy as np

from ...eager.autograd import tape
from ...eager.autograd.views import ViewNode, view_call
from ...eager.call.op import hooks
from ...eager.core.geometry import Geometry, Size, geometry, with_bits
from ...eager.tensor import wrap_view


class View:
    """How a result lies in the memory of an argument, or of its stand-in.

    Attributes:
        geometry, offset: where it lies.
        requires_grad: whether it has a graph.
        is_view: whether it knows a base, as the results of ``detach`` do not.
        steps: the calls that made it, ((definition, static values), ...), where its graph tells them: its nodes get
            their names by the same calls. None where other nodes lie between.
    """

    __slots__ = ("geometry", "offset", "requires_grad", "is_view", "steps")

    def __init__(self, t, argument):
        self.geometry, self.offset = t._ftorch_geometry, t._ftorch_offset
        self.requires_grad, self.is_view = t._ftorch_requires_grad, t._base is not None
        self.steps = _steps(t, argument) if self.requires_grad and argument._ftorch_requires_grad else None


def _steps(t, argument):
    """The views by which a tensor was made of an argument, or None."""
    found: list = []
    start, edge = tape.edge_of(argument), tape.edge_of(t)
    while edge != start:
        node = edge[0]
        if not isinstance(node, ViewNode):
            return None
        found.append((node.definition, node.static))
        edge = node.edges[0]
    return tuple(reversed(found))


def view_of(base, how: View, seen: Geometry | None = None):
    """The view of an argument that a result is.

    Args:
        seen: the geometry of the stand-in, if there was one.

    Returns:
        The view, or None where no strides say what a view of the stand-in is in the argument's memory.
    """
    g, offset = how.geometry, how.offset
    if seen is not None:
        found = _through(base._ftorch_geometry, seen, g, offset)
        if found is None:
            return None
        g, offset = found[0], found[1] + base._ftorch_offset
    if how.requires_grad and base._ftorch_requires_grad:
        if how.steps is not None:
            made = base
            for definition, static in how.steps:
                made = view_call(definition, made, static)
            if made._ftorch_geometry is g and made._ftorch_offset == offset:
                return made
        return hooks.part(base, g, offset - base._ftorch_offset)
    known = None
    if how.is_view:
        known = base if base._base is None else base._base
        if known._ftorch_requires_grad:  # a view of the detached argument
            known = wrap_view(base._ftorch_storage, base._ftorch_geometry, base._ftorch_offset, None)
    return wrap_view(base._ftorch_storage, g, offset, known)


@functools.lru_cache(1 << 12)
def _through(original: Geometry, seen: Geometry, g: Geometry, offset: int):
    """(geometry, offset from the argument's own) of a view of a stand-in, as a view of the argument; or None."""
    if g.dtype is not seen.dtype:
        return None
    places = np.full(max(seen.expanse, offset + g.expanse), -1, np.int64)
    _strided(places, seen)[...] = _strided(np.arange(original.expanse), original)
    wanted = _strided(places[offset:], g)
    if not wanted.size:
        start, strides = 0, g.stride
    else:
        start = int(wanted[(0,) * wanted.ndim])
        steps = [wanted[(0,) * d + (1,) + (0,) * (wanted.ndim - d - 1)] if n > 1 else start + s
                 for d, (n, s) in enumerate(zip(g.shape, g.stride))]
        strides = [int(s) - start for s in steps]
        known = start + sum(s * np.arange(n).reshape(-1, *[1] * (wanted.ndim - d - 1))
                            for d, (n, s) in enumerate(zip(g.shape, strides)))
        if min(strides, default=0) < 0 or (wanted < 0).any() or (wanted != known).any():
            return None
    made = geometry(Size(g.shape), g.dtype, g.device, tuple(strides))
    return with_bits(made, original.bits ^ g.bits), start


def _strided(array, g: Geometry):
    """A view of a flat array through a geometry."""
    return np.lib.stride_tricks.as_strided(array, g.shape, [s * array.itemsize for s in g.stride])
