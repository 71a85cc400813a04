"""One run of a module that records the graph of its ATen ops.

Parameters, buffers and tensors among the module's attributes are inputs of the graph, then the user's
own; writes stay what they are, so a graph that runs on the module's buffers updates them.
"""

from __future__ import annotations

import builtins
import contextlib
import math
import operator
import os
import sys
import traceback
from dataclasses import dataclass, field
from typing import Any

from .._ops import OpOverload, ops, own_name
from .._subclasses.fake_tensor import fake_like
from ..eager.call import op as _op
from ..eager.core import api as torch_api
from ..eager.core import places
from ..eager.dispatch.randomness import FILL
from ..eager.memory.storage import newest_level
from ..eager.tensor import TensorBase, modes
from ..eager.transforms.functional_call import swapped
from ..fx.experimental._aten_random import filling, overload_of
from ..fx.experimental._trace_level import Traced, TraceLevel, kernel_of
from ..fx.experimental.symbolic_shapes import SymBool, SymFloat, SymInt
from ..fx.graph import Graph, snake_case
from ..fx.node import Node, map_aggregate
from ..nn import Module, Parameter
from ..utils import _pytree as pytree
from . import _indices, _leaves
from ._indices import Indexed, Watched
from ._jax_forms import FORMS
from ._leaf_calls import conversion
from ._modules import PREFIXES, attributes_as, attributes_kept, input_names, module_stack, state_of
from ._value_sizes import SIZED, Drawn, Draws, Number, NumberList, Varying
from .dynamic_shapes import UserError
from .graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)

_LAYERS = os.path.join(places.PACKAGE, "nn", "modules", "")


@dataclass
class Traces:
    """What a run left.

    Attributes:
        inputs, outputs: what placeholders and results are.
        constants: {name: tensor} that is neither parameter nor buffer.
        modules: the paths of the modules that were called, in order.
        root: holds the graphs that the graph calls.
        seen: {name of a node: (op, target, sizes)} of all that was computed, in order.
        drawn: the numbers that values decide.
        assigned: the attributes of modules that the run gave tensors.
    """

    graph: Graph
    inputs: list[InputSpec]
    outputs: list[OutputSpec]
    constants: dict[str, Any]
    out_spec: Any
    modules: dict[str, str] = field(default_factory=dict)
    root: Module | None = None
    seen: dict[str, tuple[str, str, tuple]] = field(default_factory=dict)
    drawn: list[Drawn] = field(default_factory=list)
    assigned: list[str] = field(default_factory=list)


# The ops whose number of results follows from a size: where they take the dimension.
_PARTED = {"chunk": 2, "tensor_split": 2, "split": 2, "unbind": 1}


_PARTS = {"_real_part": "real", "_imag_part": "imag"}


class ExportLevel(TraceLevel):
    """Records calls with ATen's composites whole; every tensor is an input or computed."""

    composites = True
    renames = True
    fakes = True

    numbers = (SymInt, SymFloat)

    def __init__(self, draws=None):
        super().__init__()
        self.draws = draws
        self._pending: Drawn | None = None  # of a mask whose index is to come
        self._items: dict[Node, Any] = {}
        create = self.graph.create_node

        def create_node(*args, **kwargs):
            node = create(*args, **kwargs)
            if node.op not in ("placeholder", "output"):
                node.meta["nn_module_stack"] = dict(self.stack)
                node.meta["stack_trace"] = _stack_trace()
            return node

        self.graph.create_node = create_node  # type: ignore[method-assign]
        self.stack: dict[str, tuple[str, str]] = {}
        self.lifted: dict[str, Any] = {}
        self.first_input: Node | None = None
        self._fresh: dict[int, tuple[Any, Node]] = {}
        self.numbers_made: list[Any] = []
        newest_level[0] += 1  # storages that are made from here on know it
        self.started = newest_level[0]
        self.shown: Any = None
        self._asked: Any = None  # what is indexed with
        self.has_gradients = modes.grad
        self.seen: dict[str, tuple[str, str, tuple]] = {}

    # --- tensors and nodes

    def track(self, value, node):
        t = super().track(value, node)
        self._note_seen(node, value)
        if self.shown is not None or (self.draws is not None and self.draws.drawn):
            t.__class__ = Watched
        elif self.draws is not None:
            t.__class__ = Indexed
        return t

    def _note_seen(self, node, value):
        self.seen[node.name] = node.op, str(node.target), tuple(value.shape)

    def sizes_shown(self, node, shape):
        """The sizes of a node as Python sees them."""
        sizes = shape if self.shown is None else self.shown(node, shape)
        for d in () if self.draws is None else self.draws.drawn:
            if d.node is node and d.dim is not None:
                sizes = (*sizes[: d.dim], self.draws.symbolic(d), *sizes[d.dim + 1 :])
        return sizes

    def node_of(self, t):
        if isinstance(t, Traced) and t._ftorch_level is self:
            return t._node
        found = self._fresh.get(id(t))
        if found is None:
            name = f"lifted_tensor_{len(self.lifted)}"
            self.lifted[name] = t.detach().clone()
            with self.graph.inserting_before(self.first_input):
                constant = self.graph.placeholder(f"c_{name}")
            constant.meta["val"] = fake_like(t)
            node = constant
            calls = []  # a tensor that the program makes of numbers is a copy, which `torch.tensor` detaches
            if t._ftorch_storage.level >= self.started:
                calls = ["lift_fresh_copy", *["detach_"] * any(made is t for made in self.numbers_made)]
            for called in calls:
                node = self.graph.call_function(getattr(ops.aten, called).default, (node,), name=called)
                node.meta["val"] = fake_like(t)
            found = self._fresh[id(t)] = (t, node)
        return found[1]

    def results(self, value, node):
        value, drawn = self._sized(value, node)
        self._refuse_parts(node)
        # What the module computes without gradients has none in the program either.
        out = super().results(value, node)
        if drawn is not None:
            first = out if isinstance(out, Traced) else out[0]
            drawn.node, first.__class__ = first._node, Watched
        if modes.grad or not self.has_gradients:
            return out
        self.has_gradients = False
        try:
            items = [out] if isinstance(out, Traced) else out
            items = [self.detach(t) if t.dtype.category >= 2 else t for t in items]
        finally:
            self.has_gradients = True
        return items[0] if isinstance(out, Traced) else items

    # --- numbers that values decide

    def _sized(self, value, node):
        """(results, the number) of an op whose rows are as many as values say, with as many as they are to be."""
        if self.draws is None or not isinstance(node.target, OpOverload):
            return value, None
        if self._pending is not None and node.target is ops.aten.index.Tensor:
            drawn, self._pending = self._pending, None
            where = [k for k, i in enumerate(node.args[1]) if i is not None]
            drawn.dim = where[0] if where == [*range(where[0], where[-1] + 1)] else 0
            return value, drawn
        places = SIZED.get(own_name(node.target))
        many = [value] if isinstance(value, TensorBase) else list(value)
        if places is None or not many[0].dim() or node.target._overloadname == "self_int":
            return value, None
        given = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else None
        most = given.numel() if given is not None and node.target._opname != "bincount" else math.inf
        drawn = self.draws.draw(many[0].shape[0], node, 0, low=0, high=most)
        drawn.counted = node.args[0] if isinstance(node.args[0], Node) else None
        if drawn.value != many[0].shape[0]:
            with self.below():
                for k in places:
                    if many[k].dim():
                        many[k] = many[k].new_zeros((drawn.value, *many[k].shape[1:]))
        return many[0] if isinstance(value, TensorBase) else tuple(many), drawn

    def _refuse_parts(self, node):
        """Refuses to divide a tensor into as many parts as values say.

        Raises:
            GuardOnDataDependentSymNode: the size that is divided is one of `Draws`.
        """
        place = _PARTED.get(own_name(node.target)) if self.draws is not None else None
        if place is None:
            return
        shape = node.args[0].meta["val"].shape
        dim = node.kwargs.get("dim", node.args[place] if len(node.args) > place else 0)
        size = self.sizes_shown(node.args[0], tuple(shape))[dim]
        if isinstance(size, SymInt) and isinstance(size.env, Draws):
            size.env.refuse_parts(size, node.args[1] if node.target._opname == "chunk" else None)

    def positions_of(self, mask):
        """The positions of a mask's true elements, which the mask itself stands for."""
        found = self._positions(mask)
        if self.draws is None:
            return found
        self._pending = drawn = self.draws.draw(found[0]._inner.shape[0], None, 0, low=0, high=mask.numel())
        drawn.counted = mask._node
        if drawn.value != found[0]._inner.shape[0]:
            with self.below():
                inner = [p._inner.new_zeros(drawn.value) for p in found]
            found = [p.__class__.make(self, i, i._ftorch_geometry) for p, i in zip(found, inner)]
            for p in found:
                p._node = mask._node
        return found

    def _item(self, t):
        """A tensor's value as a number of the program; None for what is no such number."""
        if self.draws is None or t.dtype.category > 2 or str(t.dtype) == "torch.bool":
            return None
        known = self._items.get(t._node)
        if known is None:
            with self.below():
                value = t._inner.item()
            node = self.graph.call_function(ops.aten.item.default, (t._node,), name="item")
            drawn = self.draws.draw(value, node)
            known = self._items[t._node] = self.draws.symbolic(drawn)
            node.meta.update(val=known, is_size=True)
        return known

    # --- calls

    def _is_own(self, leaves):
        return any(isinstance(v, Traced) and v._ftorch_level is self for v in leaves)

    def composite(self, function, args, kwargs):
        leaves = pytree.tree_leaves((args, kwargs))
        if not self._is_own(leaves) and function.__name__ not in _leaves.CREATING:
            return NotImplemented
        converted = conversion(function.__name__, args, kwargs)
        if converted is not None:
            return self._converted(*converted)
        bags = function.__name__ == "embedding_bag"
        found = _leaves.embedding_bag(self.whole, function, args, kwargs) if bags else _leaves.leaf(function, args, kwargs)
        if found is None:
            return NotImplemented
        return self.whole(*found)[0] if bags else self.whole(*found)

    def whole(self, overload, args, kwargs):
        """Calls an overload and records it as one node."""
        node = self.graph.call_function(
            overload, self.arguments(tuple(args)), dict(self.arguments(kwargs)),
            name=snake_case(overload.overloadpacket.__name__),
        )
        with self.below():
            inner = self._inner(args)
            value = overload(*inner, **dict(zip(kwargs, self._inner(kwargs.values()))))
        first = inner[0] if inner else None
        are_tensors = isinstance(value, TensorBase) and isinstance(first, TensorBase)
        if are_tensors and value._ftorch_storage is not first._ftorch_storage:
            node.meta["owns_memory"] = True
        return self.results(value, node)

    def _converted(self, overload, args, kwargs):
        """A conversion, behind the check that what is converted is of the dtype that it was of."""
        x = args[0]
        if overload is not ops.aten.type_as.default and isinstance(x, Traced):
            self.graph.call_function(
                ops.aten._assert_tensor_metadata.default, (x._node,),
                {"dtype": x.dtype, "device": x.device, "layout": x.layout}, name="_assert_tensor_metadata_default",
            )
        return self.whole(overload, args, kwargs)

    def call(self, op, operands, static):
        if self.renames and op.name == "div" and not isinstance(operands[0], TensorBase) and not any(static):
            return torch_api.mul(torch_api.reciprocal(operands[1]), operands[0])
        result = _leaves.composed(op, operands, static) if self.renames else None
        return super().call(op, operands, static) if result is None else result

    def call_inplace(self, op, operands, static):
        target = super().call_inplace(op, operands, static)
        if isinstance(target, Traced):
            target._node.meta["val"] = fake_like(target._inner)
            self._note_seen(target._node, target._inner)
        return target

    def _target(self, op, operands, static, form):
        definition = op.definition if isinstance(op, _op.Op) else op
        if form == "inplace" and definition.name in ("copy", "fill", "zero"):
            return _leaves.written(definition.name, [o for o in operands if o is not None])
        found = super()._target(op, operands, static, form)
        if self.renames:
            return _leaves.kernel(definition.name, found)
        if form == "function" and _is_composite(found[0]):
            return kernel_of(op, static, form), tuple(operands), {}
        return found

    def _record_view(self, definition, x, static):
        asked, self._asked = self._asked, None
        if definition.name in _PARTS:
            packet = getattr(ops.aten, _PARTS[definition.name])
            return self.graph.call_function(packet.default, (x._node,), name=packet.__name__)
        is_whole = definition.name == "alias" and asked is not None and any(item is not ... for item in asked[0])
        if not is_whole and not definition.name.startswith("_index_"):
            return super()._record_view(definition, x, static)
        items, is_alone = asked or (_indices.items_of_static(static[0], x.shape), False)
        node, inner, index = x._node, x._inner, _indices.Index(is_alone)
        for overload, args in _indices.calls(items):
            node = self.graph.call_function(overload, (node, *self.arguments(args)), name=overload._opname)
            with self.below():
                inner = overload(inner, *map_aggregate(args, lambda a: int(a) if isinstance(a, SymInt) else a))
            node.meta.update(val=fake_like(inner), index=index)
        return node

    def indexed(self, x, items, is_alone, view):
        """A view ``x[...]``, for which the graph has what the user wrote (`ftorch.export._indices`)."""
        if self.shown is not None:
            self.shown.indexed(x._node, tuple(x._ftorch_geometry.shape), items)
        self._asked = items, is_alone
        try:
            return view()
        finally:
            self._asked = None

    def random(self, kind, function, args, kwargs):
        name = function.__name__
        packet = getattr(ops.aten, name, None)
        if packet is None:
            found = overload_of(name, args, kwargs)
            return super().random(kind, function, args, kwargs) if found is None else self.whole(*found)
        if kind == FILL:
            overload, shown, named = filling(name, args, kwargs) or (packet.default, tuple(args), kwargs)
            node = self.graph.call_function(overload, self.arguments(shown), dict(self.arguments(named)), name=name)
            with self.below():
                function(*self._inner(args), **kwargs)
            if isinstance(args[0], Traced):
                args[0]._node, node.meta["val"] = node, fake_like(args[0]._inner)
                self._note_seen(node, args[0]._inner)
            return args[0]
        return self.whole(packet.default, args, kwargs)

    def detach(self, t):
        return self.whole(ops.aten.detach.default, (t,), {})

    def known(self, t, how):
        number = self._item(t) if how == "item" else None
        if number is not None:
            return Number(number)
        if how == "tolist" and self.draws is not None:
            return NumberList(t)
        frame = next(
            (f for f in reversed(traceback.extract_stack(sys._getframe(1)))
             if not f.filename.startswith(places.PACKAGE)), None,
        )
        place = "" if frame is None else (
            f'\n\nThe following call raised this error:\n  File "{frame.filename}", line '
            f"{frame.lineno}, in {frame.name}\n    {frame.line}\n"
        )
        from ..fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

        raise GuardOnDataDependentSymNode(
            "Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1)).  "
            "(Size-like symbols: none)\n\nThe program looks at the value of a tensor "
            f"({how}) to decide what to do. Use torch.where to express it.{place}"
        )


def _is_composite(target) -> bool:
    """Whether a call is of a function that stands for the kernel, and has no JAX form."""
    return (
        isinstance(target, OpOverload) and not hasattr(target._bound, "definition")
        and own_name(target) not in FORMS
    )


def _stack_trace() -> str:
    """The frames of the user's code and of layers, innermost last."""
    frames, frame = [], sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(places.PACKAGE) and not name.startswith(_LAYERS):
            if name == __file__ and frame.f_code.co_name == "_traced":
                break
        elif not name.endswith("module.py") and not name.startswith(places.GENERATED):
            frames.append(frame)
        frame = frame.f_back
    lines = traceback.StackSummary.extract(
        ((f, f.f_lineno) for f in reversed(frames)), lookup_lines=True
    )
    return "".join(lines.format()).rstrip("\n")


# --- a run ----------------------------------------------------------------------------


def placeholder(graph: Graph, name: str) -> Node:
    """A placeholder that keeps its name, though it be one of Python's (``input``)."""
    node = graph.placeholder(name)
    if node.name != name and hasattr(builtins, name):
        node.name = name
    return node


def trace_module(module, args, kwargs, whole=True, shown=None, forced=()) -> Traces:
    """Runs a module on example inputs and records it.

    Args:
        whole: records composites as one op; else as the kernels that they call.
        shown: the sizes that Python sees (`ftorch.export._size_comparisons.Shown`).
        forced: the numbers that values decide, where they are to be others (`ftorch.export._value_sizes`).

    Raises:
        UserError: something that is no input of a graph.
    """
    try:
        return _traced(module, args, kwargs, False, whole, shown, forced)
    except RuntimeError as error:
        if "does not require grad" not in str(error):
            raise
    return _traced(module, args, kwargs, True, whole, shown, forced)  # it takes gradients itself


def _traced(module, args, kwargs, grad, whole, shown, forced) -> Traces:
    level = ExportLevel(Draws(forced) if whole else None)
    level.shown = shown
    if isinstance(shown, Varying):
        shown.draws = level.draws
    level.composites = level.renames = level.exports = whole
    leaves, spec = pytree.tree_flatten((args, kwargs))
    names = input_names(module, args, kwargs)
    inputs: list[InputSpec] = []
    constants: dict[str, Any] = {}
    called: dict[str, str] = {}
    with level, level.draws or contextlib.nullcontext():
        state, attributes, same = {}, {}, {}
        for kind, name, value, persistent in state_of(module):
            node = level.graph.placeholder(f"{PREFIXES[kind]}_{_identifier_of(name)}")
            inputs.append(InputSpec(kind, TensorArgument(node.name), name, persistent))
            if id(value) in same:  # tied: the first of the names
                t = same[id(value)]
                node.meta["val"] = fake_like(value)
            else:
                t = same[id(value)] = level.track(value.detach().clone(), node)
                t._ftorch_requires_grad = grad and value.requires_grad
            node.meta["val"]._ftorch_requires_grad = value.requires_grad
            if kind is InputKind.CONSTANT_TENSOR:
                attributes[name], constants[name] = t, value
            else:
                state[name] = t
                if kind is InputKind.BUFFER and not persistent:
                    constants[name] = value
        traced, user = [], []
        for name, leaf in zip(names, leaves):
            node = placeholder(level.graph, name)
            level.first_input = level.first_input or node
            if isinstance(leaf, TensorBase):
                t = level.track(leaf.detach().clone(), node)
                t._ftorch_requires_grad = grad and leaf.requires_grad
                node.meta["val"]._ftorch_requires_grad = leaf.requires_grad
                traced.append(t)
                user.append(InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None))
            elif leaf is None or isinstance(leaf, (int, float, bool, str)):
                traced.append(leaf)
                node.meta["val"] = leaf
                argument = ConstantArgument(node.name, leaf)
                user.append(InputSpec(InputKind.USER_INPUT, argument, None))
            else:
                raise UserError(
                    f"Unsupported input type {type(leaf)}. Export only supports pytree containers "
                    "of basic types (Tensor, int, float, ...) as input. To register a custom "
                    "dataclass, use torch.export.register_dataclass. To register a custom container "
                    "type, use torch.utils._pytree.register_pytree_node."
                )
        tracked = dict(state)
        new_args, new_kwargs = pytree.tree_unflatten(traced, spec)
        if level.first_input is None:
            level.first_input = level.graph._root
        with module_stack(module, level, called), swapped(module, state, tie_weights=False):
            with attributes_as(module, attributes), attributes_kept(module, _shown_outside) as assigned:
                result = module(*new_args, **new_kwargs)
        flat, out_spec = pytree.tree_flatten(result)
        written = _assigned_buffers(level, inputs, tracked, state)
        flat = [_as_it_was(value, written) for value in flat]
        outputs, values = [], []
        for value in flat:
            outputs.append(_output(level, value, values))
        for buffer, value in written:
            call = level.graph.call_function(ops.aten.copy_.default, (buffer._node, level.node_of(value)), name="copy__default")
            call.meta["val"] = buffer._node.meta["val"]
        level.graph.output(tuple(values))
    for name, value in level.lifted.items():
        inputs.append(
            InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(f"c_{name}"), name, None)
        )
        constants[name] = value
    del level.graph.create_node  # the class's own again
    hidden = {s.target for s in inputs if s.kind is InputKind.BUFFER}
    constants = dict(sorted(constants.items(), key=lambda item: item[0] in hidden))  # buffers last
    traces = Traces(
        level.graph, inputs + user, outputs, constants, out_spec, called, level.root,
        level.seen, [] if level.draws is None else level.draws.drawn, assigned,
    )
    _clean(traces, whole)
    return traces


def _assigned_buffers(level, inputs, tracked, state):
    """(buffer, new value) of the buffers that the run assigned, which the program then writes."""
    names = [s.target for s in inputs if s.kind is InputKind.BUFFER]
    return [(tracked[n], state[n]) for n in names if isinstance(state[n], TensorBase) and state[n] is not tracked[n]]


def _as_it_was(value, written):
    """An output, copied if it shares the memory of a buffer that is yet to be written."""
    shares = isinstance(value, Traced) and any(value._ftorch_storage is buffer._ftorch_storage for buffer, _ in written)
    return value.clone() if shares else value


def _shown_outside(t):
    """What is left of a tensor of a run in the attributes of modules."""
    return fake_like(t._inner) if isinstance(t, Traced) else t


def _identifier_of(name):
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)


def _output(level, value, values):
    if isinstance(value, TensorBase):
        node = level.node_of(value)
        values.append(node)
        return OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None)
    if value is None or isinstance(value, (int, float, bool, str, SymBool)):
        values.append(value)
        return OutputSpec(OutputKind.USER_OUTPUT, ConstantArgument("", value), None)
    raise UserError(
        f"It looks like one of the outputs with type `{type(value)}` is not supported or "
        "pytree-flattenable. Exported graphs outputs can only contain the following supported types: "
        "[Tensor, int, float, bool, str, None] and containers of them."
    )


def _clean(traces: Traces, whole: bool) -> None:
    """Removes what nobody uses: nodes, unless they are the program's own calls, and tensor attributes of the module."""
    numbers = {d.node for d in traces.drawn}
    traces.graph.eliminate_dead_code(
        lambda node: node.is_impure() or node in numbers or whole and (
            isinstance(node.target, OpOverload) or node.target is operator.getitem)
    )
    unused = {
        n.name: n for n in traces.graph.nodes if n.op == "placeholder" and not n.users
    }
    for spec in list(traces.inputs):
        if spec.kind is InputKind.CONSTANT_TENSOR and spec.arg.name in unused:
            traces.graph.erase_node(unused[spec.arg.name])
            traces.inputs.remove(spec)
            traces.constants.pop(spec.target, None)


def symint_argument(node: Node) -> SymIntArgument:
    """The specification of an output that is a size."""
    return SymIntArgument(node.name)


__all__ = ["ExportLevel", "Parameter", "Traces", "trace_module"]
