"""From an `ExportedProgram` to an ONNX model."""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import numpy as np

from .._ops import OpOverload, own_name
from ..eager.call.op import to_numpy
from ..eager.core import dtype as dtypes
from ..eager.core.jax_scope import scoped
from ..eager.tensor import TensorBase
from ..export.graph_signature import ConstantArgument, InputKind, OutputKind
from ..fx.node import Node, map_aggregate
from ..utils import _pytree as pytree
from . import _ops_elementwise, _ops_nn, _ops_onnx, _ops_random, _ops_shape  # noqa: F401  (they fill the table)
from ._builder import Value, onnx, value_info
from ._complex import has_complex, real_program
from ._kernels import translated
from ._optimize import names_in
from ._symbolic import translation_of
from ._table import Context, lookup
from .errors import NoTranslation, UnsupportedOperatorError
from .ops._impl import ONNX_ATEN_DECOMP_TABLE

_ARITHMETIC = {operator.add: "Add", operator.sub: "Sub", operator.mul: "Mul", operator.floordiv: "Div",
               operator.mod: "Mod"}


class _Exporter:
    def __init__(self, program, opset, custom, sizes):
        self.program, self.custom, self.sizes = program, custom or {}, sizes
        self.g = Context(opset)
        self.values: dict[Node, Any] = {}

    # --- inputs

    def inputs(self, names, sizes):
        """The ONNX inputs; parameters, buffers and constants become initializers."""
        infos, given = [], list(names or ())
        specs = {s.arg.name: s for s in self.program.graph_signature.input_specs}
        for node in self.program.graph.nodes:
            if node.op != "placeholder":
                continue
            spec = specs[node.name]
            if spec.kind is not InputKind.USER_INPUT:
                tensor = self.program._tensor_of(spec)
                name = spec.target
                array = to_numpy(tensor.detach())
                if node.users:
                    self.g.initializers[self.g.fresh(name)] = _tensor(array, name)
                self.values[node] = Value(name, tuple(tensor.shape), tensor.dtype)
            elif isinstance(spec.arg, ConstantArgument):
                self.values[node] = spec.arg.value
            else:
                val = node.meta["val"]
                name = self.g.fresh(given.pop(0) if given else node.name)
                self.values[node] = Value(name, tuple(val.shape), val.dtype)
                infos.append(value_info(name, val.shape, val.dtype, sizes))
        return infos

    # --- nodes

    def argument(self, value):
        """An argument as translations take it."""
        return map_aggregate(value, lambda v: self.values[v] if isinstance(v, Node) else v)

    def run(self, module):
        """Translates the nodes of a ``GraphModule``."""
        checks = _checks_of(module.graph)
        for node in module.graph.nodes:
            if node.op == "call_function" and node not in checks:
                self.values[node] = self._call(node)
            elif node.op == "get_attr":
                self.values[node] = module.get_submodule(node.target)  # a branch, or a loop's body

    # --- control flow

    def _inlined(self, module, operands):
        """The results of an inner graph for values of the graph around it."""
        nodes = list(module.graph.nodes)
        for node, value in zip((n for n in nodes if n.op == "placeholder"), operands, strict=True):
            self.values[node] = value
        self.run(module)
        return self.argument(tuple(pytree.tree_leaves(module.graph.output_node().args[0])))

    def _graph(self, name, make, inputs=()):
        """An ONNX graph of the nodes that ``make`` adds, with its results as outputs.

        Values of graphs around are used by their names, and constants are of the outermost.
        """
        g = self.g
        outer, g.nodes = g.nodes, []
        outputs = []
        for value in make():
            out = g.op("Identity", value)
            outputs.append(value_info(out.name, out.shape, out.dtype, self.sizes))
        nodes, g.nodes = g.nodes, outer
        nodes, _ = used(nodes, [o.name for o in outputs])
        return onnx.helper.make_graph(nodes, g.fresh(name), list(inputs), outputs)

    def _values(self, values, like):
        """Values of the shapes and dtypes of others; numbers become constants."""
        return [
            self._typed(v, t) if isinstance(v, Value) else self.g.number(v, t.dtype)
            for v, t in zip(values, like, strict=True)
        ]

    def _results(self, kind, inputs, results, **graphs):
        names = self.g.raw(kind, *inputs, outputs=len(results), **graphs)
        names = [names] if len(results) == 1 else names
        return tuple(Value(n, tuple(t.shape), t.dtype) for n, t in zip(names, results))

    def _cond(self, results, pred, true, false, operands=()):
        def branch(module):
            return lambda: self._values(self._inlined(module, operands), results)

        pred = self.g.reshape(self.g.cast(pred, dtypes.bool), ())
        return self._results(
            "If", [pred.name], results, then_branch=self._graph("then", branch(true)),
            else_branch=self._graph("else", branch(false)),
        )

    def _while_loop(self, results, condition, body, carried, additional=()):
        g = self.g

        def goes_on(state):
            (found,) = self._inlined(condition, (*state, *additional))
            return g.reshape(g.cast(found, dtypes.bool), ())

        start = self._values(carried, results)
        state = [Value(g.fresh("state"), v.shape, v.dtype) for v in start]
        count, before = Value(g.fresh("step"), (), dtypes.int64), Value(g.fresh("goes_on"), (), dtypes.bool)

        def step():
            after = self._values(self._inlined(body, (*state, *additional)), results)
            return [goes_on(after), *after]

        inputs = [value_info(v.name, v.shape, v.dtype, self.sizes) for v in (count, before, *state)]
        return self._results(
            "Loop", ["", goes_on(start).name, *(v.name for v in start)], results,
            body=self._graph("body", step, inputs),
        )

    def _scan(self, results, body, init, xs, additional=()):
        g, count = self.g, len(init)
        start = self._values(init, results[:count])
        state = [Value(g.fresh("state"), v.shape, v.dtype) for v in start]
        slices = [Value(g.fresh("slice"), tuple(x.shape[1:]), x.dtype) for x in xs]

        def step():
            after = self._inlined(body, (*state, *slices, *additional))
            return [*self._values(after[:count], results[:count]), *after[count:]]

        inputs = [value_info(v.name, v.shape, v.dtype, self.sizes) for v in (*state, *slices)]
        return self._results(
            "Scan", [v.name for v in (*start, *xs)], results, body=self._graph("body", step, inputs), num_scan_inputs=len(xs)
        )

    def _map(self, results, body, xs, additional=()):
        return self._scan(results, body, (), xs, additional)

    def _call(self, node):
        args = self.argument(tuple(node.args))
        kwargs = dict(self.argument(dict(node.kwargs)))
        target = node.target
        if target is operator.getitem:
            return args[0][args[1]]
        if target in _ARITHMETIC or target in (operator.truediv, operator.pow, operator.neg):
            return self._number(target, args, node)
        flow = _FLOW.get(getattr(target, "__name__", None))
        if flow is not None:
            results = tuple(pytree.tree_leaves(node.meta["val"]))
            return flow(self, results, *args, **kwargs)
        if not isinstance(target, OpOverload):
            raise UnsupportedOperatorError(target, node)
        val = node.meta.get("val")
        g = self.g
        g.name = target._opname
        g.results = tuple(val) if isinstance(val, (tuple, list)) else (val,)
        function = self.custom.get(target) or self.custom.get(target.overloadpacket)
        if function is None:
            # What the table says of a name is of PyTorch's own: other packages' ``sin`` may be another function.
            name = own_name(target) or f"{target.namespace}::{g.name}"
            function = translation_of(target, g.opset) or lookup(name)
        if function is None:
            return translated(g, node, self.values)
        try:
            out = function(g, *args, **kwargs)
        except NoTranslation:
            with contextlib.suppress(UnsupportedOperatorError):
                return translated(g, node, self.values)
            raise
        if isinstance(out, Value) and val is not None and hasattr(val, "dtype"):
            out = self._typed(out, val)
        return out

    def _typed(self, out, val):
        """The result with the shape and dtype that the program says."""
        if out.dtype is not val.dtype:
            out = self.g.cast(out, val.dtype)
        return Value(out.name, tuple(val.shape), val.dtype)

    def _number(self, target, args, node):
        if not any(isinstance(a, Value) for a in args):
            return target(*args)
        g = self.g
        if target in (operator.truediv, operator.pow):
            values = [g.cast(a, dtypes.float64) for a in args]
            kind = "Div" if target is operator.truediv else "Pow"
            return g.op(kind, *values, shape=(), dtype=dtypes.float64)
        values = [
            g.number(a, dtypes.float64) if isinstance(a, float)
            else a if isinstance(a, Value) and a.dtype is dtypes.float64 else g.cast(a, dtypes.int64) for a in args
        ]
        if any(v.dtype is dtypes.float64 for v in values):
            values = [g.cast(v, dtypes.float64) for v in values]
        if target is operator.neg:
            return g.op("Neg", values[0])
        return g.op(_ARITHMETIC[target], *values, shape=())

    # --- outputs

    def outputs(self, names, sizes):
        """The ONNX outputs."""
        infos, given = [], list(names or ())
        results = self.program.graph.output_node().args[0]
        taken = set()
        for spec, node in zip(self.program.graph_signature.output_specs, results):
            if spec.kind is not OutputKind.USER_OUTPUT:
                continue  # what buffers became
            value = self.values[node] if isinstance(node, Node) else node
            if value is None:
                continue
            if not isinstance(value, Value):
                kind = dtypes.from_python(type(value))
                value = self.g.number(value, kind)
            name = given.pop(0) if given else self.g.fresh("output" if not taken else "output")
            taken.add(name)
            self.g.nodes.append(onnx.helper.make_node("Identity", [value.name], [name]))
            infos.append(value_info(name, value.shape, value.dtype, sizes))
        return infos


def _checks_of(graph):
    """The nodes that check numbers, for which ONNX has no words."""
    found = set()
    for node in reversed(graph.nodes):
        is_check = own_name(node.target) in _CHECKS
        if is_check or (node.op == "call_function" and node.users and all(user in found for user in node.users)):
            found.add(node)
    return found


_CHECKS = frozenset(
    "_assert_scalar _assert_async _assert_tensor_metadata sym_constrain_range sym_constrain_range_for_size".split()
)
_FLOW = {
    "cond": _Exporter._cond, "while_loop": _Exporter._while_loop, "scan": _Exporter._scan, "map_impl": _Exporter._map,
}


def _tensor(array, name):
    return onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def used(nodes, outputs):
    """(the nodes that outputs need, in order; the names that they need)."""
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if any(o in needed for o in node.output):
            kept.append(node)
            needed.update(names_in(node))
    return kept[::-1], needed


@scoped
def to_model(program, input_names=None, output_names=None, opset=18, custom=None, sizes=None):
    """The ONNX model of a program, and the names that its nodes have in it.

    Args:
        sizes: {symbol: name of the size in the model}.

    Raises:
        UnsupportedOperatorError: an op has no translation.
        OnnxExporterError: it has none with these arguments.
    """
    from ..export._functionalize import functionalized

    newer = {op: function for op, function in ONNX_ATEN_DECOMP_TABLE.items() if op._overloadname > f"opset{opset}"}
    if newer and any(node.target in newer for node in program.graph.nodes):
        program = program.run_decompositions(newer)
    functional = functionalized(program, {})
    sizes = sizes or {}
    if has_complex(functional):
        functional, sizes = real_program(functional, sizes)
        functional = functionalized(functional, {})
    exporter = _Exporter(functional, opset, custom, sizes)
    inputs = exporter.inputs(input_names, sizes)
    exporter.run(functional.graph_module)
    outputs = exporter.outputs(output_names, sizes)
    nodes, needed = used(exporter.g.nodes, [o.name for o in outputs])
    initializers = [t for name, t in exporter.g.initializers.items() if name in needed]
    graph = onnx.helper.make_graph(nodes, "main_graph", inputs, outputs, initializers)
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", opset), *(
            onnx.helper.make_opsetid(*entry) for entry in sorted(exporter.g.domains.items()))],
        producer_name="ftorch",
    )
    model.ir_version = min(model.ir_version, 10)
    onnx.checker.check_model(model)
    values = {node.name: v.name for node, v in exporter.values.items() if isinstance(v, Value)}
    return model, values


def flat_arrays(values):
    """Tensors as NumPy arrays, for a run of a model."""
    return [to_numpy(v.detach()) for v in pytree.tree_leaves(values) if isinstance(v, TensorBase)]
