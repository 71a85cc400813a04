"""Which node has which QConfig (``torch.ao.quantization.fx.qconfig_mapping_utils``)."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import ftorch as torch
from ftorch.ao.nn.intrinsic import _FusedModule
from ftorch.ao.quantization.backend_config.utils import get_module_to_qat_module
from ftorch.ao.quantization.observer import _is_activation_post_process
from ftorch.ao.quantization.qconfig import _add_module_to_qconfig_obs_ctr, qconfig_equals
from ftorch.ao.quantization.utils import get_qconfig_dtypes

from .utils import _parent_name

__all__: list[str] = []


def _get_object_type_qconfig(qconfig_mapping, object_type, fallback):
    return qconfig_mapping.object_type_qconfigs.get(object_type, fallback)


def _get_module_name_regex_qconfig(qconfig_mapping, module_name, fallback):
    for pattern, qconfig in qconfig_mapping.module_name_regex_qconfigs.items():
        if re.match(pattern, module_name):
            return qconfig
    return fallback


def _get_module_name_qconfig(qconfig_mapping, module_name, fallback):
    """The QConfig of a module's name, or of the nearest parent that has one."""
    while module_name:
        if module_name in qconfig_mapping.module_name_qconfigs:
            return qconfig_mapping.module_name_qconfigs[module_name]
        module_name, _ = _parent_name(module_name)
    return fallback


def _maybe_adjust_qconfig_for_module_type_or_name(qconfig_mapping, module_type, module_name, global_qconfig):
    """Names before patterns of names before types before what is given."""
    found = _get_object_type_qconfig(qconfig_mapping, module_type, global_qconfig)
    found = _get_module_name_regex_qconfig(qconfig_mapping, module_name, found)
    return _get_module_name_qconfig(qconfig_mapping, module_name, found)


def _maybe_adjust_qconfig_for_module_name_object_type_order(qconfig_mapping, cur_module_path, cur_object_type,
                                                            cur_object_type_idx, fallback_qconfig):
    for (name, kind, index), qconfig in qconfig_mapping.module_name_object_type_order_qconfigs.items():
        if name == cur_module_path and kind == cur_object_type and index == cur_object_type_idx:
            return qconfig
    return fallback_qconfig


def _update_qconfig_for_fusion(model, qconfig_mapping) -> None:
    """Gives joined layers the QConfig of their parts.

    Raises:
        LookupError: if the parts have different ones.
    """
    types = qconfig_mapping.object_type_qconfigs
    if not types:
        return
    modules = dict(model.named_modules())
    for node in model.graph.nodes:
        if node.op != "call_module" or not isinstance(modules.get(node.target), _FusedModule):
            continue
        fused = modules[node.target]
        first, *rest = fused._modules.values()
        qconfig = types.get(type(first))
        for part in rest:
            if not qconfig_equals(types.get(type(part)), qconfig):
                raise LookupError(
                    "During fusion, we need to specify the same "
                    f"qconfigs for all module types in {type(fused)} offending type: {type(part)}"
                )
        if qconfig is not None:
            types[type(fused)] = qconfig


def _generate_node_name_to_qconfig(root, modules, input_graph, qconfig_mapping, node_name_to_scope) -> dict[str, Any]:
    """{node's name: its QConfig}; the modules that are called get theirs as attribute."""
    default, found = qconfig_mapping.global_qconfig, {}
    seen: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))

    def by_order(path, kind, qconfig):
        index = seen[path][kind]
        seen[path][kind] += 1
        return _maybe_adjust_qconfig_for_module_name_object_type_order(qconfig_mapping, path, kind, index, qconfig)

    def by_name(kind, path, qconfig):
        return _maybe_adjust_qconfig_for_module_type_or_name(qconfig_mapping, kind, path, qconfig)

    for node in input_graph.nodes:
        if node.op == "get_attr":
            path, _ = _parent_name(node.target)
            qconfig = by_name(type(modules[path]), path, default)
        elif node.op == "call_function":
            path, kind = node_name_to_scope[node.name]
            qconfig = by_name(kind, path, _get_object_type_qconfig(qconfig_mapping, node.target, default))
            qconfig = by_order(path, node.target, qconfig)
        elif node.op == "call_method":
            path, kind = node_name_to_scope[node.name]
            qconfig = by_name(kind, path, by_name(node.target, path, default))
        elif node.op == "call_module":
            module = modules[node.target]
            if _is_activation_post_process(module):
                continue
            path, kind = node_name_to_scope[node.name]
            qconfig = by_order(_parent_name(path)[0], kind, by_name(type(module), node.target, default))
            found[node.name] = module.qconfig = _add_module_to_qconfig_obs_ctr(qconfig, module)
            continue
        else:
            found[node.name] = None
            continue
        found[node.name] = _add_module_to_qconfig_obs_ctr(qconfig, modules.get(node.target))
    return found


def _check_is_valid_config_dict(config_dict, allowed_keys, dict_name) -> None:
    """Raises ValueError for a key that a config's dict cannot have."""
    for key in config_dict:
        if key not in allowed_keys:
            raise ValueError(
                f"Expected {dict_name} to have the following keys: {allowed_keys}. But found '{key}' instead."
            )


def _compare_prepare_convert_qconfig_mappings(prepare_qconfig_mapping, convert_qconfig_mapping) -> None:
    """Raises AssertionError unless the mapping of `convert` is the one of `prepare`, with None for some QConfigs."""
    if not qconfig_equals(prepare_qconfig_mapping.global_qconfig, convert_qconfig_mapping.global_qconfig):
        raise AssertionError(
            "Expected global qconfigs to be the same in the prepare and convert quantization configs"
        )
    for key in ("object_type", "module_name", "module_name_regex"):
        before = getattr(prepare_qconfig_mapping, f"{key}_qconfigs")
        after = getattr(convert_qconfig_mapping, f"{key}_qconfigs")
        for name, qconfig in before.items():
            if name not in after:
                raise AssertionError(
                    f"Missing key {key} {name} in convert QConfigMapping when it was present in prepare"
                )
            if after[name] is not None and not qconfig_equals(qconfig, after[name]):
                raise AssertionError(
                    "Expected convert QConfigMapping to have the same qconfig as prepare for key "
                    f"{key} {name}; prepare: {qconfig}; convert: {after[name]}"
                )


def _is_qconfig_supported_by_dtype_configs(qconfig, dtype_configs) -> bool:
    """Whether a backend can the dtypes of a QConfig."""
    activation, weight, is_dynamic = get_qconfig_dtypes(qconfig)
    for config in dtype_configs:
        inputs, weights, bias, outputs = (
            d or torch.float for d in (config.input_dtype, config.weight_dtype, config.bias_dtype, config.output_dtype)
        )
        if config.is_dynamic:
            matches = is_dynamic and outputs is torch.float
        else:
            half = activation is torch.float16 and weight is torch.float16
            matches = outputs is activation and bias is (torch.float16 if half else torch.float)
        if matches and inputs is activation and weights is weight:
            return True
    return False


def _get_flattened_qconfig_dict(qconfig_mapping) -> dict:
    """{"", type or name: QConfig}, what `propagate_qconfig_` takes."""
    return {
        "": qconfig_mapping.global_qconfig,
        **qconfig_mapping.object_type_qconfigs,
        **qconfig_mapping.module_name_qconfigs,
    }


def _update_qconfig_for_qat(qconfig_mapping, backend_config) -> None:
    """Gives layers that train with rounded weights the QConfig of those they took the place of."""
    qat = get_module_to_qat_module(backend_config)
    types = qconfig_mapping.object_type_qconfigs
    for kind, qconfig in list(types.items()):
        if kind in qat:
            types[qat[kind]] = qconfig
