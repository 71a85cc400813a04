"""Equalization of a layer's inputs and weights (``torch.ao.quantization.fx._equalize``).

Columns of the input are multiplied by a scale s and those of the weight by 1 / s, so that both have the same share of the
range that integers cover. In graphs an observer of the input's columns stands behind the one that quantizes it; at the
conversion the layer before takes the scale into its weights where there is one, else a product is put into the graph.
"""

from __future__ import annotations

import operator
import warnings
from collections import namedtuple
from typing import Any

import ftorch as torch
import ftorch.nn.functional as F
from ftorch import nn
from ftorch.ao.nn import intrinsic
from ftorch.ao.quantization.observer import ObserverBase, PerChannelMinMaxObserver, _with_args
from ftorch.ao.quantization.utils import check_min_max_valid
from ftorch.fx import GraphModule
from ftorch.fx.node import Node

from .graph_module import _get_observed_graph_module_attr
from .utils import (
    _parent_name,
    get_new_attr_name_with_prefix,
    maybe_get_next_module,
    node_arg_is_bias,
    node_arg_is_weight,
)

CUSTOM_MODULE_SUPP_LIST: list[Any] = []
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_FUSED = (intrinsic.LinearReLU, intrinsic.ConvReLU1d, intrinsic.ConvReLU2d, intrinsic.ConvReLU3d)
_FUNCTIONS = (F.linear, F.conv1d, F.conv2d, F.conv3d)
qsheme_mapping_per_tensor_to_per_channel = {
    torch.per_tensor_affine: torch.per_channel_affine,
    torch.per_tensor_symmetric: torch.per_channel_symmetric,
}


def reshape_scale(scale, axis: int, input):
    """A scale for each index of an axis, in a shape that can be multiplied with a tensor."""
    return scale.view([input.size(axis) if i == axis else 1 for i in range(input.ndim)])


def _is_default(scale) -> bool:
    return scale.nelement() == 1 and bool(scale == 1)


def _check_dimensions(value) -> None:
    if not 2 <= value.ndim <= 5:
        raise ValueError("InputEqualizationObserver only supports Linear and Conv layers")


# --- observers


class _InputEqualizationObserver(nn.Module):
    """Follows the least and greatest values of the columns of an input.

    Args:
        dtype, qscheme, quant_min, quant_max, factory_kwargs: as of `PerChannelMinMaxObserver`; the scheme is one of whole
            tensors.

    Raises:
        TypeError: for another scheme.
    """

    with_args = classmethod(_with_args)

    def __init__(self, dtype=torch.quint8, qscheme=torch.per_tensor_affine, quant_min=None, quant_max=None,
                 factory_kwargs=None) -> None:
        super().__init__()
        if qscheme not in qsheme_mapping_per_tensor_to_per_channel:
            raise TypeError("Input qscheme must be per-tensor")
        self.dtype, self.qscheme = dtype, qscheme
        self.input_obs = PerChannelMinMaxObserver(
            ch_axis=1, dtype=dtype, qscheme=qsheme_mapping_per_tensor_to_per_channel[qscheme], quant_min=quant_min,
            quant_max=quant_max, factory_kwargs=factory_kwargs,
        )
        self.equalization_scale = torch.tensor(1)
        self.equalization_shape: list[int] = []

    def forward(self, x_orig):
        _check_dimensions(x_orig)
        self.equalization_shape = [x_orig.size(1) if i == 1 else 1 for i in range(x_orig.ndim)]
        return self.input_obs(x_orig)

    def get_input_minmax(self):
        return self.input_obs.min_val, self.input_obs.max_val

    def set_equalization_scale(self, equalization_scale) -> None:
        """Keeps a scale in the shape of the inputs that were seen."""
        if not _is_default(equalization_scale):
            self.equalization_scale = torch.reshape(equalization_scale, self.equalization_shape)

    def calculate_scaled_minmax(self):
        """(least, greatest) of the scaled input, or (None, None) with a warning where there is no scale yet."""
        if _is_default(self.equalization_scale):
            warnings.warn(
                "Must call calculate_equalization_scale before calling calculate_scaled_minmax. "
                "Will not scale the next quantization observer.",
                stacklevel=2,
            )
            return None, None
        least, greatest = self.get_input_minmax()
        scale = reshape_scale(self.equalization_scale, 0, least)
        return torch.min(least * scale), torch.max(greatest * scale)


class _WeightEqualizationObserver(nn.Module):
    """Follows the least and greatest values of the columns of a weight.

    Args:
        dtype, qscheme, quant_min, quant_max, factory_kwargs: as of `PerChannelMinMaxObserver`.
    """

    with_args = classmethod(_with_args)

    def __init__(self, dtype=torch.qint8, qscheme=torch.per_tensor_affine, quant_min=None, quant_max=None,
                 factory_kwargs=None) -> None:
        super().__init__()
        self.dtype, self.qscheme, self.ch_axis = dtype, qscheme, 1
        self.weight_col_obs = PerChannelMinMaxObserver(
            ch_axis=1, dtype=dtype, qscheme=qsheme_mapping_per_tensor_to_per_channel.get(qscheme, qscheme),
            quant_min=quant_min, quant_max=quant_max, factory_kwargs=factory_kwargs,
        )
        self.equalization_scale = torch.tensor(1)

    def forward(self, w_orig):
        _check_dimensions(w_orig)
        return self.weight_col_obs(w_orig)

    def get_weight_col_minmax(self):
        return self.weight_col_obs.min_val, self.weight_col_obs.max_val

    def set_equalization_scale(self, equalization_scale) -> None:
        self.equalization_scale = equalization_scale


def calculate_equalization_scale(input_obs: _InputEqualizationObserver, weight_obs: _WeightEqualizationObserver):
    """The scale of an input's columns, sqrt(weight's range / input's range); 1 where one of them is zero or unknown.

    Raises:
        ValueError: the input and the weight have not the same number of columns.
    """
    inputs, weights = input_obs.get_input_minmax(), weight_obs.get_weight_col_minmax()
    if not (check_min_max_valid(*inputs) and check_min_max_valid(*weights)):
        warnings.warn(
            "Must run observer before calling calculate_equalization_scale. "
            "Returning default equalization scale torch.tensor(1).",
            stacklevel=2,
        )
        return torch.tensor(1)
    if inputs[0].shape != weights[0].shape:
        raise ValueError(
            "Input and Weight must have the same column dimension. "
            f"Found {inputs[0].shape} and {weights[0].shape} shapes instead."
        )
    scale = torch.sqrt((weights[1] - weights[0]) / (inputs[1] - inputs[0]))
    scale[scale == 0.0] = 1
    return torch.nan_to_num(scale, nan=1, posinf=1, neginf=1)


class EqualizationQConfig(namedtuple("EqualizationQConfig", ["input_activation", "weight"])):
    """What makes the observers of a layer's input and of its weight.

    Raises:
        ValueError: for observers in place of what makes them.
    """

    __slots__ = ()

    def __new__(cls, input_activation=torch.nn.Identity, weight=torch.nn.Identity):
        if isinstance(input_activation, nn.Module) or isinstance(weight, nn.Module):
            raise ValueError(
                "EqualizationQConfig received observer instance, please pass observer class instead. "
                "Use MyObserver.with_args(x=1) to override arguments to constructor if needed"
            )
        return super().__new__(cls, input_activation, weight)


input_equalization_observer = _InputEqualizationObserver.with_args(
    dtype=torch.quint8, qscheme=torch.per_tensor_symmetric
)
weight_equalization_observer = _WeightEqualizationObserver.with_args(
    dtype=torch.qint8, qscheme=torch.per_channel_symmetric
)
default_equalization_qconfig = EqualizationQConfig(
    input_activation=input_equalization_observer, weight=weight_equalization_observer
)


def is_equalization_observer(observer) -> bool:
    return isinstance(observer, (_InputEqualizationObserver, _WeightEqualizationObserver))


# --- what can be equalized


def fused_module_supports_equalization(module) -> bool:
    return type(module) in _FUSED


def nn_module_supports_equalization(module) -> bool:
    return type(module) in _LAYERS


def custom_module_supports_equalization(module) -> bool:
    return type(module) in CUSTOM_MODULE_SUPP_LIST


def node_supports_equalization(node: Node, modules) -> bool:
    """Whether a node calls a linear layer or a convolution: as a module, fused or not, or as a function."""
    if node.op == "call_module":
        module = modules[str(node.target)]
        return (nn_module_supports_equalization(module) or fused_module_supports_equalization(module)
                or custom_module_supports_equalization(module))
    return node.op == "call_function" and node.target in _FUNCTIONS


def is_part_of_branch(node: Node, node_name_to_qconfig, modules) -> bool:
    """Whether another call that is quantized, or an observer, uses the first argument as well."""
    first = node.args[0] if node.args else None
    if not isinstance(first, Node):
        return False
    return any(
        node_name_to_qconfig.get(user.name) is not None
        or user.op == "call_module" and isinstance(modules[str(user.target)], ObserverBase)
        for user in first.users if user is not node
    )


def insert_equalization_observers(node: Node, qconfig, is_branch: bool, modules, insert) -> None:
    """Puts the observers of an equalization before the arguments of a call.

    Args:
        insert: (node, observer) -> the observer's node.
    """
    if qconfig is None or not node_supports_equalization(node, modules):
        return
    if is_branch:
        warnings.warn(f"Cannot equalize {node} because it is part of a branch.", stacklevel=2)
        return
    node.args = tuple(
        insert(arg, (qconfig.weight if node_arg_is_weight(node, arg) else qconfig.input_activation)())
        if isinstance(arg, Node) and not node_arg_is_bias(node, arg) else arg
        for arg in node.args
    )


# --- conversion


def _is_call_of(node, modules, kind) -> bool:
    return isinstance(node, Node) and node.op == "call_module" and isinstance(modules[str(node.target)], kind)


def maybe_get_weight_eq_obs_node(op_node: Node, modules) -> Node | None:
    """The node of the weight's observer in a function call."""
    if op_node.op != "call_function":
        raise AssertionError("maybe_get_weight_eq_obs_node expects a call_function op_node")
    return next((arg for arg in op_node.args if node_arg_is_weight(op_node, arg)
                 and _is_call_of(arg, modules, _WeightEqualizationObserver)), None)


def get_op_node_and_weight_eq_obs(input_eq_obs_node: Node, model, modules):
    """(call, weight's observer) behind an observer of inputs; (None, None) for a function whose weight has none."""
    op_node = next((user for user in input_eq_obs_node.users if node_supports_equalization(user, modules)), None)
    if op_node is None:
        raise AssertionError("Expected an operation node after the input equalization observer")
    if op_node.op == "call_module":
        qconfigs = _get_observed_graph_module_attr(model, "equalization_node_name_to_qconfig")
        if qconfigs is None:
            raise AssertionError(
                "Expected 'equalization_node_name_to_qconfig' attribute in observed graph module"
            )
        if qconfigs.get(op_node.name) is None:
            raise AssertionError(f"No equalization qconfig found for op node {op_node.name}")
        observer = qconfigs[op_node.name].weight()
        if not isinstance(observer, _WeightEqualizationObserver):
            raise AssertionError("Expected weight equalization observer to be a _WeightEqualizationObserver")
        return op_node, observer
    weight = maybe_get_weight_eq_obs_node(op_node, modules)
    return (None, None) if weight is None else (op_node, modules[str(weight.target)])


def maybe_get_next_input_eq_obs(node: Node, modules) -> _InputEqualizationObserver | None:
    """The observer of the inputs of the layer that follows a layer, with or without a ReLU between."""
    if not node_supports_equalization(node, modules):
        raise AssertionError("Node does not support equalization")
    relu = maybe_get_next_module(node, modules, nn.ReLU)
    if relu is None:
        relu = maybe_get_next_module(node, modules, target_functional_type=F.relu)
    quantizer = maybe_get_next_module(node if relu is None else relu, modules, ObserverBase)
    found = None if quantizer is None else maybe_get_next_module(quantizer, modules, _InputEqualizationObserver)
    return None if found is None else modules[str(found)]


def maybe_get_next_equalization_scale(node: Node, modules):
    """The scale of the inputs of the layer that follows, or None."""
    observer = maybe_get_next_input_eq_obs(node, modules)
    return None if observer is None or _is_default(observer.equalization_scale) else observer.equalization_scale


def scale_input_observer(node: Node, modules) -> None:
    """Gives the observer that quantizes an input the range of the scaled input."""
    observer = modules[str(node.target)]
    if not isinstance(node.args[0], Node):
        raise AssertionError("Expected the input quantization observer node to be a Node")
    quantizer = modules[str(node.args[0].target)]
    if not isinstance(quantizer, ObserverBase):
        return
    least, greatest = observer.calculate_scaled_minmax()
    if least is not None or greatest is not None:
        quantizer.min_val, quantizer.max_val = least, greatest


def _scaled(weight, scale, following):
    """A weight with its columns divided by a scale, and its rows multiplied with the one of the layer that follows."""
    weight = torch.mul(weight, torch.reciprocal(reshape_scale(scale, 1, weight)))
    return weight if following is None else torch.mul(weight, reshape_scale(following, 0, weight))


def scale_weight_node(node: Node, modules, equalization_scale, next_equalization_scale) -> None:
    """Scales the weight and the bias of a layer that is a module."""
    if equalization_scale is None:
        return
    layer = modules[str(node.target)]
    layer = layer[0] if fused_module_supports_equalization(layer) else layer
    if not (nn_module_supports_equalization(layer) or custom_module_supports_equalization(layer)):
        raise AssertionError("Expected operation module to support equalization (nn or custom)")
    layer.weight = nn.Parameter(_scaled(layer.weight, equalization_scale, next_equalization_scale))
    if next_equalization_scale is not None and layer.bias is not None:
        layer.bias = nn.Parameter(torch.mul(layer.bias, reshape_scale(next_equalization_scale, 0, layer.bias)))


def scale_weight_functional(op_node: Node, model, modules, equalization_scale, next_equalization_scale) -> None:
    """Scales the weight and the bias that a function is given: ``get_attr -> quantizing observer -> observer``."""
    observer = None if equalization_scale is None else maybe_get_weight_eq_obs_node(op_node, modules)
    quantizer = None if observer is None else observer.args[0]
    if quantizer is None:
        return
    if not _is_call_of(quantizer, modules, ObserverBase):
        raise AssertionError("Expected weight_quant_obs_node to be a Node whose module is an ObserverBase")
    weight = quantizer.args[0]
    if weight is None:
        return
    if not (isinstance(weight, Node) and weight.op == "get_attr"):
        raise AssertionError("Expected weight node to be a 'get_attr' Node")
    parent, name = _parent_name(weight.target)
    setattr(modules[parent], name,
            _scaled(getattr(modules[parent], name), equalization_scale, next_equalization_scale))
    bias = next((a for a in op_node.args if isinstance(a, Node) and a.op == "get_attr" and "bias" in a.name), None)
    if next_equalization_scale is not None and bias is not None:
        parent, name = _parent_name(bias.target)
        value = getattr(modules[parent], name)
        setattr(modules[parent], name, torch.mul(value, reshape_scale(next_equalization_scale, 0, value)))


def clear_weight_quant_obs_node(op_node: Node, modules) -> None:
    """Lets the observer that quantizes a function's weight begin anew."""
    observer = maybe_get_weight_eq_obs_node(op_node, modules)
    quantizer = None if observer is None else observer.args[0]
    if quantizer is None:
        return
    if not _is_call_of(quantizer, modules, ObserverBase):
        raise AssertionError("Expected the module at weight_quant_obs_node to be an ObserverBase")
    modules[str(quantizer.target)].reset_min_max_vals()


def remove_node(model: GraphModule, node: Node, prev_node: Node) -> None:
    """Takes a node away; what used it uses another one."""
    for user in list(node.users):
        user.replace_input_with(node, prev_node)
    model.graph.erase_node(node)


def update_obs_for_equalization(model: GraphModule, modules) -> dict[str, _WeightEqualizationObserver]:
    """Computes all scales; gives {name of a call: its weight's observer}."""
    found = {}
    for node in model.graph.nodes:
        if not _is_call_of(node, modules, _InputEqualizationObserver):
            continue
        op_node, observer = get_op_node_and_weight_eq_obs(node, model, modules)
        if op_node is None or observer is None:
            continue
        if op_node.op == "call_module":
            layer = modules[str(op_node.target)]
            observer((layer[0] if fused_module_supports_equalization(layer) else layer).weight)
        scale = calculate_equalization_scale(modules[node.target], observer)
        modules[node.target].set_equalization_scale(scale)
        observer.set_equalization_scale(scale)
        found[op_node.name] = observer
    return found


def _put_product(model, node, modules) -> None:
    """Multiplies an input with its scale before it is quantized, in the place of its observer."""
    quantizer = node.args[0]
    value = quantizer.args[0]
    scale_input_observer(node, modules)
    name = get_new_attr_name_with_prefix(f"{value.name}_equalization_scale")(modules)
    setattr(model, name, modules[node.target].equalization_scale)
    with model.graph.inserting_before(quantizer):
        scale = model.graph.create_node("get_attr", name)
    with model.graph.inserting_after(scale):
        product = model.graph.create_node("call_function", torch.mul, (value, scale))
    quantizer.replace_input_with(value, product)
    remove_node(model, node, quantizer)


def convert_eq_obs(model: GraphModule, modules, weight_eq_obs_dict) -> None:
    """Scales the weights, and puts products in the place of the observers of inputs where no layer comes before."""
    for node in list(model.graph.nodes):
        if _is_call_of(node, modules, _InputEqualizationObserver):
            value = node.args[0].args[0]
            if node_supports_equalization(value, modules) or "relu" in value.name:
                remove_node(model, node, node.args[0])  # the layer before takes the scale
            else:
                _put_product(model, node, modules)
            continue
        observer = weight_eq_obs_dict.get(node.name)
        if observer is None:
            continue
        scale = None if _is_default(observer.equalization_scale) else observer.equalization_scale
        following = maybe_get_next_equalization_scale(node, modules)
        if node.op == "call_module":
            scale_weight_node(node, modules, scale, following)
            continue
        scale_weight_functional(node, model, modules, scale, following)
        weight = maybe_get_weight_eq_obs_node(node, modules)
        if weight is None:
            return
        clear_weight_quant_obs_node(node, modules)
        remove_node(model, weight, weight.args[0])


def _convert_equalization_ref(model: GraphModule) -> GraphModule:
    """A prepared model with its equalization alone: what is quantized stays observed."""
    modules = dict(model.named_modules(remove_duplicate=False))
    convert_eq_obs(model, modules, update_obs_for_equalization(model, modules))
    return GraphModule(model, model.graph)


# --- which layers to equalize


def get_layer_sqnr_dict(model_a, model_b, x) -> dict[str, float]:
    """{layer: ratio of signal to quantization noise in dB} of a model in floating point and a quantized one."""
    suite = torch.ao.ns._numeric_suite_fx
    unmatchable = torch.ao.ns.fx.mappings.get_unmatchable_types_map()
    unmatchable["funs_unmatchable"].add(torch.mul)  # those of the scales have no partner
    a, b = suite.add_loggers("fp32", model_a, "int8", model_b, suite.OutputLogger, unmatchable_types_map=unmatchable)
    a(x)
    b(x)
    results = suite.extract_logger_info(a, b, suite.OutputLogger, "int8")
    suite.extend_logger_results_with_comparison(results, "fp32", "int8", torch.ao.ns.fx.utils.compute_sqnr, "sqnr")
    found = {}
    for result in results.values():
        first = result["node_output"]["int8"][0]
        found[first["fqn"]] = first["sqnr"][0]
    return found


def get_equalization_qconfig_dict(layer_sqnr_dict: dict[str, float], num_layers_to_equalize: int) -> Any:
    """A configuration that equalizes the layers with the most noise."""
    worst = sorted(layer_sqnr_dict.items(), key=operator.itemgetter(1))[:num_layers_to_equalize]
    return {"module_name": [(layer, default_equalization_qconfig) for layer, _ in worst]}
