"""From observers to quantized calls (``torch.ao.quantization.fx.convert``)."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import ftorch as torch
from ftorch.ao.quantization.backend_config.utils import (
    get_fused_module_classes,
    get_pattern_to_dtype_configs,
    get_qat_module_classes,
    get_root_module_to_quantized_reference_module,
)
from ftorch.ao.quantization.observer import _is_activation_post_process
from ftorch.ao.quantization.qconfig import qconfig_equals
from ftorch.ao.quantization.stubs import DeQuantStub
from ftorch.ao.quantization.utils import (
    activation_is_statically_quantized,
    get_qparam_dict,
    get_swapped_custom_module_class,
    weight_is_quantized,
)
from ftorch.fx import GraphModule
from ftorch.fx.node import Node
from ftorch.nn.utils.parametrize import type_before_parametrizations

# relatively: an absolute import would put the module in the place of the package's function `quantize`
from ..quantize import _remove_qconfig
from ._equalize import convert_eq_obs, update_obs_for_equalization
from ._quantize_calls import (
    has_none_qconfig,
    insert_dequantize_node,
    is_dequantize,
    remove_dequantize,
    replace_observer,
    replace_with_dequantize,
)
from .custom_config import ConvertCustomConfig
from .fuse import as_config, backend_of
from .graph_module import _is_observed_module, _is_observed_standalone_module
from .lower_to_fbgemm import lower_to_fbgemm
from .lstm_utils import is_custom_module_lstm
from .prepare import _mapping
from .qconfig_mapping_utils import (
    _compare_prepare_convert_qconfig_mappings,
    _generate_node_name_to_qconfig,
    _is_qconfig_supported_by_dtype_configs,
    _update_qconfig_for_fusion,
    _update_qconfig_for_qat,
)
from .utils import (
    _get_module,
    _parent_name,
    assert_and_get_unique_device,
    collect_producer_nodes,
    get_custom_module_class_keys,
    graph_module_from_producer_nodes,
    node_arg_is_weight,
)

__all__ = ["convert", "convert_custom_module", "convert_standalone_module", "convert_weighted_module"]


def _set_module(modules, target, module) -> None:
    parent, name = _parent_name(target)
    setattr(modules[parent], name, module)


def _run_weight_observers(observed) -> None:
    """Shows the weights of function calls to their observers."""
    for node in observed.graph.nodes:
        if node.op != "call_function":
            continue
        for arg in node.args:
            if isinstance(arg, Node) and node_arg_is_weight(node, arg):
                nodes = collect_producer_nodes(arg)
                if nodes is not None:
                    graph_module_from_producer_nodes(observed, nodes)()


def convert_standalone_module(node, modules, model, is_reference, backend_config) -> None:
    """Converts a submodule that was prepared apart."""
    observed = modules[str(node.target)]
    attributes = observed.meta["_observed_graph_module_attrs"]
    for index, arg in enumerate(list(node.args)):
        if index in attributes.standalone_module_input_quantized_idxs and is_dequantize(arg):
            node.replace_input_with(arg, arg.args[0])
            if not arg.users:
                model.graph.erase_node(arg)
    outputs = attributes.standalone_module_output_quantized_idxs
    if outputs:
        if outputs[0] != 0:
            raise AssertionError("Currently only quantized output idxs = [0] is supported")
        insert_dequantize_node(node, model.graph)
    converted = convert(observed, is_reference, backend_config=backend_config)
    _set_module(modules, node.target, converted)
    modules[str(node.target)] = converted


def _weight_quantizers(layer, qconfig, weight_observer, is_decomposed, is_reference, device) -> dict[str, Any]:
    """The quantizers of a layer's weight, or by name of its weights."""
    found: dict[str, Any] = {"is_decomposed": is_decomposed}
    if isinstance(layer, torch.nn.RNNCellBase):
        names = ["weight_ih", "weight_hh"]
    elif isinstance(layer, (torch.nn.LSTM, torch.nn.GRU)):
        names = [n for n in layer._flat_weights_names if n.startswith("weight") and hasattr(layer, n)]
    else:
        trained = weight_observer is not None
        if not trained:
            weight_observer = qconfig.weight()
            device = assert_and_get_unique_device(layer) if device is None else device
            if device:
                weight_observer.to(device)
        if not (is_decomposed and is_reference and trained):
            weight_observer(layer.weight)
        return {**found, **get_qparam_dict(weight_observer)}
    for name in names:
        observer = qconfig.weight()
        if isinstance(layer, torch.nn.RNNCellBase) or observer.dtype is torch.qint8:
            observer(getattr(layer, name))
        found[name] = get_qparam_dict(observer)
    return found


def convert_weighted_module(node, modules, observed_node_names, node_name_to_qconfig, backend_config,
                            is_decomposed=False, is_reference=False, model_device=None) -> None:
    """Puts a reference layer in the place of a layer whose weight is quantized; trained layers become plain ones."""
    module = modules[str(node.target)]
    qconfig, observer = module.qconfig, None
    if isinstance(module, get_qat_module_classes(backend_config)):
        observer = module.weight_fake_quant
        module = module.to_float()
        _set_module(modules, node.target, module)
    if qconfig is None or has_none_qconfig(node, node_name_to_qconfig) or node.name not in observed_node_names:
        return
    dtypes = get_pattern_to_dtype_configs(backend_config).get(type(module), [])
    if not _is_qconfig_supported_by_dtype_configs(qconfig, dtypes) or not weight_is_quantized(qconfig):
        return
    fused = module if isinstance(module, torch.ao.nn.intrinsic._FusedModule) else None
    layer = module if fused is None else fused[0]
    quantizers = _weight_quantizers(layer, qconfig, observer, is_decomposed, is_reference, model_device)
    kind = get_root_module_to_quantized_reference_module(backend_config).get(type_before_parametrizations(layer))
    if kind is None:
        raise AssertionError(
            f"No reference quantized module class configured for {type_before_parametrizations(layer)}"
        )
    reference = kind.from_float(layer, quantizers)
    if fused is not None:
        fused[0] = reference
    else:
        _set_module(modules, node.target, reference)


def _take_quantized(node, value, graph) -> None:
    """A custom module takes the quantized value in place of the dequantized one."""
    if not isinstance(value, Node):
        raise AssertionError(f"Expecting the argument for custom module node to be a Node, but got {value}")
    if is_dequantize(value):
        node.replace_input_with(value, value.args[0])
        if not value.users:
            graph.erase_node(value)


def convert_custom_module(node, graph, modules, custom_module_class_mapping,
                          statically_quantized_custom_module_nodes) -> None:
    """Puts the quantized class in the place of an observed custom module."""
    observed = modules[str(node.target)]
    qconfig = observed.qconfig
    if activation_is_statically_quantized(qconfig):
        statically_quantized_custom_module_nodes.add(node)
        if is_custom_module_lstm(node, modules):
            if not (len(node.args) == 2 and isinstance(node.args[1], tuple) and len(node.args[1]) == 2):
                raise AssertionError("Expected LSTM custom module inputs to be (input, (hidden0, hidden1))")
            for value in (node.args[0], *node.args[1]):
                _take_quantized(node, value, graph)
        else:
            _take_quantized(node, node.args[0], graph)
            observers = (modules[str(u.target)] for u in node.users if u.op == "call_module")
            process = next((o for o in observers if _is_activation_post_process(o)), None)
            if process is None:
                raise AssertionError("Expected activation_post_process to be present for observed custom module")
            observed.activation_post_process = process
    kind = get_swapped_custom_module_class(observed, custom_module_class_mapping, qconfig)
    _set_module(modules, node.target, kind.from_observed(observed))


def _keep_results_quantized(output, indices, graph) -> None:
    """Takes the last dequantizations away from the results that stay quantized."""
    if not indices:
        return
    value = output.args[0]
    if isinstance(value, (list, tuple)):
        for index in indices:
            remove_dequantize(value[index], output, graph)
    elif isinstance(value, (Node, dict)):
        if 0 in indices:
            remove_dequantize(value, output, graph)
    else:
        warnings.warn(f"Unsupported node type for output_quantized_idxs: {type(value)}", stacklevel=3)


def _qconfigs_at_conversion(model, attributes, qconfig_mapping, modules, backend) -> dict[str, Any]:
    """{node's name: QConfig}, with None where the mapping of the conversion leaves a part in floating point."""
    before = attributes.node_name_to_qconfig
    if not qconfig_mapping:
        return before
    mapping = _mapping(qconfig_mapping, "convert")
    copies = copy.deepcopy(modules)
    if attributes.is_qat:
        _update_qconfig_for_qat(mapping, backend)
    _update_qconfig_for_fusion(model, mapping)
    _compare_prepare_convert_qconfig_mappings(attributes.qconfig_mapping, mapping)
    after = _generate_node_name_to_qconfig(model, copies, model.graph, mapping, attributes.node_name_to_scope)
    for name, qconfig in before.items():
        if name not in after:
            raise AssertionError(f"Expected key {name} in convert node_name_to_qconfig")
        if after[name] is not None and not qconfig_equals(qconfig, after[name]):
            raise AssertionError(
                f"Expected k {name} to have the same value in prepare and convert QConfigMappings, "
                f"but {qconfig} was updated to {after[name]}"
            )
    return after


def convert(model: GraphModule, is_reference=False, convert_custom_config=None, is_standalone_module=False,
            _remove_qconfig_flag=True, qconfig_mapping=None, backend_config=None, is_decomposed=False,
            keep_original_weights=False) -> GraphModule:
    """A quantized graph module of one that `prepare` gave.

    Args:
        is_reference: whether calls stay in floating point between dequantizations and quantizations.
        is_decomposed: whether these are `torch.ops.quantized_decomposed`'s, on tensors of integers.

    Raises:
        AssertionError: for other graph modules.
    """
    custom = as_config(convert_custom_config, ConvertCustomConfig, "convert_custom_config", "convert")
    backend = backend_of(backend_config)
    if not _is_observed_module(model):
        raise AssertionError("incoming model must be produced by prepare_fx")
    attributes = model.meta["_observed_graph_module_attrs"]
    modules = dict(model.named_modules(remove_duplicate=False))
    qconfigs = _qconfigs_at_conversion(model, attributes, qconfig_mapping, modules, backend)
    custom_classes = get_custom_module_class_keys(custom.observed_to_quantized_mapping)
    if attributes.equalization_node_name_to_qconfig is not None:
        convert_eq_obs(model, modules, update_obs_for_equalization(model, modules))
    _run_weight_observers(model)
    prepared = attributes.prepare_custom_config
    roots = tuple(get_root_module_to_quantized_reference_module(backend))
    fused_classes = get_fused_module_classes(backend)
    weighted = {*roots, *get_qat_module_classes(backend), *fused_classes}
    static_custom: set[Node] = set()
    device = assert_and_get_unique_device(model)
    scopes, inputs = attributes.node_name_to_scope, 0
    for node in list(model.graph.nodes):
        if node.op == "placeholder":
            if inputs in prepared.input_quantized_indexes:
                insert_dequantize_node(node, model.graph)
            inputs += 1
        elif node.op == "output":
            _keep_results_quantized(node, prepared.output_quantized_indexes, model.graph)
        elif node.op == "call_module":
            module = _get_module(node, modules)
            kind = type_before_parametrizations(module)
            if _is_activation_post_process(module):
                if node.args[0] in static_custom:
                    replace_with_dequantize(node, model.graph)
                else:
                    replace_observer(model, node, modules, scopes, qconfigs, device, is_decomposed)
            elif isinstance(module, DeQuantStub):
                replace_with_dequantize(node, model.graph)
            elif _is_observed_standalone_module(module):
                convert_standalone_module(node, modules, model, is_reference, backend)
            elif kind in weighted:
                if kind in fused_classes and type_before_parametrizations(module[0]) not in roots:
                    continue
                convert_weighted_module(node, modules, attributes.observed_node_names, qconfigs, backend, is_decomposed,
                                        is_reference, device)
            elif kind in custom_classes:
                convert_custom_module(
                    node, model.graph, modules, custom.observed_to_quantized_mapping, static_custom
                )
    model.graph.eliminate_dead_code()
    model = GraphModule(model, model.graph)
    if not is_reference:
        model = lower_to_fbgemm(model, qconfigs, scopes, keep_original_weights)
    if _remove_qconfig_flag:
        _remove_qconfig(model)
    model.delete_all_unused_submodules()
    model.meta.pop("_observed_graph_module_attrs", None)
    return model
