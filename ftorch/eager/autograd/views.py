"""Views: a geometry rule, a tensor on the same storage, and a node.

The gradient of a view is the adjoint of reading: zeros, with the view's elements written in. It is
derived from the rule applied to a contiguous tensor of the input's shape.
"""

from __future__ import annotations

from ..call.op import hooks, joined_graph, special
from ..call.operands import hashable, holds_tensors
from ..core import api
from ..core.geometry import CONJ, NEG, Geometry, Size, geometry, may_overlap, with_bits
from ..core.registry import OPS, OpDef
from ..memory.storage import PrivateMap
from ..runtime import capture_trace
from ..tensor import DISPATCHING, PLAIN, VersionCounter, counter_of, extras, modes, wrap_view
from . import derivatives
from .gradient_names import of_view_gradient
from .nodes import Node
from .tape import IN_INFERENCE, IN_NO_GRAD, ONE_OF_SEVERAL, edge_of, node_class, rename_node
from .view_nodes import strided_adjoint

_MEMO_LIMIT = 4096


def _shown_names(self):
    from .saved_values import names_of

    return [*Node.__dir__(self), *names_of(self)]


class ViewNode(Node):
    """The node of a view op."""

    __slots__ = ("definition", "static", "base")
    _ftorch_is_view = True

    def __init__(self, definition, static, base: Geometry):
        super().__init__()
        self.definition, self.static, self.base = definition, static, base

    def apply(self, grads):
        if hooks.view_gradient is not None and (special[0] or grads[0].__class__ in DISPATCHING):
            found = hooks.view_gradient(self.definition, self.static, self.base, grads[0])
            if found is not None:
                return [found]
        base = with_bits(self.base, 0)
        if self.definition.name == "as_strided":
            return [_as_strided_adjoint(grads[0], base, self.static)]
        if not base.is_contiguous:
            base = geometry(base.shape, base.dtype, base.device)
        view, offset = _apply_rule(self.definition, base, self.static)
        found = strided_adjoint(grads[0], base, view, offset)
        if found._grad_fn is not None:
            name = of_view_gradient(self.definition.name, base, view)
            if name is not None:
                rename_node(found._grad_fn, name)
        return [found]

    def __getattr__(self, name):
        if name.startswith("_saved_"):
            from .saved_values import of_view

            return of_view(self, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    __dir__ = _shown_names


class PiecesNode(Node):
    """The node of an op whose results are views of consecutive pieces of a tensor."""

    __slots__ = ("pieces", "dim", "join")
    _ftorch_is_view = True

    def __init__(self, pieces, dim, join):
        super().__init__()
        self.pieces, self.dim, self.join = pieces, dim, join

    _ftorch_width = property(lambda self: len(self.pieces))
    __dir__ = _shown_names

    def __getattr__(self, name):
        if name.startswith("_saved_"):
            from .saved_values import of_split

            return of_split(self, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def apply(self, grads):
        absent: dict = {}
        for i, (g, piece) in enumerate(zip(grads, self.pieces, strict=True)):
            if g is None:
                if piece not in absent:
                    absent[piece] = api.zeros(piece.shape, dtype=piece.dtype, device=piece.device)
                grads[i] = absent[piece]
        return [getattr(api, self.join)(grads, self.dim)]


def _as_strided_adjoint(grad, base, static):
    """as_strided addresses memory, so its gradient is collected in memory, then read back."""
    size, stride, offset = static
    view = geometry(Size(size), base.dtype, base.device, tuple(stride))
    before = max(0, -offset)  # memory in front of the tensor's first element
    reach = max(before + base.expanse, before + offset + view.expanse)
    flat = geometry(Size((reach,)), base.dtype, base.device)
    whole = strided_adjoint(grad, flat, view, before + offset)
    if may_overlap(base):
        # The gradient of a place in memory is shared among the elements that lie there.
        ones = api.ones(base.shape, dtype=base.dtype, device=base.device)
        whole = api.div(whole, strided_adjoint(ones, flat, base, before))
    return as_strided(whole, base.shape, base.stride, before)


def _apply_rule(definition, g: Geometry, static):
    result = definition.kernel(g, *static)
    dtype = result[3] if len(result) > 3 else g.dtype
    view = geometry(Size(result[0]), dtype, g.device, tuple(map(_python_int, result[1])))
    return with_bits(view, result[4] if len(result) > 4 else g.bits), _python_int(result[2])


def _python_int(value):
    """An int of what may come from an argument that is NumPy's integer, of which C knows nothing."""
    return value if isinstance(value, int) else value.__index__()


def view_call(definition: OpDef, x, static=()):
    """Calls a view op.

    Args:
        static: the schema's arguments behind ``self``.
    """
    if special[0]:
        handled, result = hooks.dispatch_view(definition, x, static)
        if handled:
            return result
    if x.__class__ not in PLAIN:
        handled, result = hooks.override_view(definition, x, static)
        if handled:
            return result
    g = x._ftorch_geometry
    memo = g._views
    key = (definition, static)
    try:
        found = memo.get(key)
    except TypeError:
        return view_call(definition, x, hashable(static))
    if found is None:
        if holds_tensors(static):
            return view_call(definition, x, hashable(static, definition))
        if len(memo) > _MEMO_LIMIT:
            memo.clear()
        last = g.shape[-1] * g.dtype.itemsize if g.shape and not definition.differentiable else 0
        if x._ftorch_offset and last and last % static[0].itemsize == 0:
            _rescaled(x._ftorch_offset, g.dtype, static[0], definition)  # told before what is wrong with the strides
        found = memo[key] = _apply_rule(definition, g, static)
    return make_view(definition, x, static, found[0], found[1])


def make_view(definition, x, static, view: Geometry, delta: int):
    """The tensor of a view whose geometry is known."""
    base = x._base
    offset = x._ftorch_offset
    if view.dtype is not x._ftorch_geometry.dtype:
        if offset:
            offset = _rescaled(offset, x._ftorch_geometry.dtype, view.dtype, definition)
        elif type(x._ftorch_storage.host) is PrivateMap:
            x._ftorch_storage.reinterpret(view.dtype)
    if not definition.differentiable:  # autograd knows nothing of it: no base, and no graph
        out = wrap_view(x._ftorch_storage, view, offset + delta, None)
        if x._ftorch_meta is not None:
            _inherit(x, out)
        return out
    if x._ftorch_storage.version < 0:  # autograd knows nothing of inference tensors, either
        base, of = None, None
    else:
        of = x if base is None else base
    out = wrap_view(x._ftorch_storage, view, offset + delta, of)
    if of is not None and (x._ftorch_requires_grad or (base is not None and joined_graph(x))):
        if modes.grad:
            if view.dtype.category >= 2:
                node = node_class(derivatives.node_name(definition), ViewNode)(
                    definition, static, x._ftorch_geometry
                )
                node._ftorch_edges = (edge_of(x),)
                out._grad_fn, out._ftorch_requires_grad = node, True
        else:
            extras(out).creation = "inference" if modes.inference else "no_grad"
    elif not modes.grad:
        out._ftorch_output_nr = IN_INFERENCE if modes.inference or x._ftorch_output_nr == IN_INFERENCE else IN_NO_GRAD
    elif x._ftorch_output_nr < 0:
        out._ftorch_output_nr = x._ftorch_output_nr
    if x._ftorch_meta is not None:
        _inherit(x, out)
    return out


def of_one_call(views, name: str, dim: int, join="cat", guarded=True) -> tuple:
    """Views that are the outputs of one PyTorch operator: they have one node, named after it.

    Args:
        dim: the dimension along which they follow each other.
        join: what makes the whole of such pieces: "cat", or "stack" if they lack the dimension.
        guarded: whether they must not be written to in place while graphs are recorded; if not, writes to one are no matter
            of the others, nor of the whole.
    """
    for view in views:
        if view.__class__ in PLAIN:  # not a transform's, whose inner tensor was seen
            if not guarded and not modes.inference:
                view._base, view._ftorch_output_nr, meta = None, 0, extras(view)
                meta.creation, meta.counter = None, VersionCounter()
            elif guarded and not view._ftorch_output_nr:
                view._ftorch_output_nr = ONE_OF_SEVERAL
    sources = [view._grad_fn for view in views]
    if sources and all(isinstance(node, ViewNode) for node in sources):
        pieces = [with_bits(view._ftorch_geometry, 0) for view in views]
        node = node_class(f"{name}Backward0", PiecesNode)(pieces, dim, join)
        node._ftorch_edges = sources[0]._ftorch_edges
        for i, view in enumerate(views):
            view._grad_fn, view._ftorch_output_nr = node, i
            if guarded:
                extras(view).creation = (i, name)
    return tuple(views)


def _rescaled(offset, old, new, definition):
    """An offset in elements of another dtype."""
    count, rest = divmod(offset * old.itemsize, new.itemsize)
    if not rest:
        return count
    if definition.name == "view_as_complex":
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    raise RuntimeError(
        f"self.storage_offset() must be divisible by {new.itemsize // old.itemsize} to view "
        f"{old.scalar_name} as {new.scalar_name} (different element sizes), but got {offset}"
    )


def _inherit(x, out):
    meta = x._ftorch_meta
    if meta.counter is not None or meta.creation is not None:
        to = extras(out)
        to.counter = meta.counter
        out._ftorch_attr_version = counter_of(x).version
        to.creation = to.creation or meta.creation


def as_strided(x, size, stride, storage_offset=None):
    """``x.as_strided(size, stride, storage_offset)``."""
    size, stride = tuple(map(int, size)), tuple(map(int, stride))
    start = x._ftorch_offset
    if storage_offset is not None:
        start = storage_offset
        capture_trace.asks_place()
    if x._ftorch_storage.error is None:
        _check_bounds(x, size, stride, start)
    # Rules give offsets relative to the tensor's own.
    return view_call(OPS["as_strided"], x, (size, stride, start - x._ftorch_offset))


def _check_bounds(x, size, stride, start):
    if len(size) != len(stride) or 0 in size or min(stride, default=0) < 0:
        return
    item = x._ftorch_geometry.dtype.itemsize
    needed = (start + 1 + sum((n - 1) * s for n, s in zip(size, stride))) * item
    if needed > x._ftorch_storage.nbytes:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {start}, and "
            f"itemsize {item} requiring a storage size of {needed} are out of bounds for storage of "
            f"size {x._ftorch_storage.nbytes}"
        )


def part(t, g: Geometry, offset: int):
    """The tensor of a geometry, at an offset from ``t``, in the storage of ``t``."""
    start, own = t._ftorch_offset, t._ftorch_geometry.dtype
    if g.dtype is not own:  # a part of complex numbers, or pairs as such: the whole storage is seen as the other
        items = t._ftorch_storage.nbytes // own.itemsize
        if own.is_complex:
            t = view_call(OPS["view_as_real"], as_strided(t, (items,), (1,), 0), ())
            start *= 2
        else:
            t = view_call(OPS["view_as_complex"], as_strided(t, (items // 2, 2), (2, 1), 0), ())
            start //= 2
    found = as_strided(t, g.shape, g.stride, offset + start)
    for bit, name in ((CONJ, "_conj"), (NEG, "_neg_view")):
        if (found._ftorch_geometry.bits ^ g.bits) & bit:
            found = view_call(OPS[name], found)
    return found


hooks.part = part
