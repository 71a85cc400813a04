"""From an `ExportedProgram` to the JSON of ``.pt2`` files."""

from __future__ import annotations

import math
import operator
from typing import Any

from .._higher_order_ops import HigherOrderOperator
from .._ops import OpOverload, own_name
from .._subclasses.fake_tensor import FakeTensor
from ..eager.core import device as _device
from ..eager.core import dtype as _dtype
from ..eager.core import formats
from ..eager.tensor import TensorBase
from ..fx.experimental.symbolic_shapes import SymBool
from ..fx.node import Node
from ..utils import _pytree as pytree
from ._schema import STRIDED, dtype_number, format_number, size_json, target_name
from .graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)

# Ops whose result is a list, not a tuple.
_LISTS = frozenset(
    "atleast_1d atleast_2d atleast_3d broadcast_tensors chunk dsplit gradient hsplit meshgrid split "
    "split_copy split_with_sizes split_with_sizes_copy tensor_split unbind unbind_copy unsafe_chunk "
    "unsafe_split unsafe_split_with_sizes vsplit where".split()
)


def tensor_meta(t) -> dict[str, Any]:
    """The description of a tensor."""
    g = t._ftorch_geometry
    device = t.device
    return {
        "dtype": dtype_number(g.dtype), "sizes": [size_json(n) for n in t.shape],
        "requires_grad": bool(t.requires_grad),
        "device": {"type": device.type, "index": device.index},
        "strides": [{"as_int": int(n)} for n in g.stride], "storage_offset": {"as_int": 0},
        "layout": STRIDED,
    }


def _argument(value) -> dict[str, Any]:
    if isinstance(value, Node):
        return _node_argument(value)
    if value is None:
        return {"as_none": True}
    for kind, tag in ((bool, "as_bool"), (int, "as_int"), (float, "as_float"), (str, "as_string")):
        if isinstance(value, kind):
            return {tag: _float(value) if kind is float else kind(value)}
    if isinstance(value, complex):
        return {"as_complex": {"real": value.real, "imag": value.imag}}
    if isinstance(value, _dtype.dtype):
        return {"as_scalar_type": dtype_number(value)}
    if isinstance(value, formats.memory_format):
        return {"as_memory_format": format_number(value)}
    if isinstance(value, formats.layout):
        return {"as_layout": STRIDED}
    if isinstance(value, _device.device):
        return {"as_device": {"type": value.type, "index": value.index}}
    if isinstance(value, (list, tuple)):
        return _list(list(value))
    raise RuntimeError(f"an argument of type {type(value).__name__} cannot be written to a file")


def _float(value):
    # JSON has no words for these; PyTorch writes strings.
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _node_argument(node):
    value = node.meta.get("val")
    if isinstance(value, (bool, SymBool)):
        return {"as_sym_bool": {"as_name": node.name}}
    if isinstance(value, int):
        return {"as_sym_int": {"as_name": node.name}}
    if isinstance(value, float):
        return {"as_sym_float": {"as_name": node.name}}
    return {"as_tensor": {"name": node.name}}


def _list(values):
    kinds = {next(iter(_argument(v))) for v in values}
    if not values:
        return {"as_ints": []}
    if kinds == {"as_tensor"}:
        return {"as_tensors": [{"name": v.name} for v in values]}
    if kinds == {"as_tensor", "as_none"} or kinds == {"as_none"}:
        return {"as_optional_tensors": [
            {"as_none": True} if v is None else {"as_tensor": {"name": v.name}} for v in values
        ]}
    if kinds == {"as_int"}:
        return {"as_ints": [int(v) for v in values]}
    if kinds <= {"as_int", "as_sym_int"}:
        return {"as_sym_ints": [
            {"as_name": v.name} if isinstance(v, Node) else {"as_int": int(v)} for v in values
        ]}
    if kinds <= {"as_float", "as_int"}:
        return {"as_floats": [_float(float(v)) for v in values]}
    if kinds == {"as_bool"}:
        return {"as_bools": values}
    if kinds == {"as_string"}:
        return {"as_strings": values}
    if kinds == {"as_ints"}:
        return {"as_int_lists": [list(v) for v in values]}
    raise RuntimeError(f"a list of {sorted(kinds)} cannot be written to a file")


class _GraphWriter:
    def __init__(self, graph, root):
        self.graph, self.root = graph, root
        self.tensors: dict[str, Any] = {}
        self.sizes: dict[str, Any] = {}
        self.floats: dict[str, Any] = {}
        self.bools: dict[str, Any] = {}

    def _note(self, name, value):
        if isinstance(value, TensorBase):
            self.tensors[name] = tensor_meta(value)
        elif isinstance(value, (bool, SymBool)):
            self.bools[name] = size_json(value)
        elif isinstance(value, int):
            self.sizes[name] = size_json(value)
        elif isinstance(value, float):
            self.floats[name] = size_json(value)

    def _argument(self, value):
        if isinstance(value, Node) and value.op == "get_attr":
            inner = getattr(self.root, value.target)
            graph = _GraphWriter(inner.graph, inner).write()
            return {"as_graph": {"name": value.target, "graph": graph}}
        return _argument(value)

    def write(self):
        inputs, nodes, outputs, is_single = [], [], [], False
        for node in self.graph.nodes:
            value = node.meta.get("val")
            if node.op == "placeholder":
                if isinstance(value, FakeTensor):
                    self._note(node.name, value)
                    inputs.append({"as_tensor": {"name": node.name}})
                else:
                    inputs.append(_argument(value))
            elif node.op == "call_function":
                if node.target is operator.getitem and _is_part(node):
                    continue
                nodes.append(self._node(node))
            elif node.op == "get_attr" and hasattr(getattr(self.root, node.target, None), "graph"):
                pass  # a graph in the graph: it is written where it is used
            elif node.op == "output":
                values = node.args[0]
                is_single = not isinstance(values, (list, tuple))
                outputs = [_argument(v) for v in ((values,) if is_single else values)]
            else:
                raise RuntimeError(f"a node of kind {node.op} cannot be written to a file")
        return {
            "inputs": inputs, "outputs": outputs, "nodes": nodes, "tensor_values": self.tensors,
            "sym_int_values": self.sizes, "sym_bool_values": self.bools,
            "is_single_tensor_return": is_single, "custom_obj_values": {},
            "sym_float_values": self.floats,
        }

    def _node(self, node):
        names = node.meta.get("argument_names") or _argument_names(node.target, len(node.args))
        inputs = [
            {"name": name, "arg": self._argument(value), "kind": 1}
            for name, value in zip(names, node.args)
        ]
        inputs += [{"name": k, "arg": _argument(v), "kind": 2} for k, v in node.kwargs.items()]
        metadata = {}
        if node.meta.get("stack_trace"):
            metadata["stack_trace"] = node.meta["stack_trace"]
        stack = node.meta.get("nn_module_stack")
        if stack:
            metadata["nn_module_stack"] = ";".join(
                f"{key},{path},{kind}" for key, (path, kind) in stack.items()
            )
        return {
            "target": target_name(node.target), "inputs": inputs, "outputs": self._outputs(node),
            "metadata": metadata, "is_hop_single_tensor_return": None, "name": node.name,
        }

    def _outputs(self, node):
        value = node.meta.get("val")
        if value is None:
            return []
        if not isinstance(value, (tuple, list)):
            self._note(node.name, value)
            return [_node_argument(node)]
        parts = {u.args[1]: u.name for u in node.users if u.target is operator.getitem}
        names = [parts.get(i, f"{node.name}_unused_{i}") for i in range(len(value))]
        for name, part in zip(names, value):
            self._note(name, part)
        if isinstance(value, list) or own_name(node.target) in _LISTS:
            return [{"as_tensors": [{"name": n} for n in names]}]
        return [{"as_tensor": {"name": n}} for n in names]


def _is_part(node):
    return isinstance(node.args[0].meta.get("val"), (tuple, list))


_RNN = "input hx params has_biases num_layers dropout train bidirectional batch_first"
_NORM = "input weight bias running_mean running_var"
# ATen's names of arguments, for PyTorch's reader: of composites, and where a kernel has others.
_NAMES = {
    "alpha_dropout": "input p train", "arange.start": "start end", "arange.default": "end",
    "arange.start_step": "start end step",
    "batch_norm": f"{_NORM} training momentum eps cudnn_enabled", "chunk": "self chunks dim",
    "contiguous": "self", "copy_": "self src non_blocking", "detach": "self",
    "cross_entropy_loss": "self target weight reduction ignore_index label_smoothing",
    "dropout": "input p train", "einsum": "equation tensors", "empty": "size", "eye": "n m",
    "feature_dropout": "input p train", "flatten": "self start_dim end_dim",
    "full": "size fill_value", "full_like": "self fill_value", "gelu": "self", "glu": "self dim",
    "gru.input": _RNN, "lstm.input": _RNN, "rnn_tanh.input": _RNN, "rnn_relu.input": _RNN,
    "instance_norm": f"{_NORM} use_input_stats momentum eps cudnn_enabled",
    "linspace": "start end steps", "mse_loss": "self target reduction",
    "new_full": "self size fill_value", "new_zeros": "self size", "new_ones": "self size",
    "new_empty": "self size", "nll_loss": "self target weight reduction ignore_index",
    "ones": "size", "zeros": "size", "rand": "size", "randn": "size", "randperm": "n",
    "pad": "self pad mode value", "pdist": "self p", "ravel": "self", "reshape": "self shape",
    "scaled_dot_product_attention": "query key value attn_mask dropout_p is_causal",
    "split": "self split_size dim", "split_with_sizes": "self split_sizes dim",
    "sym_size": "self dim", "to.dtype": "self dtype non_blocking copy", "unbind": "self dim",
    "upsample_nearest2d.vec": "input output_size scale_factors",
    "upsample_nearest1d.vec": "input output_size scale_factors",
    "upsample_bilinear2d.vec": "input output_size align_corners scale_factors",
}


def _argument_names(target, count):
    if isinstance(target, HigherOrderOperator):
        return [""] * count
    if not isinstance(target, OpOverload):
        return ["a", "b", "c"][:count]
    name = own_name(target)
    known = _NAMES.get(f"{name}.{target._overloadname}") or _NAMES.get(name)
    if known is not None:
        return known.split()[:count]
    # An overload for numbers has the names of that for tensors.
    for overload in (target, *target.overloadpacket._overloads.values()):
        if overload._schema is not None:
            return [a.name for a in overload._schema.arguments][:count]
    return ["self", *(f"argument_{i}" for i in range(1, count))]


# --- the signature --------------------------------------------------------------------


def _spec_argument(arg):
    if isinstance(arg, TensorArgument):
        return {"as_tensor": {"name": arg.name}}
    if isinstance(arg, SymIntArgument):
        return {"as_sym_int": {"as_name": arg.name}}
    if isinstance(arg, SymFloatArgument):
        return {"as_sym_float": {"as_name": arg.name}}
    return _argument(arg.value)


def _input_spec(spec):
    name = {"name": spec.arg.name}
    if spec.kind is InputKind.PARAMETER:
        return {"parameter": {"arg": name, "parameter_name": spec.target}}
    if spec.kind is InputKind.BUFFER:
        return {"buffer": {"arg": name, "buffer_name": spec.target,
                           "persistent": bool(spec.persistent)}}
    if spec.kind is InputKind.CONSTANT_TENSOR:
        return {"tensor_constant": {"arg": name, "tensor_constant_name": spec.target}}
    if isinstance(spec.arg, ConstantArgument):
        return {"constant_input": {"name": spec.arg.name, "value": _argument(spec.arg.value)}}
    return {"user_input": {"arg": _spec_argument(spec.arg)}}


def _output_spec(spec):
    name = {"name": spec.arg.name}
    if spec.kind is OutputKind.BUFFER_MUTATION:
        return {"buffer_mutation": {"arg": name, "buffer_name": spec.target}}
    if spec.kind is OutputKind.PARAMETER_MUTATION:
        return {"parameter_mutation": {"arg": name, "parameter_name": spec.target}}
    if spec.kind is OutputKind.USER_INPUT_MUTATION:
        return {"user_input_mutation": {"arg": name, "user_input_name": spec.target}}
    return {"user_output": {"arg": _spec_argument(spec.arg)}}


def _call_entry(entry):
    signature = entry.signature
    if signature is not None:
        signature = {
            "inputs": [], "outputs": [], "in_spec": pytree.treespec_dumps(signature.in_spec),
            "out_spec": pytree.treespec_dumps(_plain(signature.out_spec)),
            "forward_arg_names": signature.forward_arg_names,
        }
    return {"fqn": entry.fqn, "signature": signature}


def _plain(spec):
    """A structure with tuples in place of ``torch.return_types``, which have no names in files."""
    if not isinstance(spec.type, type):
        return spec
    if spec.type.__module__.endswith("return_types"):
        return pytree.treespec_tuple([_plain(child) for child in spec.children()])
    if spec.type in (tuple, list, dict):
        return pytree.TreeSpec(spec.type, spec.context, [_plain(child) for child in spec.children()])
    return spec


def to_json(program) -> dict[str, Any]:
    """The description of a program, without its tensors.

    Raises:
        RuntimeError: a node calls something that is no op of ``torch.ops``.
    """
    ranges = {
        str(k): {
            f"{end}_val": int(n) if math.isfinite(n) else None for end, n in (("min", v.lower), ("max", v.upper))
        }
        for k, v in program.range_constraints.items()
    }
    signature = program.graph_signature
    return {
        "graph_module": {
            "graph": _GraphWriter(program.graph, program.graph_module).write(),
            "signature": {
                "input_specs": [_input_spec(s) for s in signature.input_specs],
                "output_specs": [_output_spec(s) for s in signature.output_specs],
            },
            "module_call_graph": [_call_entry(e) for e in program.module_call_graph],
            "metadata": {}, "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": 10}, "range_constraints": ranges,
        "schema_version": {"major": 8, "minor": 20}, "verifiers": [program.dialect],
        "torch_version": "2.13.0", "guards_code": list(program._guards_code),
    }
