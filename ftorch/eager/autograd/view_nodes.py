"""View tracking: the nodes of views and of their bases; what was written to through a view gets a new history."""

from __future__ import annotations

from ..call.op import call
from ..core.geometry import Geometry, with_bits
from ..memory.view import access
from ..tensor import wrap_view
from . import derivatives, gradient_values
from .nodes import Node


class AliasNode(Node):
    """The node of a view regenerated from its base: as_strided."""

    __slots__ = ("base", "view", "offset")
    _ftorch_is_view = True

    def __init__(self, base: Geometry, view: Geometry, offset: int):
        super().__init__()
        self.base, self.view, self.offset = base, view, offset

    def apply(self, grads):
        return [strided_adjoint(grads[0], self.base, self.view, self.offset)]


def strided_adjoint(grad, base: Geometry, view: Geometry, offset: int):
    """The gradient of a base, given that of its part: what was not read gets zeros."""
    way, starts = access(base if base.is_dense else derivatives.covering(base), view, offset)
    out = call(derivatives.adjoint_of(way, base, view), (grad, *starts))
    if not base.is_dense:
        out = wrap_view(out._ftorch_storage, base, 0, None)
    return out


class CopySlices(Node):
    """The history of a base after an in-place operation on a view of it."""

    __slots__ = ("base", "view", "offset", "inner")

    def __init__(self, base, view, offset, inner):
        super().__init__()
        view, base = with_bits(view, view.bits ^ base.bits), with_bits(base, 0)
        self.base, self.view, self.offset, self.inner = base, view, offset, inner

    def _ftorch_release(self):
        self.inner._ftorch_release()

    def apply(self, grads):
        grad = grads[0]
        whole = gradient_values.clone_with(grad, self.base)
        part = gradient_values.alias(whole, self.view, self.offset)
        inner = self.inner.apply([gradient_values.clone_with(part, None)])
        if self._ftorch_edges[0] is not None:
            if not hasattr(inner[0], "_ftorch_level"):
                gradient_values.overwrite(part, inner[0])
            else:  # a transform's, which may vary among examples where the whole does not
                gradient_values.overwrite(part, None)
                whole = gradient_values.add(whole, strided_adjoint(inner[0], self.base, self.view, self.offset))
        return [whole, *inner[1:]]
