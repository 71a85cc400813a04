"""Aliased outputs: views of a compiled call's arguments, made of the arguments that the call was given."""

from __future__ import annotations

from ...eager.autograd import tape
from ...eager.autograd.views import ViewNode, view_call
from ...eager.call.op import hooks
from ...eager.tensor import wrap_view


class View:
    """How a result lies in the memory of an argument.

    Attributes:
        geometry, offset: where it lies, from the argument's first element.
        requires_grad: whether it has a graph.
        is_view: whether it knows a base, as the results of ``detach`` do not.
        steps: the calls that made it, ((definition, static values), ...), where its graph tells them: its nodes get
            their names by the same calls. None where other nodes lie between.
    """

    __slots__ = ("geometry", "offset", "requires_grad", "is_view", "steps")

    def __init__(self, t, argument):
        self.geometry, self.offset = t._ftorch_geometry, t._ftorch_offset - argument._ftorch_offset
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
        edge = node._ftorch_edges[0]
    return tuple(reversed(found))


def view_of(base, how: View):
    """The view of an argument that a result is."""
    g, offset = how.geometry, base._ftorch_offset + how.offset
    if how.requires_grad and base._ftorch_requires_grad:
        if how.steps is not None:
            made = base
            for definition, static in how.steps:
                made = view_call(definition, made, static)
            if made._ftorch_geometry is g and made._ftorch_offset == offset:
                return made
        return hooks.part(base, g, how.offset)
    known = None
    if how.is_view:
        known = base if base._base is None else base._base
        if known._ftorch_requires_grad:  # a view of the detached argument
            known = wrap_view(base._ftorch_storage, base._ftorch_geometry, base._ftorch_offset, None)
    return wrap_view(base._ftorch_storage, g, offset, known)
