"""Putting observers into graphs (``torch.ao.quantization.fx.prepare``)."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import ftorch as torch
from ftorch.ao.quantization.backend_config.utils import (
    get_fusion_pattern_to_root_node_getter,
    get_module_to_qat_module,
)
from ftorch.ao.quantization.qconfig import _default_fp32_placeholder_qconfig
from ftorch.ao.quantization.qconfig_mapping import QConfigMapping
from ftorch.ao.quantization.utils import get_swapped_custom_module_class
from ftorch.fx import GraphModule
from ftorch.fx.node import Node

from ..quantize import convert, propagate_qconfig_
from ._equalize import insert_equalization_observers, is_part_of_branch
from ._observing import (
    FLOAT,
    QUINT8,
    arg_dtype_as_output,
    dtype_and_is_dynamic,
    insert_input_observers,
    insert_observer,
    insert_output_observer,
    is_supported_by_backend,
    observe_results,
    remove_output_observer,
    share_observers,
    standalone_configs,
    target_dtype_info,
)
from .custom_config import PrepareCustomConfig
from .fuse import as_config, backend_of
from .lstm_utils import insert_dequant_stubs, is_custom_module_lstm
from .match_utils import _find_matches, _MatchResultWithQConfig, _nodes_of
from .pattern_utils import _sorted_patterns_dict
from .qconfig_mapping_utils import (
    _generate_node_name_to_qconfig,
    _get_flattened_qconfig_dict,
    _update_qconfig_for_fusion,
    _update_qconfig_for_qat,
)
from .quantize_handler import _default_root_node_getter, _get_pattern_to_quantize_handlers
from .utils import (
    ObservedGraphModuleAttrs,
    _parent_name,
    all_node_args_have_no_tensors,
    assert_and_get_unique_device,
    get_custom_module_class_keys,
    get_non_observable_arg_indexes_and_types,
)

__all__ = ["insert_observers_for_model", "prepare", "propagate_dtypes_for_known_nodes"]

_NOTHING: tuple[Any, ...] = (None, None, None, None, None)


def _set_target_dtype_info(nodes, qconfig, handler, backend_config, modules, cache, done) -> None:
    """Notes at each node of a pattern what it is to be observed with."""
    for node in _nodes_of(nodes):
        if node not in done:
            done.add(node)
            if qconfig is not None:
                node.meta["target_dtype_info"] = target_dtype_info(
                    node, qconfig, handler, backend_config, modules, cache
                )


def _propagate_no_observer(node: Node, matches) -> None:
    """A node that is no tensor to be observed; what only moves its argument hands that on."""
    node.meta["target_dtype_info"]["input_act_obs_or_fq_ctr"] = None
    node.meta["target_dtype_info"]["output_act_obs_or_fq_ctr"] = None
    handler = matches.get(node.name, _NOTHING)[3]
    if handler is not None and handler.is_general_tensor_value_op() and isinstance(node.args[0], Node):
        _propagate_no_observer(node.args[0], matches)


def propagate_dtypes_for_known_nodes(graph, node_name_to_match_result_with_qconfig) -> None:
    """Notes which nodes are no tensors to be observed: masks, sizes, and numbers."""
    for node in graph.nodes:
        for positions in get_non_observable_arg_indexes_and_types(node).values():
            for index in positions(node):
                for inner in _nodes_of(node.args[index]):
                    _propagate_no_observer(inner, node_name_to_match_result_with_qconfig)


def _swap_custom_module_to_observed(node, qconfig, modules, prepare_custom_config) -> None:
    module = modules[node.target]
    kind = get_swapped_custom_module_class(module, prepare_custom_config.float_to_observed_mapping, qconfig)
    parent, name = _parent_name(node.target)
    setattr(modules[parent], name, kind.from_float(module))


def _set_dtype_infos(model, matches, custom, backend_config) -> None:
    """Notes at each node what it and its arguments are to be observed with, as far as the backend can that."""
    modules = dict(model.named_modules(remove_duplicate=False))
    cache: dict[Node, bool] = {}
    nodes = list(model.graph.nodes)
    for node in nodes:
        node.meta["target_dtype_info"] = dict(FLOAT)
    done: set[Node] = set()
    for _, matched, _, handler, qconfig in matches.values():
        _set_target_dtype_info(matched, qconfig, handler, backend_config, modules, cache, done)
    placeholders = [node for node in nodes if node.op == "placeholder"]
    outputs = [node for node in nodes if node.op == "output"]
    for i, node in enumerate(placeholders):
        if i in custom.input_quantized_indexes:
            node.meta["target_dtype_info"] = dict(QUINT8)
    for i, node in enumerate(outputs):
        if i in custom.output_quantized_indexes:
            node.meta["target_dtype_info"] = dict(QUINT8)
    for node in nodes:
        if node.op.startswith("call_") and all_node_args_have_no_tensors(node, modules, cache):
            node.meta["target_dtype_info"] = {"input_act_obs_or_fq_ctr": None, "output_act_obs_or_fq_ctr": None}
    propagate_dtypes_for_known_nodes(model.graph, matches)
    done = set()
    # PyTorch asks the last node, the graph's result, whatever the pattern.
    make = nodes[-1].meta["target_dtype_info"]["output_act_obs_or_fq_ctr"]
    result_dtype, _ = dtype_and_is_dynamic(make() if make else None)
    for _, matched, pattern, _, qconfig in matches.values():
        supported = is_supported_by_backend(pattern, matched, qconfig, backend_config)
        if not supported and result_dtype not in (None, int, float, torch.bool):
            _set_target_dtype_info(
                matched, _default_fp32_placeholder_qconfig, None, backend_config, modules, cache, done
            )


class _Insertion:
    """Observers are put before and after the calls of a graph, in its order."""

    def __init__(self, model, custom, backend_config, is_qat, observed_node_names, qconfigs, equalizations):
        self.model, self.custom, self.backend, self.is_qat = model, custom, backend_config, is_qat
        self.observed_node_names = observed_node_names
        self.device = assert_and_get_unique_device(model)
        self.roots = get_fusion_pattern_to_root_node_getter(backend_config)
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.swapped: set[str] = set()
        self.qconfigs, self.equalizations = qconfigs, equalizations

    def visit(self, node, match) -> None:
        last, matched, pattern, handler, qconfig = match
        info = node.meta["target_dtype_info"]
        if node.op != "output" and (qconfig is None or info is None):
            return
        if not is_supported_by_backend(pattern, matched, qconfig, self.backend):
            return
        self.modules = dict(self.model.named_modules(remove_duplicate=False))
        if node.op == "output":
            observe_results(node, self)
            return
        self.observed_node_names.update(n.name for n in _nodes_of(matched))
        is_branch = is_part_of_branch(node, self.qconfigs, self.modules)
        if node is self.roots.get(pattern, _default_root_node_getter)(matched):
            insert_input_observers(node, qconfig, handler, self)
            equalization = self.equalizations.get(node.name)
            insert_equalization_observers(node, equalization, is_branch, self.modules, self.insert)
        if node is not last:
            return
        if is_custom_module_lstm(node, self.modules, qconfig, handler):
            insert_dequant_stubs(node, self.model, self.modules, self.model.graph)
            self.swap(node, qconfig)
            return
        observer = insert_output_observer(node, self)
        if observer is None:
            return
        for user in list(node.users):
            if user is not observer:
                user.replace_input_with(node, observer)
        shared = info.get("input_output_share_observers", False) and self.observed_here(node)
        if shared or info.get("reuse_input_obs_or_fq", False):
            if not share_observers(node, self.modules):
                remove_output_observer(node, self.model, self.modules)
        if handler is not None and handler.is_custom_module():
            self.swap(node, qconfig)

    def observed_here(self, node) -> bool:
        """Whether an input's observer is in the graph: quantized results of placeholders have it elsewhere."""
        dtype = arg_dtype_as_output(node, self.modules)
        first = node.args[0] if node.args else None
        return not (isinstance(first, Node) and dtype in (torch.quint8, torch.uint8) and first.op == "placeholder")

    def swap(self, node, qconfig) -> None:
        """Puts the observed class in a custom module's place."""
        if node.target not in self.swapped:
            self.swapped.add(node.target)
            _swap_custom_module_to_observed(node, qconfig, self.modules, self.custom)

    def insert(self, node, observer) -> Node:
        """Puts an observer behind a node."""
        return insert_observer(node, observer, self.model, self.modules, self.model.graph, self.device)


def insert_observers_for_model(model, node_name_to_match_result_with_qconfig: dict[str, _MatchResultWithQConfig],
                               node_name_to_qconfig, prepare_custom_config, equalization_config_map, backend_config,
                               observed_node_names, is_qat) -> Node | None:
    """Puts observers behind the inputs and results that are quantized; gives the graph's result."""
    matches = node_name_to_match_result_with_qconfig
    _set_dtype_infos(model, matches, prepare_custom_config, backend_config)
    insertion = _Insertion(model, prepare_custom_config, backend_config, is_qat, observed_node_names,
                           node_name_to_qconfig, equalization_config_map)
    result = None
    for node in list(model.graph.nodes):
        if node.op.startswith("call_") or node.op == "output":
            insertion.visit(node, matches.get(node.name, _NOTHING))
        if node.op == "output":
            result = node
    return result


def _prepare_standalone_modules(is_qat, modules, matches, custom, backend_config, how) -> None:
    """Prepares the submodules that are quantized apart.

    Args:
        how: traces and prepares one.
    """
    for root, _, _, handler, qconfig in matches.values():
        if handler is None or not handler.is_standalone_module():
            continue
        mapping, inputs, own, backend = standalone_configs(root, modules, custom, qconfig, backend_config)
        observed = how(
            modules[root.target],
            mapping,
            is_qat,
            example_inputs=inputs,
            prepare_custom_config=own,
            backend_config=backend,
        )
        parent, name = _parent_name(root.target)
        setattr(modules[parent], name, observed)
        modules[root.target] = observed


def _mapping(given, what="prepare"):
    if isinstance(given, dict):
        warnings.warn(
            f"Passing a QConfig dictionary to {what} is deprecated and will not be supported "
            "in a future version. Please pass in a QConfigMapping instead.",
            FutureWarning,
            stacklevel=4,
        )
        given = QConfigMapping.from_dict(given)
    if not isinstance(given, QConfigMapping):
        raise AssertionError("qconfig_mapping must be a QConfigMapping")
    return copy.deepcopy(given)


def _save_state(observed: GraphModule, node_name_to_qconfig, node_name_to_scope, prepare_custom_config,
                equalization_node_name_to_qconfig, qconfig_mapping, is_qat, observed_node_names) -> None:
    """Keeps what the conversion needs to know at an observed graph module."""
    observed.meta["_observed_graph_module_attrs"] = ObservedGraphModuleAttrs(
        node_name_to_qconfig=node_name_to_qconfig, node_name_to_scope=node_name_to_scope,
        prepare_custom_config=prepare_custom_config, qconfig_mapping=qconfig_mapping, is_qat=is_qat,
        equalization_node_name_to_qconfig=equalization_node_name_to_qconfig, observed_node_names=observed_node_names,
    )


_insert_obs_or_fq = insert_observer


def _equalization_mapping(given):
    if isinstance(given, dict):
        warnings.warn(
            "Passing a QConfig dictionary to prepare for equalization is deprecated and will not "
            "be supported in a future version. Please pass in a QConfigMapping instead.",
            FutureWarning,
            stacklevel=4,
        )
        given = QConfigMapping.from_dict(given)
    given = QConfigMapping() if given is None else given
    if not isinstance(given, QConfigMapping):
        raise AssertionError("_equalization_config must be a QConfigMapping")
    return copy.deepcopy(given)


def prepare(model: GraphModule, qconfig_mapping, is_qat, node_name_to_scope, example_inputs, prepare_custom_config=None,
            _equalization_config=None, backend_config=None, is_standalone_module=False,
            _prepare_standalone=None) -> GraphModule:
    """A graph module with observers.

    Args:
        is_qat: whether it is for training: layers round their weights.
        node_name_to_scope: {node's name: (path, type) of the module it comes from}.
        is_standalone_module: whether it is quantized apart, as a part of another model.
        _prepare_standalone: traces and prepares such a part.

    """
    custom = as_config(prepare_custom_config, PrepareCustomConfig, "prepare_custom_config", "prepare")
    qconfig_mapping = _mapping(qconfig_mapping)
    equalization = _equalization_mapping(_equalization_config)
    backend = backend_of(backend_config)
    patterns = _sorted_patterns_dict(_get_pattern_to_quantize_handlers(backend))
    roots = get_fusion_pattern_to_root_node_getter(backend)
    _update_qconfig_for_fusion(model, qconfig_mapping)
    _update_qconfig_for_fusion(model, equalization)
    propagate_qconfig_(model, _get_flattened_qconfig_dict(qconfig_mapping), custom.to_dict())
    if is_qat:
        convert(model, mapping=get_module_to_qat_module(backend), inplace=True, remove_qconfig=False)
        _update_qconfig_for_qat(qconfig_mapping, backend)
    modules = dict(model.named_modules(remove_duplicate=False))
    equalizations = _generate_node_name_to_qconfig(model, modules, model.graph, equalization, node_name_to_scope)
    qconfigs = _generate_node_name_to_qconfig(model, modules, model.graph, qconfig_mapping, node_name_to_scope)
    found = _find_matches(
        model.graph,
        modules,
        patterns,
        roots,
        list(custom.standalone_module_names),
        list(custom.standalone_module_classes),
        get_custom_module_class_keys(custom.float_to_observed_mapping),
    )
    matches: dict[str, Any] = {name: (*match, qconfigs[name]) for name, match in found.items()}
    _prepare_standalone_modules(is_qat, modules, matches, custom, backend, _prepare_standalone)
    observed_node_names: set[str] = set()
    result = insert_observers_for_model(
        model, matches, qconfigs, custom, equalizations, backend, observed_node_names, is_qat
    )
    model = GraphModule(model, model.graph)
    _save_state(model, qconfigs, node_name_to_scope, custom, equalizations, qconfig_mapping, is_qat, observed_node_names)
    if is_standalone_module:
        if result is None or not isinstance(result.args[0], Node):
            raise AssertionError(
                "standalone module only supports returning simple value currently (not tuple, dict etc.)"
            )
        attributes = model.meta["_observed_graph_module_attrs"]
        attributes.is_observed_standalone_module = True
        attributes.standalone_module_input_quantized_idxs = custom.input_quantized_indexes
        attributes.standalone_module_output_quantized_idxs = custom.output_quantized_indexes
    return model
