"""Calls that quantize and dequantize, in the place of observers."""

from __future__ import annotations

import operator
import warnings

import ftorch as torch
from ftorch.ao.quantization.utils import is_per_channel, to_underlying_dtype
from ftorch.fx.node import Node

from .utils import create_getattr_from_value

_QUANTIZED = (torch.quint8, torch.qint8, torch.qint32, torch.float8_e5m2, torch.float8_e4m3fn)
_DECOMPOSED = (*_QUANTIZED, torch.uint8, torch.int8, torch.uint16, torch.int16, torch.int32)


def is_dequantize(node) -> bool:
    """Whether a node is a tensor's method ``dequantize``."""
    return isinstance(node, Node) and node.op == "call_method" and node.target == "dequantize"


def has_none_qconfig(node, node_name_to_qconfig) -> bool:
    """Whether a node is not to be quantized."""
    return isinstance(node, Node) and node_name_to_qconfig.get(node.name, node) is None


def insert_dequantize_node(node, graph) -> None:
    """Puts a dequantization behind a node, before its users."""
    with graph.inserting_after(node):
        dequantize = graph.call_method("dequantize", (node,))
        for user in list(node.users):
            if user is not dequantize:
                user.replace_input_with(node, dequantize)


def replace_with_dequantize(node, graph) -> None:
    """Puts a dequantization in the place of a custom module's observer, whose results are quantized already."""
    value = node.args[0]
    if not isinstance(value, Node):
        raise AssertionError(f"Expecting the for call custom module node to be a Node, but got {value}")
    node.replace_all_uses_with(value)
    graph.erase_node(node)
    insert_dequantize_node(value, graph)


def remove_dequantize(arg, node, graph) -> None:
    """A node takes the quantized values in place of those that were dequantized for it."""
    if is_dequantize(arg):
        node.replace_input_with(arg, arg.args[0])
    elif isinstance(arg, (list, tuple, dict)):
        for inner in arg.values() if isinstance(arg, dict) else arg:
            remove_dequantize(inner, node, graph)
    else:
        warnings.warn(f"Unsupported node type in recursive remove dequantize: {type(arg)}", stacklevel=2)


def _module_path_and_prefix(observer, node_name_to_scope, node_name_to_qconfig) -> tuple[str, str]:
    """What names a quantizer: (path of the module that makes the value, ""), or, for values that only their user wants
    quantized, (path of the user, "_input")."""
    value, prefix = observer.args[0], ""
    if not isinstance(value, Node):
        raise AssertionError(f"Expecting observed node to be a Node, but got {value}")
    if has_none_qconfig(value, node_name_to_qconfig):
        users, prefix = list(observer.users), "_input"
        linear = [u for u in users if u.op == "call_function" and u.target is torch.nn.functional.linear]
        value = next(iter([*linear, *users]), None)
    path = node_name_to_scope[value.name][0] if value is not None and value.name in node_name_to_scope else ""
    return path, prefix


def replace_observer(model, node, modules, node_name_to_scope, node_name_to_qconfig, device, is_decomposed) -> None:
    """Puts a quantization and a dequantization in the place of an observer; nothing, where neither the value nor its
    users are quantized."""
    graph, observer = model.graph, modules[node.target]
    if is_decomposed and hasattr(observer, "convert"):
        observer.convert(model, node)
        return
    path, prefix = _module_path_and_prefix(node, node_name_to_scope, node_name_to_qconfig)
    unwanted = all(has_none_qconfig(n, node_name_to_qconfig) for n in (*node.args, *node.users))
    dtype, is_dynamic = observer.dtype, getattr(observer, "is_dynamic", False)
    if unwanted or not (is_dynamic or dtype in _DECOMPOSED or dtype is torch.float16):
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)
        return

    def constant(name, value):
        return create_getattr_from_value(model, graph, f"{path}{prefix}_{name}_", value, device)

    with graph.inserting_before(node):
        make = _decomposed if is_decomposed else _quantized
        found = make(graph, node.args[0], observer, is_dynamic, constant)
        if found is not None:
            node.replace_all_uses_with(found)
            graph.erase_node(node)


def _quantized(graph, value, observer, is_dynamic, constant):
    """``torch.quantize_per_tensor(value, ...).dequantize()`` and its like."""
    dtype = observer.dtype
    if is_dynamic:
        reduce_range = torch.backends.quantized.engine in ("fbgemm", "x86")
        quantized = graph.call_function(torch.quantize_per_tensor_dynamic, (value, dtype, reduce_range))
    elif dtype is torch.float16:
        quantized = graph.call_method("to", (value, dtype))
    elif dtype in _QUANTIZED:
        scale, zero_point = observer.calculate_qparams()
        if is_per_channel(observer.qscheme):
            function = torch.quantize_per_channel
            rest = (constant("scale", scale), constant("zero_point", zero_point), int(observer.ch_axis), dtype)
        else:
            function = torch.quantize_per_tensor
            rest = (constant("scale", float(scale)), constant("zero_point", int(zero_point)), dtype)
        quantized = graph.call_function(function, (value, *rest))
    else:
        return None
    return graph.call_method("dequantize", (quantized,))


def _decomposed(graph, value, observer, is_dynamic, constant):
    """The same with the operators of `torch.ops.quantized_decomposed`, whose tensors are integers."""
    ops, dtype = torch.ops.quantized_decomposed, observer.dtype
    if not is_dynamic and dtype is torch.float16:
        half = graph.call_function(ops.convert_element_type.no_fuse, (value, torch.float16))
        return graph.call_function(ops.convert_element_type.no_fuse, (half, torch.float))
    integers = to_underlying_dtype(dtype)
    bounds = observer.quant_min, observer.quant_max
    if is_dynamic:
        if integers not in (torch.uint8, torch.int8):
            raise AssertionError(
                "only uint8 and int8 are supported in reference flow for dynamic quantization right now"
            )
        symmetric = getattr(observer, "qscheme", torch.per_tensor_affine) is torch.per_tensor_symmetric
        choose = (ops.choose_qparams_symmetric if symmetric else ops.choose_qparams).tensor
        eps = getattr(observer, "eps", torch.finfo(torch.float32).eps)
        chosen = graph.call_function(choose, (value, *bounds, eps, integers))
        scale, zero_point = (graph.call_function(operator.getitem, (chosen, i)) for i in range(2))
        to, back = ops.quantize_per_tensor.tensor, ops.dequantize_per_tensor.tensor
        rest = (scale, zero_point, *bounds, integers)
    elif is_per_channel(observer.qscheme):
        scale, zero_point = observer.calculate_qparams()
        to, back = ops.quantize_per_channel.default, ops.dequantize_per_channel.default
        rest = (constant("scale", scale), constant("zero_point", zero_point), int(observer.ch_axis), *bounds, integers)
    else:
        scale, zero_point = observer.calculate_qparams()
        to, back = ops.quantize_per_tensor.default, ops.dequantize_per_tensor.default
        rest = (float(scale), int(zero_point), *bounds, integers)
    quantized = graph.call_function(to, (value, *rest))
    return graph.call_function(back, (quantized, *rest))
