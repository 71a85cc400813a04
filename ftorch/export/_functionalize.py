"""Programs without writes: an in-place op becomes a new value, and what was mutated an output.

Each tensor of the graph is its base (an input, or what an op made) seen through a chain of views. A
write to a view is carried back through the chain into the base (``slice_scatter`` and its sisters);
other views of the base are taken anew when they are read next.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .._ops import OpOverload, ops, own_name
from ..eager.core.formats import contiguous_format, strided
from ..fx.experimental.symbolic_shapes import is_symbolic
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node, map_arg
from ..nn import Module
from ._core_forms import FORMS, SAME, core_view, is_whole
from ._trace import placeholder
from .decomp_utils import CustomDecompTable
from .graph_signature import (
    ExportGraphSignature,
    InputKind,
    OutputKind,
    OutputSpec,
    TensorArgument,
)

aten = ops.aten
_SHAPES = frozenset(
    "view reshape flatten unflatten unsqueeze squeeze ravel reshape_as view_as atleast_1d atleast_2d atleast_3d "
    "_unsafe_view".split()
)
_VIEWS = _SHAPES | frozenset(
    "alias detach lift_fresh transpose permute t select slice expand expand_as diagonal as_strided "
    "narrow unfold swapaxes swapdims movedim moveaxis mT mH adjoint matrix_H numpy_T real imag broadcast_to".split()
)
_SLICED = frozenset("unbind tensor_split hsplit vsplit dsplit".split())  # which core ops take in slices
_PARTS = _SLICED | frozenset("chunk split split_with_sizes".split())
_SPLIT_DIMS = {"hsplit": 1, "vsplit": 0, "dsplit": 2}
_DRAWN = {"bernoulli_": "bernoulli", "uniform_": "rand_like", "normal_": "randn_like"}


@dataclass
class _Base:
    """A tensor with memory of its own: its value now, and how often it was written."""

    node: Node
    version: int = 0
    placeholder: Node | None = None


@dataclass
class _View:
    """A tensor: its base, the views that lead to it, and its value when it was last taken."""

    base: _Base
    chain: list[tuple[Any, tuple, dict, Any]] = field(default_factory=list)
    node: Node | None = None
    version: int = 0
    example: Any = None


class Functionalizer:
    """One pass over a graph; ``rules`` may replace nodes ({op name: builder})."""

    def __init__(self, program, rules: dict[Any, Callable], module=None, is_core=False):
        self.program, self.rules, self.is_core = program, rules, is_core
        self.module = program.graph_module if module is None else module
        self.graph, self.root = Graph(), Module()
        self.views: dict[Node, _View] = {}
        self.made: dict[Node, Any] = {}

    # --- emitting

    def call(self, target, *args, like=None, name=None, **kwargs) -> Node:
        """A new node, of the shape of ``like`` (an example)."""
        if target is aten.view.default:
            target = aten.reshape.default  # values may lie in memory otherwise than the original's
        name = name or getattr(target, "_opname", None)
        node = self.graph.call_function(target, args, kwargs, name=name)
        if like is not None:
            node.meta["val"] = like
        return node

    def value(self, node: Node) -> Any:
        """What an old node is now."""
        view = self.views.get(node)
        if view is None:
            return self.made[node]
        if view.version != view.base.version:
            out = view.base.node
            for target, args, kwargs, example in view.chain:
                out = self.call(target, out, *args, like=example, **kwargs)
            view.node, view.version = out, view.base.version
        return view.node

    def arguments(self, value):
        return map_arg(value, self.value)

    def write(self, node: Node, new: Node) -> None:
        """Makes ``new`` the elements of an old node."""
        view = self.views.get(node)
        if view is None:  # made by an op: nobody else has it
            self.made[node] = new
            return
        befores = [view.base.node]
        for target, args, kwargs, example in view.chain[:-1]:
            befores.append(self.call(target, befores[-1], *args, like=example, **kwargs))
        value = new
        for before, (target, args, kwargs, _) in zip(reversed(befores), reversed(view.chain)):
            value = self._scattered(before, target, args, value)
        view.base.node = value
        view.base.version += 1
        view.node, view.version = new, view.base.version

    def _scattered(self, before, target, args, value):
        name, like = target._opname, before.meta.get("val")
        if name in _SHAPES:
            sizes = [n for n in like.shape]
            return self.call(aten.view.default, value, [self._size(before, i) for i in range(len(sizes))],
                             like=like)
        if name in ("alias", "detach", "lift_fresh"):
            return value
        if name in ("transpose", "swapaxes", "swapdims"):
            return self.call(aten.transpose.int, value, *args, like=like)
        if name in ("expand", "expand_as", "broadcast_to") and str(tuple(like.shape)) == str(tuple(value.meta["val"].shape)):
            return value
        if name in ("t", "mT", "mH", "adjoint", "matrix_H", "numpy_T"):
            return self.call(aten.transpose.int, value, -2, -1, like=like)
        if name == "permute":
            rank = len(args[0])
            inverse = [0] * rank
            for i, d in enumerate(args[0]):
                inverse[d % rank] = i
            return self.call(aten.permute.default, value, inverse, like=like)
        if name == "narrow" and all(isinstance(n, int) for n in args[1:3]) and args[1] >= 0:
            return self.call(aten.slice_scatter.default, before, value, args[0], args[1], args[1] + args[2], like=like)
        scatter = {"select": aten.select_scatter.default, "slice": aten.slice_scatter.default,
                   "diagonal": aten.diagonal_scatter.default,
                   "as_strided": aten.as_strided_scatter.default}.get(name)
        if scatter is None:
            raise RuntimeError(f"a write through {target} cannot be made functional")
        return self.call(scatter, before, value, *args, like=like)

    def _size(self, node, d):
        n = node.meta["val"].shape[d]
        if not hasattr(n, "expr"):
            return int(n)
        size = self.call(aten.sym_size.int, node, d, name="sym_size_int")
        size.meta["val"] = n
        return size

    # --- nodes

    def run(self):
        """The functional program."""
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                new = placeholder(self.graph, node.target)
                new.meta = dict(node.meta)
                base = _Base(new, placeholder=node)
                self.views[node] = _View(base, node=new)
            elif node.op == "output":
                return self._finish(node)
            elif node.op == "get_attr":
                inner = getattr(self.module, node.target)
                if isinstance(inner, GraphModule):
                    inner = _Inner(self.program, self.rules, inner, self.is_core).run()
                setattr(self.root, node.target, inner)
                new = self.graph.get_attr(node.target)
                new.meta = dict(node.meta)
                self.made[node] = new
            else:
                before = len(self.graph.nodes)
                self._node(node)
                for new in list(self.graph.nodes)[before:]:
                    for key in ("stack_trace", "nn_module_stack"):
                        if key in node.meta:
                            new.meta.setdefault(key, node.meta[key])
        raise AssertionError("a graph without output")

    def _node(self, node):
        target = node.target
        name = own_name(target)
        if target is operator.getitem and isinstance(node.args[0], Node):
            part = self.made.get(node.args[0])
            if isinstance(part, dict):  # an item of a list of views
                self.views[node] = _View(part["base"], part["chain"](node.args[1]), None, -1)
                self.value(node)
                return
        parted = name in _PARTS and isinstance(node.args[0], Node) and node.args[0] in self.views and (
            self._is_written(node) or self.is_core and name in _SLICED and self._is_of_known_sizes(node))
        rule = None if parted else self.rules.get(target)
        if rule is not None:
            new = rule(self, node, *self.arguments(node.args), **self.arguments(dict(node.kwargs)))
            if new is not NotImplemented:
                self._define(node, new)
                return
        if isinstance(target, OpOverload) and target._form == "inplace":
            self._inplace(node, name)
        elif isinstance(node.args[0] if node.args else None, Node) and (name in SAME or is_whole(node)):
            self._converted(node, name)
        elif name in _VIEWS and isinstance(node.args[0], Node) and not node.meta.get("owns_memory"):
            self._view(node)
        elif parted:
            self._parts(node)
        else:
            new = self.graph.node_copy(node, self.value)
            self._define(node, new)

    def _define(self, node, new):
        if isinstance(new, Node) and "val" not in new.meta and "val" in node.meta:
            new.meta["val"] = node.meta["val"]
        if isinstance(new, Node) and not isinstance(new.meta.get("val"), (tuple, list)):
            self.views[node] = _View(_Base(new), node=new)
        else:
            self.made[node] = new

    def _view(self, node):
        source = node.args[0]
        owner = self.views.get(source)
        found = core_view(node) if self.is_core else None
        if found is None:
            new = self.graph.node_copy(node, self.value)
        else:
            new = self.graph.call_function(found[0], (self.value(source), *self.arguments(found[1])), name=found[0]._opname)
            new.meta = {k: v for k, v in node.meta.items() if k in ("val", "stack_trace", "nn_module_stack")}
        if new.target is aten.view.default and owner is not None and owner.base.version:
            new.target = aten.reshape.default
        if owner is None:
            self._define(node, new)
            return
        target, args = (node.target, node.args[1:]) if found is None else found
        step = (target, tuple(self.arguments(args)), dict(node.kwargs), node.meta.get("val"))
        self.views[node] = _View(owner.base, [*owner.chain, step], new, owner.base.version)

    def _converted(self, node, name):
        """A conversion: the tensor itself where nothing changes, else a copy."""
        source, like = node.args[0], node.meta.get("val")
        if self._is_same(node, source, like):
            if source in self.views:
                self.views[node] = self.views[source]
            else:
                self.made[node] = self.value(source)
            return
        if not self.is_core or like is None:
            self._define(node, self.graph.node_copy(node, self.value))
            return
        x = self.value(source)
        if name == "contiguous":
            memory_format = node.kwargs.get("memory_format") or (node.args[1] if len(node.args) > 1 else contiguous_format)
            new = self.call(aten.clone.default, x, like=like, memory_format=memory_format)
        else:
            named = {"dtype": like.dtype}
            if node.target in (aten.type_as.default, aten.to.dtype_layout):
                named |= {"layout": strided, "device": like.device}
            elif node.target is aten.to.device:
                named["device"] = like.device
            new = self.call(aten._to_copy.default, x, like=like, **named)
        self._define(node, new)

    def _is_same(self, node, source, like):
        if "owns_memory" in node.meta or like is None:
            return False
        given = source.meta.get("val")
        if is_whole(node):
            return True
        if node.target is aten.contiguous.default:
            return given is None or given.is_contiguous()
        asks_for_copy = node.target is aten.to.dtype and node.args[3:4] == (True,) or node.args[4:5] == (True,)
        return not asks_for_copy and given is not None and (given.dtype, given.device) == (like.dtype, like.device)

    def _is_written(self, node):
        seen, pending = set(), [node]
        while pending:
            for user in pending.pop().users:
                if user in seen:
                    continue
                seen.add(user)
                target = user.target
                if isinstance(target, OpOverload) and target._form == "inplace":
                    return True
                if target is operator.getitem or own_name(target) in _VIEWS:
                    pending.append(user)
        return False

    def _is_of_known_sizes(self, node):
        return not is_symbolic(node.args[0].meta["val"].shape) and "val" in node.meta

    def _parts(self, node):
        source, name = node.args[0], node.target._opname
        owner = self.views[source]
        examples = node.meta["val"]
        dim = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", 0)
        if name == "unbind":
            dim = node.args[1] if len(node.args) > 1 else 0
        elif name in _SPLIT_DIMS:
            dim = _SPLIT_DIMS[name] if len(source.meta["val"].shape) > 1 else 0
        starts, at = [], 0
        for example in examples:
            starts.append(at)
            at += 1 if name == "unbind" else int(example.shape[dim])

        def chain(i):
            if name == "unbind" and not (self.is_core and self._is_of_known_sizes(node)):
                step = (aten.select.int, (dim, i), {}, examples[i])
            elif name == "unbind":
                row = examples[i].unsqueeze(dim)
                dims = [dim % len(row.shape)]
                cut = (aten.slice.Tensor, (dim, i, i + 1), {}, row)
                return [*owner.chain, cut, (aten.squeeze.dims, (dims,), {}, examples[i])]
            else:
                stop = starts[i] + int(examples[i].shape[dim])
                step = (aten.slice.Tensor, (dim, starts[i], stop), {}, examples[i])
            return [*owner.chain, step]

        self.made[node] = {"base": owner.base, "chain": chain}

    def _inplace(self, node, name):
        target = node.args[0]
        like = node.meta.get("val", target.meta.get("val"))
        args, kwargs = self.arguments(node.args), self.arguments(dict(node.kwargs))
        if name == "batch_norm" or name == "instance_norm":
            self._batch_norm(node, name, args)
            return
        if not name.endswith("_"):
            new = self.graph.node_copy(node, self.value)
            self._define(node, new)
            return
        if name == "copy_" and isinstance(args[1], Node) and _is_alike(like, args[1].meta.get("val")):
            new = args[1]
        elif name == "copy_":
            new = self.call(aten.copy.default, args[0], args[1], like=like)
        elif name == "zero_":
            new = self.call(aten.full_like.default, args[0], 0, like=like)
        elif name == "fill_":
            if isinstance(args[1], Node):
                new = self.call(aten.copy.default, args[0], args[1], like=like)
            else:
                new = self.call(aten.full_like.default, args[0], args[1], like=like)
        elif name in _DRAWN:
            new = self._drawn(name, args, kwargs, like)
        else:
            packet = getattr(aten, name[:-1], None)
            if packet is None:
                raise RuntimeError(
                    f"{node.target} has no form without writes; draw its numbers from torch.rand or "
                    "torch.randn, or outside the program"
                )
            overload = getattr(packet, node.target._overloadname)
            rule = self.rules.get(overload)
            new = NotImplemented if rule is None else rule(self, node, *args, **kwargs)
            if new is NotImplemented:
                new = self.call(overload, *args, like=like, **kwargs)
            given = node.meta.get("val")
            wanted = target.meta.get("val")
            if wanted is not None and given is not None and _result_dtype(node, args) != wanted.dtype:
                new = self.call(aten._to_copy.default, new, dtype=wanted.dtype, like=wanted)
        self.write(target, new)
        self.views[node] = self.views.get(target) or _View(_Base(new), node=new)

    def _drawn(self, name, args, kwargs, like):
        if name == "bernoulli_":
            p = args[1] if len(args) > 1 else 0.5
            return self.call(aten.bernoulli.p, args[0], p, like=like)
        drawn = self.call(getattr(aten, _DRAWN[name]).default, args[0], like=like)
        low, high = (*args[1:], 0.0, 1.0)[:2] if len(args) != 2 else (args[1], 1.0)
        scale = high - low if name == "uniform_" else high
        scaled = self.call(aten.mul.Tensor, drawn, scale, like=like)
        return self.call(aten.add.Tensor, scaled, low, like=like)

    def _batch_norm(self, node, name, args):
        training, running = args[5], node.args[3:5]
        if not training or running[0] is None:
            new = self.graph.node_copy(node, self.value)
            self._define(node, new)
            return
        like = node.meta["val"]
        stats = [n.meta["val"] for n in running]
        if name == "instance_norm":
            raise RuntimeError("instance_norm with running statistics cannot be made functional")
        result = self.call(
            aten._native_batch_norm_legit_functional.default, *args[:8],
            like=(like, *stats, *stats),
        )
        parts = [self.call(operator.getitem, result, i, name="getitem") for i in (0, 3, 4)]
        for part, example in zip(parts, (like, *stats)):
            part.meta["val"] = example
        self._define(node, parts[0])
        for owner, part in zip(running, parts[1:]):
            self.write(owner, part)

    def _finish(self, node):
        mutated, specs = [], []
        kinds = {s.arg.name: s for s in self.program.graph_signature.input_specs}
        for old, view in self.views.items():
            if old.op == "placeholder" and view.base.placeholder is old and view.base.version:
                spec = kinds[old.name]
                kind = {
                    InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
                    InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
                }.get(spec.kind, OutputKind.USER_INPUT_MUTATION)
                value = self.value(old)
                mutated.append(value)
                specs.append(OutputSpec(kind, TensorArgument(value.name), spec.target or old.name))
        for value, spec in zip(node.args[0], self.program.graph_signature.output_specs):
            spec = copy.deepcopy(spec)
            new = self.arguments(value)
            if isinstance(new, Node):
                spec.arg.name = new.name
            mutated.append(new)
            specs.append(spec)
        self.graph.output(tuple(mutated))
        self.graph.eliminate_dead_code()
        inputs = _by_owner(self.graph, copy.deepcopy(self.program.graph_signature.input_specs))
        return self.program._copied(self.root, self.graph, ExportGraphSignature(inputs, specs))


def _by_owner(graph, specs):
    """The inputs, with what the module itself owns of buffers and constants before what its submodules own."""
    owners: dict[str, int] = {"": 0}
    for spec in specs:
        if spec.kind in (InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            owners.setdefault(spec.target.rpartition(".")[0], len(owners))
    if len(owners) == 1:
        return specs
    ranks = {InputKind.PARAMETER: -1, InputKind.USER_INPUT: len(owners)}
    nodes = {n.name: n for n in graph.nodes if n.op == "placeholder"}
    ordered = sorted(specs, key=lambda s: ranks[s.kind] if s.kind in ranks else owners.get(
        (s.target or "").rpartition(".")[0], len(owners)))
    for spec in reversed(ordered):
        graph._root.append(nodes[spec.arg.name])
    return ordered


class _Inner(Functionalizer):
    """The same for a graph that the program's graph calls; such graphs write to no input."""

    def _finish(self, node):
        self.graph.output(self.arguments(node.args[0]))
        self.graph.eliminate_dead_code()
        return GraphModule(self.root, self.graph)


def _is_alike(a, b):
    return a is not None and b is not None and a.dtype == b.dtype and str(tuple(a.shape)) == str(tuple(b.shape))


def _result_dtype(node, args):
    """The dtype that the functional op has: that of its promoted tensors."""
    import ftorch as torch

    values = [a.meta["val"] if isinstance(a, Node) else a for a in args]
    values = [v for v in values if isinstance(v, (int, float)) or hasattr(v, "dtype")][:2]
    first = values[0].dtype
    if len(values) < 2 or isinstance(values[1], bool):
        return first
    other = values[1]
    if hasattr(other, "dtype"):
        if other.dim() == 0 and other.dtype.is_floating_point == first.is_floating_point:
            return first
        return torch.promote_types(first, other.dtype)
    return first


# --- layers taken apart ---------------------------------------------------------------


def _conv(rank):
    def rule(f, node, x, weight, bias=None, stride=(1,), padding=(0,), dilation=(1,), groups=1):
        if isinstance(padding, str) or x.meta["val"].dim() != rank + 2:
            return NotImplemented
        stride, padding, dilation = (
            list(v) * rank if len(v) == 1 else list(v)
            for v in ([v] if isinstance(v, int) else v for v in (stride, padding, dilation))
        )
        return f.call(aten.convolution.default, x, weight, bias, stride, padding, dilation, False,
                      [0] * rank, groups, like=node.meta["val"])

    return rule


def _softmax(name):
    def rule(f, node, x, dim, dtype=None):
        if dtype is not None:
            return NotImplemented
        return f.call(getattr(aten, name).default, x, dim, False, like=node.meta["val"])

    return rule


def _first(name):
    def rule(f, node, *args, **kwargs):
        like = node.meta["val"]
        whole = f.call(getattr(aten, name).default, *args, like=(like, like, like)[: _ARITY[name]])
        return f.call(operator.getitem, whole, 0, like=like, name="getitem")

    return rule


_ARITY = {"max_pool2d_with_indices": 2, "native_layer_norm": 3,
          "_native_batch_norm_legit_no_training": 3}


def _layer_norm(f, node, x, shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return _first("native_layer_norm")(f, node, x, shape, weight, bias, eps)


def _batch_norm(f, node, x, weight, bias, mean, var, training, momentum, eps, cudnn_enabled=True):
    if training or mean is None:
        return NotImplemented
    return _first("_native_batch_norm_legit_no_training")(
        f, node, x, weight, bias, mean, var, momentum, eps
    )


def _dropout(f, node, x, p, train):
    return x if not train else NotImplemented


def _fresh(f, node, x):
    return f.call(aten.clone.default, x, like=node.meta["val"])


def default_table() -> CustomDecompTable:
    """{overload: builder} that takes layers apart into ATen's core ops."""
    builders = {
        **FORMS, "conv1d": _conv(1), "conv2d": _conv(2), "conv3d": _conv(3),
        aten.softmax.int: _softmax("_softmax"), aten.log_softmax.int: _softmax("_log_softmax"),
        "max_pool2d": _first("max_pool2d_with_indices"), "layer_norm": _layer_norm,
        "batch_norm": _batch_norm,
        **dict.fromkeys(("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"), _dropout),
        "lift_fresh_copy": _fresh, "detach_": lambda f, node, x: x,
    }
    table = CustomDecompTable()
    for op, builder in builders.items():
        packet = getattr(aten, op) if isinstance(op, str) else None
        for overload in [op] if packet is None else (getattr(packet, o) for o in packet.overloads()):
            table[overload] = builder
    return table


def _inlined(function):
    """A rule that records what a function of tensors does, at the sizes of the example."""

    def rule(f, node, *args, **kwargs):
        import ftorch as torch

        from ..fx.experimental.proxy_tensor import make_fx

        given = [a for a in args if isinstance(a, Node)]

        def run(*tensors):
            rest = iter(tensors)
            return function(*[next(rest) if isinstance(a, Node) else a for a in args], **kwargs)

        examples = [torch.zeros(tuple(int(n) for n in a.meta["val"].shape), dtype=a.meta["val"].dtype)
                    for a in given]
        traced = make_fx(run)(*examples)
        made = dict(zip((n for n in traced.graph.nodes if n.op == "placeholder"), given))
        for inner in traced.graph.nodes:
            if inner.op == "output":
                return map_arg(inner.args[0], lambda n: made[n])
            if inner.op != "placeholder":
                made[inner] = f.graph.node_copy(inner, lambda n: made[n])
        return NotImplemented

    return rule


def _is_default(table):
    """Whether a table has all of the default one, perhaps with changes."""
    return default_table().keys() <= set(table)


def functionalized(program, table=None):
    """A program without writes (`ExportedProgram.run_decompositions`).

    Args:
        table: {op: function of tensors, or builder of `default_table`}; None is the default table,
            an empty one leaves layers as they are.
    """
    rules = default_table() if table is None else {}
    builders = set(map(id, default_table().values()))
    for target, function in (table or {}).items():
        is_builder = id(function) in builders or getattr(function, "__module__", "") == __name__
        rules[target] = function if is_builder else _inlined(function)
    return Functionalizer(program, rules, is_core=table is None or _is_default(table)).run()
