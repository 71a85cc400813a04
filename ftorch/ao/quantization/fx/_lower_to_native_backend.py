"""From reference graphs to quantized layers and operators (``torch.ao.quantization.fx._lower_to_native_backend``).

A reference graph computes in floating point between a dequantization and a quantization; a call that has a quantized
form takes the place of the three.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ftorch as torch
import ftorch.nn.functional as F
from ftorch import nn
from ftorch.ao.quantization.quantization_mappings import get_quantized_operator
from ftorch.fx import Graph, GraphModule
from ftorch.fx.node import Node, map_arg

from . import _lowering_tables as tables
from ._quantize_calls import has_none_qconfig, is_dequantize
from .graph_module import _load_packed_weight, _save_packed_weight
from .utils import (
    _get_module,
    _parent_name,
    collect_producer_nodes,
    create_node_from_old_node_preserve_meta,
    get_linear_prepack_op_for_dtype,
    get_new_attr_name_with_prefix,
    get_qconv_prepack_op,
    graph_module_from_producer_nodes,
)

__all__: list[str] = []


def _modules_of(model) -> dict[str, Any]:
    return dict(model.named_modules(remove_duplicate=False))


def _set_module(modules, node, module) -> None:
    parent, name = _parent_name(node.target)
    setattr(modules[parent], name, module)


def _is_call_of(node, modules, calls) -> str | None:
    """How a node calls one of some (functions, methods, layers): "function", "method", "module", or not."""
    functions, methods, layers = calls
    if not isinstance(node, Node):
        return None
    if node.op == "call_function" and node.target in functions:
        return "function"
    if node.op == "call_method" and node.target in methods:
        return "method"
    return "module" if node.op == "call_module" and type(modules[str(node.target)]) in layers else None


def _is_quantize(node) -> bool:
    return node.op == "call_function" and node.target is torch.quantize_per_tensor


def _match_static(node, modules, qconfig_map, keys: Iterable, positions, layers: bool):
    """(quantization, ReLU or None, call) of dequantize - call - (ReLU) - quantize that ends at a node, or None.

    Args:
        keys: the functions, or the layers' classes.
        positions: of the arguments that are dequantized; one at least, the others no nodes.
    """
    if not _is_quantize(node):
        return None
    call, relu = node.args[0], None
    if (call.op == "call_function" and call.target in (F.relu, torch.relu)) or (
        call.op == "call_module" and type(_get_module(call, modules)) is nn.ReLU
    ):
        relu, call = call, call.args[0]
    if has_none_qconfig(call, qconfig_map):
        return None
    if call.op != ("call_module" if layers else "call_function"):
        return None
    if (type(_get_module(call, modules)) if layers else call.target) not in keys:
        return None
    arguments = [call.args[i] for i in positions]
    if any(isinstance(a, Node) and not is_dequantize(a) for a in arguments) or not any(map(is_dequantize, arguments)):
        return None
    return node, relu, call


# --- layers


def _lower_static_layers(model, qconfig_map) -> None:
    modules = _modules_of(model)
    keys = (*tables.STATIC_LAYERS, *tables.STATIC_FUSED_LAYERS)
    for node in model.graph.nodes:
        found = _match_static(node, modules, qconfig_map, keys, [0], layers=True)
        if found is not None:
            quantize, _, call = found
            _lower_static_layer(model, modules, quantize, call, tables.STATIC_FUSED_LAYERS)


def _lower_static_layer(model, modules, quantize, call, fused) -> None:
    reference = _get_module(call, modules)
    if type(reference) in fused:
        inner, kind = fused[type(reference)]
        if type(reference[0]) is not inner:
            return
    else:
        kind = tables.STATIC_LAYERS[type(reference)]
    _, scale, zero_point, _ = quantize.args
    _set_module(
        modules, call, kind.from_reference(reference, getattr(model, scale.target), getattr(model, zero_point.target))
    )
    for dequantize in list(call.args):
        call.replace_input_with(dequantize, dequantize.args[0])
    quantize.replace_all_uses_with(call)
    for old in (quantize, scale, zero_point):
        model.graph.erase_node(old)


def _lower_static_layers_of_two(model, qconfig_map) -> None:
    modules = _modules_of(model)
    for node in model.graph.nodes:
        if not _is_quantize(node) or has_none_qconfig(node.args[0], qconfig_map):
            continue
        call = node.args[0]
        if type(_get_module(call, modules)) not in tables.STATIC_FUSED_LAYERS_OF_TWO:
            continue
        if len(call.args) == 2 and all(map(is_dequantize, call.args)):
            _lower_static_layer(model, modules, node, call, tables.STATIC_FUSED_LAYERS_OF_TWO)


def _dynamic_quantize_of(dequantize):
    """The dynamic quantization that a value comes from, or None."""
    if not is_dequantize(dequantize):
        return None
    quantize = dequantize.args[0]
    if quantize.op != "call_function" or quantize.target is not torch.quantize_per_tensor_dynamic:
        return None
    return quantize if quantize.args[1] in (torch.float16, torch.quint8, torch.qint8) else None


def _lower_dynamic_layers(model) -> None:
    modules = _modules_of(model)
    for call in model.graph.nodes:
        reference = _get_module(call, modules)
        kind = tables.DYNAMIC_LAYERS.get(type(reference))
        if type(reference) in tables.DYNAMIC_FUSED_LAYERS:
            inner, kind = tables.DYNAMIC_FUSED_LAYERS[type(reference)]
            if type(reference[0]) is not inner:
                continue
        quantize = None if kind is None else _dynamic_quantize_of(call.args[0])
        if quantize is not None:
            _set_module(modules, call, kind.from_reference(reference))
            call.replace_input_with(call.args[0], quantize.args[0])


def _lower_weight_only_layers(model) -> None:
    modules = _modules_of(model)
    for call in model.graph.nodes:
        reference = _get_module(call, modules)
        kind = tables.WEIGHT_ONLY_LAYERS.get(type(reference))
        if kind is not None:
            _set_module(modules, call, kind.from_reference(reference))


# --- functions


def _prepack(func, weight, rest, kwargs):
    """(operator, arguments, keywords) that pack a function's weight and bias."""
    arguments: list[Any] = [weight, *rest]
    if func is F.linear:
        kwargs = {"B" if k == "bias" else k: v for k, v in kwargs.items()}
        return get_linear_prepack_op_for_dtype(weight.args[-1]), tuple(arguments), kwargs
    transposed = func in tables.TRANSPOSED_CONVOLUTIONS
    if func in (F.conv1d, F.conv_transpose1d):
        for i in (2, 3, 4, 6) if transposed else (2, 3, 4):
            if len(arguments) > i and isinstance(arguments[i], int):
                arguments[i] = (arguments[i],)
    if transposed and len(arguments) > 6:
        # The function takes groups before dilation, the operator after.
        arguments[5], arguments[6] = arguments[6], arguments[5]
    return get_qconv_prepack_op(func), tuple(arguments), kwargs


def _lower_static_functions(model, qconfig_map) -> None:
    modules = _modules_of(model)
    for node in model.graph.nodes:
        found = _match_static(node, modules, qconfig_map, tables.STATIC_FUNCTIONS, [0, 1], layers=False)
        if found is None:
            continue
        quantize, relu, call = found
        _, scale, zero_point, _ = quantize.args
        value, weight_dq, *rest = call.args
        weight = weight_dq.args[0]
        if weight.op != "call_function" or weight.target not in (torch.quantize_per_tensor, torch.quantize_per_channel):
            continue
        with model.graph.inserting_before(scale):
            packed = model.graph.create_node("call_function", *_prepack(call.target, weight, rest, call.kwargs))
        plain, with_relu = tables.STATIC_FUNCTIONS[call.target]
        joined = relu is not None and with_relu is not None
        call.target = with_relu if joined else plain
        call.args, call.kwargs = (value.args[0], packed, scale, zero_point), {}
        quantize.replace_all_uses_with(call)
        zero_point.append(call)
        model.graph.erase_node(quantize)
        if joined:
            model.graph.erase_node(relu)


def _lower_dynamic_functions(model, qconfig_map) -> None:
    modules = _modules_of(model)
    for node in reversed(list(model.graph.nodes)):
        call, relu = node, None
        if _is_call_of(node, modules, ((F.relu,), (), (nn.ReLU,))):
            relu, call = node, node.args[0]
        if has_none_qconfig(call, qconfig_map):
            continue
        if call.op != "call_function" or call.target not in tables.DYNAMIC_FUNCTIONS:
            continue
        value, weight_dq, *rest = call.args
        quantize = _dynamic_quantize_of(value)
        if quantize is None or not is_dequantize(weight_dq):
            continue
        source, dtype, reduce_range = quantize.args
        weight = weight_dq.args[0]
        dtypes = dtype, weight.args[-1]
        if dtypes not in tables.DYNAMIC_FUNCTIONS[call.target]:
            print(f"Didn't find dtype combination {dtypes} during dynamic quantized op lowering for {call.target}")
            continue
        plain, with_relu = tables.DYNAMIC_FUNCTIONS[call.target][dtypes]
        if plain is None or with_relu is None:
            print("Didn't find corresponding quantized function or quantized relu function "
                  f"for {call.target}, {dtypes}")
            continue
        bias = {"bias": call.kwargs["bias"]} if "bias" in call.kwargs else {}
        call.kwargs = {k: v for k, v in call.kwargs.items() if k not in bias}
        with model.graph.inserting_before(call):
            packed = model.graph.create_node("call_function", *_prepack(call.target, weight, rest, bias))
        call.target = plain if relu is None else with_relu
        call.args = (source, packed) if dtype is torch.float16 else (source, packed, reduce_range)
        if relu is not None:
            relu.replace_all_uses_with(call)
            model.graph.erase_node(relu)


def _lower_binary(model, qconfig_map) -> None:
    modules = _modules_of(model)
    for node in model.graph.nodes:
        found = _match_static(node, modules, qconfig_map, tables.BINARY, [0, 1], layers=False)
        if found is None:
            continue
        quantize, relu, call = found
        _, scale, zero_point, _ = quantize.args
        tensors = 0
        for arg in list(call.args):
            if is_dequantize(arg):
                call.replace_input_with(arg, arg.args[0])
                tensors += 1
        plain, with_relu = tables.BINARY[call.target]
        arguments = (*call.args, scale, zero_point) if tensors == 2 else call.args
        with model.graph.inserting_after(quantize):
            new = create_node_from_old_node_preserve_meta(
                model.graph, ("call_function", plain if relu is None else with_relu, tuple(arguments), {}), call
            )
            quantize.replace_all_uses_with(new)
        for old in (quantize, relu, call):
            if old is not None:
                model.graph.erase_node(old)


# --- what is called on quantized tensors as it is


def _lower_sizes(model) -> None:
    for node in model.graph.nodes:
        shape = node.op == "call_function" and node.target is getattr and node.args[1] == "shape"
        if shape or (node.op == "call_method" and node.target in ("shape", "size")):
            if is_dequantize(node.args[0]):
                node.args = (node.args[0].args[0], *node.args[1:])


def special_pattern_replacement(model):
    """Calls of quantized tensors in the place of dequantize - call - quantize, for what has no weights."""
    modules = _modules_of(model)
    every = (tables.FIXED, tables.WITH_QUANTIZER, tables.SAME_QUANTIZER, tables.MOVING, tables.OTHER)
    for node in model.graph.nodes:
        quantize = node.target is torch.quantize_per_tensor
        half = (
            node.op == "call_method" and node.target == "to" and len(node.args) == 2 and node.args[1] is torch.float16
        )
        if not quantize and not half:
            continue
        call = node.args[0]
        if half and (_is_call_of(call, modules, tables.FIXED) or _is_call_of(call, modules, tables.WITH_QUANTIZER)):
            continue
        how = next((h for calls in every if (h := _is_call_of(call, modules, calls))), None)
        if how is None:
            continue
        first = call.args[0] if call.args else next(iter(call.kwargs.values()))
        inputs = list(first) if isinstance(first, (tuple, list)) else [first]
        if not all(map(is_dequantize, inputs)):
            continue
        if how == "module" and quantize and type(modules[call.target]) in tables.OTHER_LAYERS:
            kind = tables.OTHER_LAYERS[type(modules[call.target])]
            scale, zero_point = (getattr(model, n.target) for n in node.args[1:3])
            _set_module(modules, call, kind.from_reference(modules[call.target], scale, zero_point))
        for dequantize in inputs:
            call.replace_input_with(dequantize, dequantize.args[0])
        parameters = node.args[1:]
        node.replace_all_uses_with(call)
        model.graph.erase_node(node)
        if _is_call_of(call, modules, tables.WITH_QUANTIZER) == "function":
            _call_with_quantizer(model, call, parameters)
        else:
            for old in parameters:
                if isinstance(old, Node):
                    model.graph.erase_node(old)
    return model


def _call_with_quantizer(model, call, parameters) -> None:
    """The quantized operator in the place of a function, with its results' quantizer."""
    operator = get_quantized_operator(call.target)
    skipped = tables.SKIPPED_ARGUMENTS.get(operator, ())
    kwargs = {k: v for k, v in call.kwargs.items() if k not in skipped}
    kwargs["output_scale"], kwargs["output_zero_point"] = parameters[:2]
    with model.graph.inserting_after(parameters[1]):
        new = create_node_from_old_node_preserve_meta(model.graph, ("call_function", operator, call.args, kwargs), call)
    call.replace_all_uses_with(new)
    model.graph.erase_node(call)


# --- packed weights


def fold_weight(quantized_model, node_name_to_scope, keep_original_weights=False) -> GraphModule:
    """A graph module that reads packed weights, in place of packing them.

    Args:
        keep_original_weights: whether the module's ``original_weights_lookup`` keeps what was packed, by name.
    """
    model, packed, folded, originals = quantized_model, {}, {}, {}
    for node in model.graph.nodes:
        if node.op != "call_function" or node.target not in tables.PREPACK:
            continue
        nodes = collect_producer_nodes(node)
        if nodes is None:
            continue
        folded.update((n.name, node) for n in nodes)
        module = graph_module_from_producer_nodes(model, nodes)
        packed[node.name] = module()
        kept = sorted(module.state_dict().values(), key=lambda x: x.numel(), reverse=True)
        originals[node.name] = kept if len(kept) > 1 else [*kept, None]
    graph, copies, lookup = Graph(), {}, {}

    def load_arg(a):
        return map_arg(a, lambda node: copies[node.name])

    for node in model.graph.nodes:
        prepack = folded.get(node.name)
        if prepack is None:
            copies[node.name] = graph.node_copy(node, load_arg)
        elif prepack is node:
            path, _ = node_name_to_scope[next(iter(node.users)).name]
            name = get_new_attr_name_with_prefix(path + "_packed_weight_")(model)
            setattr(model, name, packed[node.name])
            copies[node.name] = graph.create_node("get_attr", name, (), {})
            key = name.replace(":", "_").replace("/", "_").replace("|", "_").replace(" ", "").lower()
            lookup[key] = originals[node.name]
    model = GraphModule(model, graph)
    model._register_state_dict_hook(_save_packed_weight)
    model.register_load_state_dict_pre_hook(_load_packed_weight)
    if keep_original_weights:
        model.original_weights_lookup = lookup
    return model


def _lower_to_native_backend(model, qconfig_map, node_name_to_scope, keep_original_weights=False) -> GraphModule:
    """A reference graph module with quantized layers and operators wherever there are."""
    _lower_static_layers(model, qconfig_map)
    _lower_static_layers_of_two(model, qconfig_map)
    _lower_dynamic_layers(model)
    _lower_weight_only_layers(model)
    _lower_static_functions(model, qconfig_map)
    _lower_dynamic_functions(model, qconfig_map)
    _lower_binary(model, qconfig_map)
    _lower_sizes(model)
    special_pattern_replacement(model)
    model.graph.eliminate_dead_code()
    model = fold_weight(model, node_name_to_scope, keep_original_weights)
    model.graph.eliminate_dead_code()
    model.recompile()
    model.graph.lint()
    return model
