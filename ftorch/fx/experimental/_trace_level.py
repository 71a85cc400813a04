"""The level that records calls on tensors as nodes of a graph."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ... import _ops
from ..._dispatch import python_dispatch
from ..._subclasses.fake_tensor import default_mode, fake_like
from ...autograd.grad_mode import no_grad
from ...eager.autograd import derivatives, inplace_history, saved_tensors, tape
from ...eager.autograd.views import ViewNode, view_call
from ...eager.call import op as _op
from ...eager.call import planning
from ...eager.call.operands import normalize, tensors_of
from ...eager.core import api, formats
from ...eager.core.registry import OpDef
from ...eager.core.return_values import named
from ...eager.dispatch.levels import Level, Wrapped, record_wrapped, wrapped_plan
from ...eager.dispatch.randomness import FILL
from ...eager.tensor import TensorBase, count_write, counter_of, modes
from ...eager.tensor_api.methods import relayout
from ...nn import Module, Parameter
from ..graph import Graph, snake_case
from ..node import Node, map_aggregate

_LOOK = (
    "It appears that you're trying to get value out of a tracing tensor with "
    "aten._local_scalar_dense.default - erroring out! It's likely that this is caused by "
    "data-dependent control flow or similar.  It may be possible to trace this with dynamic shapes; "
    "try setting tracing_mode='symbolic' in your make_fx call."
)


class Kernel:
    """A function that is no part of ``torch.ops``, such as an op of a gradient.

    Attributes:
        writes: whether it changes its first argument.
        op, static: the op that it calls and its static arguments, if it is one.
    """

    def __init__(self, name: str, function: Callable, writes: bool = False, op=None, static=()):
        self.function, self.writes, self.op, self.static = function, writes, op, static
        self.__name__ = self.__qualname__ = name.replace(".", "_")
        self.__module__ = "kernels"  # of no module: generated code has the object in its globals

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)


_UNREAD = frozenset("masked_fill fill masked_scatter copy where".split())  # their gradients read no elements of the target
_LAYOUTS = (formats.contiguous_format, formats.channels_last, formats.channels_last_3d)


def _strides(shape, layout):
    try:
        return formats.strides_for(shape, layout)
    except RuntimeError:
        return None


def kernel_of(op: _op.Op, static: tuple, form: str) -> Kernel:
    """A call of an op with its static arguments."""
    call, suffix = (_op.call_inplace, "_") if form == "inplace" else (_op.call, "")
    return Kernel(
        op.name + suffix, lambda *operands: call(op, operands, static), form == "inplace", op, static
    )


class Traced(Wrapped):
    """A tensor whose ops are recorded. ``_node`` computes it; ``_inner`` is its value."""

    __slots__ = ("_node",)
    _node: Node

    @property
    def fake_device(self):
        """As of a `FakeTensor`, which it is to who asks where that is what PyTorch records with."""
        return self.device

    @property
    def fake_mode(self):
        return default_mode()


_RENAMED = {"swapaxes_": "transpose_", "swapdims_": "transpose_"}


class Positions(Traced):
    """Positions of a mask's true elements along one dimension; their node is the mask's."""

    __slots__ = ()


def _with_masks(value):
    """Arguments in which a mask stands once for the positions of its elements."""
    if value.__class__ not in (list, tuple):
        return value
    if not any(isinstance(v, (list, tuple, Positions)) for v in value):
        return value
    out: list = []
    for v in value:
        last = out[-1] if out else None
        if not (v.__class__ is Positions and last.__class__ is Positions and last._node is v._node):
            out.append(_with_masks(v))
    return out if value.__class__ is list else tuple(out)


class TraceLevel(Level):
    """Records calls into a graph; constants become attributes of ``root``."""

    is_graph = True

    def __init__(self):
        super().__init__()
        self.graph = Graph()
        self.root = Module()
        self._constants: dict[int, tuple[str, Any]] = {}

    # --- tensors and nodes

    def track(self, value, node: Node) -> Traced:
        """A tensor as the value of a node."""
        t = Traced.make(self, value, value._ftorch_geometry)
        t._node = node
        node.meta["val"] = fake_like(value)
        return t

    def results(self, value, node: Node):
        """The results of an op as values of a node and of its items."""
        if isinstance(value, TensorBase):
            return self.track(value, node)
        items = []
        for i, item in enumerate(value):
            part = self.graph.call_function(operator.getitem, (node, i))
            items.append(self.track(item, part))
        node.meta["val"] = tuple(fake_like(v) for v in value)
        return items

    def created(self, t, args, **options) -> Traced:
        """A tensor that `ftorch.eager.call.op.create` made, as the value of a node."""
        definition = _op.op_named(args[0]).definition
        packet = getattr(_ops.ops.aten, definition.name)
        args, kwargs = packet.arguments(definition, args[1:]) if hasattr(packet, "arguments") else (
            tuple(args[1:]), {}
        )
        names = [a.name for a in definition.schema.arguments if a.name != "dtype"]
        kwargs = {**kwargs, **{k: options[k] for k in ("dtype", "device") if options.get(k)}}
        node = self.graph.call_function(
            packet.default, args[: len(names)], kwargs, name=definition.name
        )
        return self.track(t, node)

    is_kept = None  # which nodes that nobody uses stay in the graph; None: those with effects

    def node_of(self, t) -> Node:
        """The node of a tensor: its own, its creation's, or that of a constant."""
        if isinstance(t, Traced) and t._ftorch_level is self:
            return t._node
        name = self._constants.get(id(t), (None,))[0]
        if name is None:
            kind = "param" if isinstance(t, Parameter) else "tensor"
            count = sum(n.startswith(f"_{kind}_") for n, _ in self._constants.values())
            name = f"_{kind}_constant{count}"
            self._constants[id(t)] = (name, t)
            setattr(self.root, name, t)
        return self.graph.get_attr(name)

    def arguments(self, value):
        """Nested operands with nodes for tensors."""
        return map_aggregate(_with_masks(value), lambda a: self.node_of(a) if isinstance(a, TensorBase) else a)

    def _positions(self, mask):
        """The positions of a mask's true elements; in the graph the mask itself stands for them, as an index."""
        with self.below():
            found = api.nonzero(mask._inner).unbind(1)
        made = [Positions.make(self, p, p._ftorch_geometry) for p in found]
        for p in made:
            p._node = mask._node
        return made

    def _inner(self, operands):
        return map_aggregate(
            tuple(operands),
            lambda a: a._inner if isinstance(a, Traced) and a._ftorch_level is self else a,
        )

    # --- recording

    def _target(self, op, operands, static, form):
        """(function, args, kwargs) that the graph keeps of a call."""
        definition = op.definition if isinstance(op, _op.Op) else op
        found = _ops.overload_call(definition, operands, static, form)
        return found or (kernel_of(op, static, form), tuple(operands), {})

    def record(self, op, operands, static=(), form="function") -> Node:
        """The node of a call."""
        target, args, kwargs = self._target(op, operands, static, form)
        args, kwargs = self.arguments(args), self.arguments(kwargs)
        name = snake_case(target.__name__.partition(".")[0])
        return self.graph.call_function(target, args, dict(kwargs), name=name)

    def call(self, op, operands, static):
        node = self.record(op, operands, static)
        operands = normalize(op, operands)
        with self.below():
            value = _op.call(op, self._inner(operands), static)
        outputs = self.results(value, node)
        many = [outputs] if isinstance(outputs, Traced) else outputs
        if not op.host and isinstance(value, (TensorBase, tuple, list)):
            plan, tensors, scalars = wrapped_plan(op, operands, static)
            record_wrapped(plan, self, tensors, scalars, many, () if self.sees_aten else None)
        if isinstance(outputs, Traced):
            return outputs
        return named(op.definition, many) if isinstance(op.definition, OpDef) else tuple(many)

    def call_inplace(self, op, operands, static):
        target, shown = operands[0], operands
        operands = normalize(op, operands)
        tensors = list(tensors_of(operands))
        plan = planning.build_inplace(op, operands, static)
        mask = tuple(isinstance(t, Traced) and t._ftorch_requires_grad for t in tensors)
        recorded = modes.grad and plan.differentiable and any(mask)
        if recorded:
            inplace_history.check_inplace(target)
        if recorded:
            scalars = [o for o in operands
                       if not isinstance(o, (TensorBase, list, tuple, type(None)))]
            backward = derivatives.of_plan(plan, mask, tape.node_class)
            reads = op.name not in _UNREAD and any(i >= 0 and tensors[i] is target for i in backward.saved)
            if reads:  # what the gradient reads is written over
                with no_grad():
                    before = target.clone()
                tensors = [before if t is target else t for t in tensors]
        node = self.record(op, shown, static, "inplace")
        if recorded:
            history = backward.node_class(backward, scalars)
            history._ftorch_edges = tuple(tape.edge_of(t) if m else None for t, m in zip(tensors_of(operands), mask))
            history.saved = [saved_tensors.save(tensors[i]) if i >= 0 else None for i in backward.saved]
        with self.below():
            _op.call_inplace(op, self._inner(operands), static)
        if isinstance(target, Traced):
            target._node = node
        count_write(target)
        if recorded:
            inplace_history.rebase(target, history)
            history.saved = [s if i >= 0 else self.save_result(target) for s, i in zip(history.saved, backward.saved)]
        return target

    def _record_view(self, definition, x, static) -> Node:
        if not definition.name.startswith("_index_"):
            return self.record(definition, (x,), static)
        # The views of ``x[...]``: what each part of the index does.
        node, dim, aten = x._node, 0, _ops.ops.aten
        shape = iter(x.shape)
        for item in static[0]:
            size = None if item is None else next(shape)
            if item is None:
                call = aten.unsqueeze.default, (node, dim)
            elif isinstance(item, int):
                call = aten.select.int, (node, dim, item)
            else:
                start, step, count = item
                stop = start + step * (count - 1) + 1 if count else start
                stop = python_dispatch.END if stop == size else stop
                call = aten.slice.Tensor, (node, dim, start, stop, *((step,) if step != 1 else ()))
            dim += not isinstance(item, int)
            if item != (0, 1, size):
                name = call[0].overloadpacket.__name__
                node = self.graph.call_function(*call, name=name)
        return node

    def view(self, definition, x, static):
        node = self._record_view(definition, x, static)
        with self.below():
            value = view_call(definition, x._inner, static)
        out = self._as_view(self.track(value, node), x)
        if x._ftorch_requires_grad and modes.grad and value._ftorch_geometry.dtype.category >= 2:
            kind = tape.node_class(derivatives.node_name(definition), ViewNode)
            history = kind(definition, static, x._ftorch_geometry)
            history._ftorch_edges = (tape.edge_of(x),)
            out._grad_fn, out._ftorch_requires_grad = history, True
        return out

    @staticmethod
    def _as_view(out, x):
        """A tensor of the level as a view of another one: with its memory."""
        out._base = x if x._base is None else x._base
        out._ftorch_offset = out._inner._ftorch_offset
        out._ftorch_storage = x._ftorch_storage
        out._ftorch_attr_version = counter_of(x).version
        return out

    def custom(self, function, args):
        """A call of an op of `torch.library` becomes a node."""
        call, *leaves = args
        given, named = call.written(leaves)
        node = self.graph.call_function(
            call.op, self.arguments(given), dict(self.arguments(named)), name=call.op._opname
        )
        with self.below():
            value = function.apply(call, *self._inner(leaves))
        for t in call.mutated(leaves):
            count_write(t)
        parts = call.parts(lambda of, i: self.graph.call_function(operator.getitem, (of, i)), node)
        if any(part is not node for part in parts) and all(isinstance(v, TensorBase) for v in value):
            node.meta["val"] = call.result(fake_like(v) if isinstance(v, TensorBase) else v for v in value)
        return tuple(
            self.track(item, part) if isinstance(item, TensorBase) else item
            for item, part in zip(value, parts)
        )

    def random(self, kind, function, args, kwargs):
        target = Kernel(function.__name__, function, writes=True) if kind == FILL else function
        node = self.graph.call_function(
            target, self.arguments(tuple(args)), dict(self.arguments(kwargs))
        )
        with self.below():
            value = function(*self._inner(args), **kwargs)
        filled = args[0]
        if kind == FILL:
            if isinstance(filled, Traced):
                filled._node = node
            return filled
        return self.results(value, node) if isinstance(value, (TensorBase, tuple)) else value

    def control_flow(self, name, functions, arguments):
        """``cond``, ``while_loop``, ``scan`` and ``map`` become one node that calls graphs."""
        from .higher_order import record

        return record(self, name, functions, arguments)

    def relaid(self, t, strides):
        node = t._node
        if node.target is _ops.ops.aten.clone.default:
            shape = t._ftorch_geometry.shape
            wanted = next((f for f in _LAYOUTS if _strides(shape, f) == strides), None)
            if wanted is not None:
                node.kwargs = {"memory_format": wanted}
        if t._inner._ftorch_geometry.stride != strides:
            relayout(t._inner, strides)
        node.meta["val"] = fake_like(t._inner)

    # --- the rest of what levels do

    def detach(self, t):
        return self.track(t._inner.detach(), self.graph.call_method("detach", (t._node,)))

    def rewrapped(self, t, function):
        return self.track(function(t._inner), t._node)

    def alias(self, t):
        """The tensor as one of this level, for a transform inside to differentiate."""
        if t.__class__ is Positions:
            made = Positions.make(self, t._inner, t._ftorch_geometry)
            made._node = t._node
            return made
        return self.track(t._inner if isinstance(t, Traced) else t, self.node_of(t))

    def become(self, t, view, name, args):
        made = view._node
        t._inner, t._node = view._inner, self._changed(t, _RENAMED.get(name, name), args) or made
        if t._node is not made and not made.users:
            self.graph.erase_node(made)
        t._node.meta["val"] = fake_like(t._inner)

    def resized(self, t, shape, memory_format):
        options = {} if memory_format is None else {"memory_format": memory_format}
        node = self._changed(t, "resize_", (list(shape),), **options)
        if node is None:
            raise RuntimeError("resize_ cannot be recorded")
        with self.below():
            t._inner.resize_(shape, **options)
        return self._renewed(t, node)

    def set(self, t, source, storage_offset, size, stride):
        if not isinstance(source, Traced) or size is not None:
            raise RuntimeError("set_ is recorded for another tensor only")
        node = self.graph.call_function(_ops.ops.aten.set_.source_Tensor, (t._node, source._node), name="set_")
        with self.below():
            t._inner.set_(source._inner)
        return self._renewed(t, node)

    def _changed(self, t, name, args, **options):
        """The node of a method that changes a tensor's geometry; None where ATen has none."""
        packet = getattr(_ops.ops.aten, name, None)
        if packet is None:
            return None
        overload = packet.default
        if name == "squeeze_" and args:
            (dims,) = args
            single = len(dims) == 1
            overload, args = (packet.dim, tuple(dims)) if single else (packet.dims, (list(dims),))
        return self.graph.call_function(overload, (t._node, *args), options, name=name)

    def _renewed(self, t, node):
        t._node, t._ftorch_geometry = node, t._inner._ftorch_geometry
        node.meta["val"] = fake_like(t._inner)
        return t

    def known(self, t, how):
        raise RuntimeError(_LOOK)

    def describe(self, t, shown):
        """The text of a tensor that is traced."""
        return f"{type(t).__name__}({t._inner!r}, node={t._node})"


def get_proxy_mode() -> TraceLevel | None:
    """The innermost trace of `make_fx`, or None."""
    return next((level for level in reversed(modes.levels) if isinstance(level, TraceLevel)), None)


def _created(t, args, **options):
    level = get_proxy_mode()
    return t if level is None else level.created(t, args, **options)


_op.hooks.created = _created
python_dispatch.see_gradients()
