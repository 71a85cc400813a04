"""From the JSON of ``.pt2`` files to an `ExportedProgram`."""

from __future__ import annotations

import math
import operator
from typing import Any

from .._subclasses.fake_tensor import fake_like
from ..eager.core import device as _device
from ..eager.core.device import META
from ..eager.core.geometry import Size, contiguous_stride, geometry
from ..eager.memory.storage import Storage
from ..eager.tensor import wrap
from ..fx.experimental.symbolic_shapes import SymBool, SymFloat, SymInt, ValueRanges
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..nn import Module
from ..utils import _pytree as pytree
from ._schema import dtype_of, expr_of, format_of, size_of, target_of
from ._trace import placeholder
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)


def _fake(meta):
    sizes = [size_of(n) for n in meta["sizes"]]
    shape = Size(tuple(int(n) for n in sizes))
    g = geometry(shape, dtype_of(meta["dtype"]), META, contiguous_stride(shape))
    symbolic = sizes if any(isinstance(n, SymInt) for n in sizes) else None
    made = fake_like(wrap(Storage(g)), symbolic)
    made.fake_device = _device.resolve(device_of(meta["device"]))
    return made


def device_of(data):
    """The device of a description."""
    name = data["type"] if data.get("index") is None else f"{data['type']}:{data['index']}"
    return _device.device(name)


class _GraphReader:
    def __init__(self, data, root: Module):
        self.data, self.root = data, root
        self.graph = Graph()
        self.nodes: dict[str, Any] = {}

    def value(self, name):
        found = self.data["tensor_values"].get(name)
        if found is not None:
            return _fake(found)
        for table, kind in (("sym_int_values", SymInt), ("sym_float_values", SymFloat), ("sym_bool_values", SymBool)):
            found = (self.data.get(table) or {}).get(name)
            if found is not None:
                return size_of(found, kind)
        return None

    def define(self, name, node):
        self.nodes[name] = node
        node.meta["val"] = self.value(name)

    # --- arguments

    def argument(self, data):
        """What a description of an argument stands for."""
        tag, value = next((k, v) for k, v in data.items() if k.startswith("as_"))
        return getattr(self, tag)(value)

    def _name(self, data):
        return self.nodes[data["name"]]

    def _symbol(self, data):
        if "as_name" in data:
            return self.nodes[data["as_name"]]
        return next(iter(data.values()))

    def as_none(self, value):
        return None

    def as_tensor(self, value):
        return self._name(value)

    def as_tensors(self, value):
        return [self._name(v) for v in value]

    def as_optional_tensor(self, value):
        return None if "as_none" in value else self._name(value["as_tensor"])

    def as_optional_tensors(self, value):
        return [self.as_optional_tensor(v) for v in value]

    def as_nested_tensors(self, value):
        return [self.as_tensors(v) for v in value]

    as_int = as_ints = as_string = as_strings = as_bool = as_bools = as_int_lists = (
        lambda self, value: value
    )
    as_float = lambda self, value: float(value)  # noqa: E731
    as_floats = lambda self, value: [float(v) for v in value]  # noqa: E731
    as_float_lists = lambda self, value: [[float(v) for v in f] for f in value]  # noqa: E731
    as_scalar_type = lambda self, value: dtype_of(value)  # noqa: E731
    as_memory_format = lambda self, value: format_of(value)  # noqa: E731
    as_device = lambda self, value: device_of(value)  # noqa: E731
    as_layout = lambda self, value: None  # noqa: E731
    as_complex = lambda self, value: complex(value["real"], value["imag"])  # noqa: E731
    as_sym_int = as_sym_float = as_sym_bool = lambda self, value: self._symbol(value)  # noqa: E731
    as_sym_ints = as_sym_floats = as_sym_bools = (  # noqa: E731
        lambda self, value: [self._symbol(v) for v in value]
    )
    as_operator = lambda self, value: target_of(value)  # noqa: E731

    def as_graph(self, value):
        """A graph in the graph becomes a submodule."""
        inner = Module()
        reader = _GraphReader(value["graph"], inner)
        self.root.add_module(value["name"], GraphModule(inner, reader.read()))
        return self.graph.get_attr(value["name"])

    def as_custom_obj(self, value):
        raise RuntimeError(
            "The program has a TorchScript object among its inputs, which ftorch cannot hold."
        )

    # --- nodes

    def read(self, names=None) -> Graph:
        """The graph.

        Args:
            names: of the placeholders, where the file does not say.
        """
        for i, data in enumerate(self.data["inputs"]):
            found = data.get("as_tensor") or data.get("as_sym_int") or data.get("as_sym_float") or {}
            name = found.get("name") or found.get("as_name") or (names[i] if names else f"arg{i}")
            node = placeholder(self.graph, name)
            self.define(name, node)
            if node.meta["val"] is None:
                node.meta["val"] = next(iter(data.values())) if not found else None
        for data in self.data["nodes"]:
            self._node(data)
        outputs = tuple(self.argument(v) for v in self.data["outputs"])
        if self.data.get("is_single_tensor_return") and len(outputs) == 1:
            self.graph.output(outputs[0])
        else:
            self.graph.output(outputs)
        return self.graph

    def _node(self, data):
        target = target_of(data["target"])
        args, kwargs, shown = [], {}, []
        for given in data["inputs"]:
            value = self.argument(given["arg"])
            if given["kind"] == 2 or (given["kind"] is None and given["name"] in ("dtype", "device")):
                kwargs[given["name"]] = value
            else:
                args.append(value)
                shown.append(given["name"])
        outputs = data["outputs"]
        names = _names(outputs)
        whole = data.get("name") or (names[0] if names else None)
        is_single = len(outputs) == 1 and "as_tensors" not in outputs[0] and (
            data["target"].partition(".ops.higher_order")[1] == "" or data.get(
                "is_hop_single_tensor_return")
        )
        node = self.graph.create_node(
            "call_function", target, tuple(args), kwargs, name=names[0] if is_single else whole
        )
        node.meta.update(_metadata(data["metadata"]), argument_names=shown)
        if is_single:
            self.define(names[0], node)
            return
        if not outputs:
            return
        for i, name in enumerate(names):
            part = self.graph.create_node("call_function", operator.getitem, (node, i), {}, name=name)
            self.define(name, part)
        node.meta["val"] = tuple(self.nodes[n].meta["val"] for n in names)


def _names(outputs):
    names = []
    for out in outputs:
        for tag, value in out.items():
            if tag == "as_tensors":
                names += [v["name"] for v in value]
            elif tag == "as_none":
                names.append("none")
            else:
                names.append(value.get("name") or value.get("as_name"))
    return names


def _metadata(data):
    found: dict[str, Any] = {}
    if data.get("stack_trace"):
        found["stack_trace"] = data["stack_trace"]
    if data.get("nn_module_stack"):
        entries = (e.split(",", 2) for e in data["nn_module_stack"].split(";"))
        found["nn_module_stack"] = {e[0]: (e[1], e[2]) for e in entries if len(e) == 3}
    return found


def _spec_argument(data, reader):
    tag, value = next(iter(data.items()))
    if tag == "as_tensor":
        return TensorArgument(value["name"])
    if tag == "as_sym_int" and "as_name" in value:
        return SymIntArgument(value["as_name"])
    if tag == "as_sym_float" and "as_name" in value:
        return SymFloatArgument(value["as_name"])
    return ConstantArgument("", reader.argument(data))


def _input_spec(data, reader):
    tag, value = next(iter(data.items()))
    if tag == "user_input":
        return InputSpec(InputKind.USER_INPUT, _spec_argument(value["arg"], reader), None)
    if tag == "constant_input":
        constant = reader.argument(value["value"])
        return InputSpec(InputKind.USER_INPUT, ConstantArgument(value["name"], constant), None)
    name = TensorArgument(value["arg"]["name"])
    if tag == "parameter":
        return InputSpec(InputKind.PARAMETER, name, value["parameter_name"])
    if tag == "buffer":
        return InputSpec(InputKind.BUFFER, name, value["buffer_name"], value["persistent"])
    if tag == "tensor_constant":
        return InputSpec(InputKind.CONSTANT_TENSOR, name, value["tensor_constant_name"])
    raise RuntimeError(f"The program has an input of kind {tag}, which ftorch does not support.")


_MUTATIONS = {
    "buffer_mutation": (OutputKind.BUFFER_MUTATION, "buffer_name"),
    "parameter_mutation": (OutputKind.PARAMETER_MUTATION, "parameter_name"),
    "user_input_mutation": (OutputKind.USER_INPUT_MUTATION, "user_input_name"),
}


def _output_spec(data, reader):
    tag, value = next(iter(data.items()))
    if tag in _MUTATIONS:
        kind, key = _MUTATIONS[tag]
        return OutputSpec(kind, TensorArgument(value["arg"]["name"]), value[key])
    if tag in ("user_output", "loss_output"):
        kind = OutputKind.USER_OUTPUT if tag == "user_output" else OutputKind.LOSS_OUTPUT
        argument = value["arg"]
        argument = argument if tag == "user_output" else {"as_tensor": argument}
        return OutputSpec(kind, _spec_argument(argument, reader), None)
    raise RuntimeError(f"The program has an output of kind {tag}, which ftorch does not support.")


def _call_entry(data):
    signature = data["signature"]
    if signature is not None:
        signature = ModuleCallSignature(
            [], [], pytree.treespec_loads(signature["in_spec"]),
            pytree.treespec_loads(signature["out_spec"]), signature.get("forward_arg_names"),
        )
    return ModuleCallEntry(data["fqn"], signature)


def from_json(data, state_dict, constants, example_inputs) -> ExportedProgram:
    """The program of a description.

    Raises:
        RuntimeError: it has something that ftorch does not.
    """
    graph_data = data["graph_module"]
    root = Module()
    reader = _GraphReader(graph_data["graph"], root)
    specs = [_input_spec(s, reader) for s in graph_data["signature"]["input_specs"]]
    graph = reader.read([s.arg.name for s in specs])
    for node in reversed(graph.nodes):
        if node.target is operator.getitem and not node.users:
            graph.erase_node(node)
    outputs = [_output_spec(s, reader) for s in graph_data["signature"]["output_specs"]]
    ranges = {}
    for name, limits in data["range_constraints"].items():
        low, high = limits["min_val"], limits["max_val"]
        ranges[expr_of(name)] = ValueRanges(
            -math.inf if low is None else low, math.inf if high is None else high
        )
    program = ExportedProgram(
        root, graph, ExportGraphSignature(specs, outputs), state_dict, ranges,
        [_call_entry(e) for e in graph_data["module_call_graph"]], example_inputs, constants,
    )
    program._guards_code = list(data.get("guards_code") or ())
    program._is_functional = any(s.kind is not OutputKind.USER_OUTPUT for s in outputs)
    return program


__all__ = ["expr_of", "from_json"]
