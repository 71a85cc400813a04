"""Weights and results of two graph modules, part by part (``torch.ao.ns._numeric_suite_fx``).

>>> import ftorch as torch
>>> from ftorch.ao.ns import _numeric_suite_fx as ns
>>> from ftorch.ao.quantization import get_default_qconfig_mapping, quantize_fx
>>> model, x = torch.nn.Sequential(torch.nn.Linear(3, 2)).eval(), torch.ones(4, 3)
>>> prepared = quantize_fx.prepare_fx(model, get_default_qconfig_mapping(), (x,))
>>> _ = prepared(x)
>>> quantized = quantize_fx.convert_fx(prepared)
>>> sorted(ns.extract_weights("a", model, "b", quantized)["_0"]["weight"])
['a', 'b']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ftorch as torch
from ftorch import nn
from ftorch.ao.ns.fx.graph_matcher import get_matching_subgraph_pairs
from ftorch.ao.ns.fx.mappings import get_base_name_to_sets_of_related_ops
from ftorch.ao.ns.fx.n_shadows_utils import (
    SHADOW_WRAPPER_NODE_NAME_PREFIX,
    OutputProp,
    _get_dedup_subgraphs,
    create_add_loggers_graph,
    create_n_transformed_and_logged_copies_of_subgraph,
    create_results_comparison,
    extract_weight_comparison,
    group_results_by_subgraph,
    print_n_shadows_summary,
)
from ftorch.ao.ns.fx.qconfig_multi_mapping import QConfigMultiMapping
from ftorch.ao.quantization import QConfigMapping, quantize_fx
from ftorch.ao.quantization.backend_config import BackendConfig
from ftorch.ao.quantization.backend_config.utils import get_fusion_pattern_to_root_node_getter
from ftorch.ao.quantization.fx.graph_module import _get_observed_graph_module_attr
from ftorch.ao.quantization.fx.match_utils import _find_matches
from ftorch.ao.quantization.fx.qconfig_mapping_utils import _generate_node_name_to_qconfig
from ftorch.ao.quantization.fx.quantize_handler import _get_pattern_to_quantize_handlers
from ftorch.ao.quantization.fx.tracer import QuantizationTracer
from ftorch.fx import GraphModule
from ftorch.fx.graph import Node

from .fx._loggers import OutputComparisonLogger, OutputLogger, RNNReturnType
from .fx.graph_passes import add_loggers_to_model, create_a_shadows_b
from .fx.ns_types import NSNodeTargetType, NSResultsType, NSSingleResultValuesType
from .fx.utils import (
    get_target_type_str,
    maybe_add_missing_fqns,
    rekey_logger_info_on_node_name_of_model,
)
from .fx.weight_utils import extract_weight_from_node

__all__ = [
    "NSTracer", "OutputComparisonLogger", "OutputLogger", "RNNReturnType", "add_loggers", "add_shadow_loggers",
    "convert_n_shadows_model", "extend_logger_results_with_comparison", "extract_logger_info",
    "extract_results_n_shadows_model", "extract_shadow_logger_info", "extract_weights", "loggers_set_enabled",
    "loggers_set_save_activations", "prepare_n_shadows_model", "print_comparisons_n_shadows_model",
]

_Related = dict[str, set[NSNodeTargetType]] | None


class NSTracer(QuantizationTracer):
    """Does not trace into observers either."""

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        watching = (torch.ao.quantization.ObserverBase, torch.ao.quantization.FakeQuantizeBase)
        return isinstance(m, watching) or super().is_leaf_module(m, module_qualified_name)


def _traced(model: nn.Module) -> GraphModule:
    gm = GraphModule(model, NSTracer([], []).trace(model))
    scopes = _get_observed_graph_module_attr(model, "node_name_to_scope")
    if scopes is not None:
        gm._node_name_to_scope = scopes
    return gm


# --- weights


def _extract_weights_one_model(model_name: str, model: GraphModule,
                               nodes_and_names_to_instrument: list[tuple[Node, str]], results: NSResultsType,
                               op_to_type_to_weight_extraction_fn: dict[str, dict[Callable, Callable]] | None = None):
    kind = NSSingleResultValuesType.WEIGHT.value
    for node, name in nodes_and_names_to_instrument:
        found = extract_weight_from_node(node, model, op_to_type_to_weight_extraction_fn)
        if found:
            results.setdefault(name, {kind: {}})[kind][model_name] = [found]


def _extract_weights_impl(model_name_a: str, gm_a: GraphModule, model_name_b: str, gm_b: GraphModule,
                          base_name_to_sets_of_related_ops: _Related = None, unmatchable_types_map: _Related = None,
                          op_to_type_to_weight_extraction_fn=None) -> NSResultsType:
    pairs = get_matching_subgraph_pairs(gm_a, gm_b, base_name_to_sets_of_related_ops, unmatchable_types_map)
    results: NSResultsType = {}
    for i, (name, gm) in enumerate(((model_name_a, gm_a), (model_name_b, gm_b))):
        nodes = [(pair[i].base_op_node, match) for match, pair in pairs.items()]
        _extract_weights_one_model(name, gm, nodes, results, op_to_type_to_weight_extraction_fn)
    maybe_add_missing_fqns(results)
    return rekey_logger_info_on_node_name_of_model(results, model_name_b)


def extract_weights(model_name_a: str, model_a: nn.Module, model_name_b: str, model_b: nn.Module,
                    base_name_to_sets_of_related_ops: _Related = None, unmatchable_types_map: _Related = None,
                    op_to_type_to_weight_extraction_fn=None) -> NSResultsType:
    """The weights of two models, part by part.

    Returns:
        {the node's name in b: {"weight": {model's name: [result]}}}.

    Raises:
        GraphMatchingException: for models with other parts.
    """
    return _extract_weights_impl(
        model_name_a, _traced(model_a), model_name_b, _traced(model_b),
        base_name_to_sets_of_related_ops or get_base_name_to_sets_of_related_ops(), unmatchable_types_map,
        op_to_type_to_weight_extraction_fn,
    )


# --- results


def _add_loggers_one_model(model_name: str, model: GraphModule,
                           nodes_and_names_to_instrument_inputs: list[tuple[Node, str, str]],
                           nodes_and_names_to_instrument_outputs: list[tuple[Node, str, str]],
                           logger_cls: Callable) -> nn.Module:
    inputs, outputs = (
        {node: (name, kind) for node, name, kind in nodes}
        for nodes in (nodes_and_names_to_instrument_inputs, nodes_and_names_to_instrument_outputs)
    )
    return add_loggers_to_model(model, inputs, outputs, logger_cls, model_name)


def _add_loggers_impl(name_a: str, gm_a: GraphModule, name_b: str, gm_b: GraphModule, logger_cls: Callable,
                      should_log_inputs: bool, base_name_to_sets_of_related_ops: _Related = None,
                      unmatchable_types_map: _Related = None) -> tuple[nn.Module, nn.Module]:
    pairs = get_matching_subgraph_pairs(gm_a, gm_b, base_name_to_sets_of_related_ops, unmatchable_types_map)
    models = []
    for i, (name, gm) in enumerate(((name_a, gm_a), (name_b, gm_b))):
        named = [(pair[i], match, get_target_type_str(pair[i].base_op_node, gm)) for match, pair in pairs.items()]
        inputs = [(part.start_node, match, kind) for part, match, kind in named if should_log_inputs]
        outputs = [(part.end_node, match, kind) for part, match, kind in named]
        models.append(_add_loggers_one_model(name, gm, inputs, outputs, logger_cls))
    return models[0], models[1]


def add_loggers(name_a: str, model_a: nn.Module, name_b: str, model_b: nn.Module, logger_cls: Callable,
                should_log_inputs: bool = False, base_name_to_sets_of_related_ops: _Related = None,
                unmatchable_types_map: _Related = None) -> tuple[nn.Module, nn.Module]:
    """Two models with loggers behind the parts that they have in common.

    Args:
        should_log_inputs: whether the parts' inputs are logged as well.

    Raises:
        GraphMatchingException: for models with other parts.
    """
    return _add_loggers_impl(
        name_a, _traced(model_a), name_b, _traced(model_b), logger_cls, should_log_inputs,
        base_name_to_sets_of_related_ops, unmatchable_types_map,
    )


_ENTRIES = (
    "ref_node_name", "ref_node_target_type", "prev_node_name", "prev_node_target_type", "index_within_arg",
    "index_of_arg", "fqn", "qconfig_str",
)


def _extract_logger_info_one_model(model: nn.Module, results: NSResultsType, logger_cls: Callable) -> None:
    kinds: Any = logger_cls
    for _, module in model.named_modules():
        found: Any = module
        is_script = isinstance(module, torch.jit.RecursiveScriptModule) and module.original_name == "OutputLogger"
        if not (isinstance(module, kinds) or is_script):
            continue
        by_type = results.setdefault(found.ref_name, {})
        if found.model_name in by_type:
            raise AssertionError(f"{found.model_name} is already present in results")
        entries = by_type.setdefault(found.results_type, {}).setdefault(found.model_name, [])
        data = {"type": found.results_type, "values": found.stats_rnn if found.stats_rnn else found.stats}
        data |= {key: getattr(found, key) for key in _ENTRIES}
        data["comparisons"] = getattr(found, "comparisons", [])
        data["comparison_fn_name"] = found.comparison_fn_name if hasattr(found, "comparisons") else ""
        entries.append(data)
        entries.sort(key=lambda entry: f"{entry['index_of_arg']}:{entry['index_within_arg']}")


def extract_logger_info(model_a: nn.Module, model_b: nn.Module, logger_cls: Callable,
                        model_name_to_use_for_layer_names: str) -> NSResultsType:
    """What the loggers of two models kept: {the node's name in one model: {type: {model's name: results}}}."""
    results: NSResultsType = {}
    for model in (model_a, model_b):
        _extract_logger_info_one_model(model, results, logger_cls)
    maybe_add_missing_fqns(results)
    return rekey_logger_info_on_node_name_of_model(results, model_name_to_use_for_layer_names)


# --- one model in the shadow of the other


def _add_shadow_loggers_impl(name_a: str, gm_a: GraphModule, name_b: str, gm_b: GraphModule, logger_cls: Callable,
                             should_log_inputs: bool, base_name_to_sets_of_related_ops: _Related = None,
                             node_type_to_io_type_map: _Related = None,
                             unmatchable_types_map: _Related = None) -> nn.Module:
    pairs = get_matching_subgraph_pairs(gm_a, gm_b, base_name_to_sets_of_related_ops, unmatchable_types_map)
    return create_a_shadows_b(
        name_a, gm_a, name_b, gm_b, pairs, logger_cls, should_log_inputs=should_log_inputs,
        node_type_to_io_type_map=node_type_to_io_type_map,
    )


def add_shadow_loggers(name_a: str, model_a: nn.Module, name_b: str, model_b: nn.Module, logger_cls: Callable,
                       should_log_inputs: bool = False, base_name_to_sets_of_related_ops: _Related = None,
                       node_type_to_io_type_map: _Related = None, unmatchable_types_map: _Related = None) -> nn.Module:
    """The model b in which each part of a runs on the inputs of the part of b that it matches; loggers on both.

    Raises:
        GraphMatchingException: for models with other parts.
    """
    return _add_shadow_loggers_impl(
        name_a, _traced(model_a), name_b, _traced(model_b), logger_cls, should_log_inputs,
        base_name_to_sets_of_related_ops, node_type_to_io_type_map, unmatchable_types_map,
    )


def extract_shadow_logger_info(model_a_shadows_b: nn.Module, logger_cls: Callable,
                               model_name_to_use_for_layer_names: str) -> NSResultsType:
    """What the loggers of `add_shadow_loggers` kept, as `extract_logger_info` gives it."""
    results: NSResultsType = {}
    _extract_logger_info_one_model(model_a_shadows_b, results, logger_cls)
    maybe_add_missing_fqns(results)
    return rekey_logger_info_on_node_name_of_model(results, model_name_to_use_for_layer_names)


def extend_logger_results_with_comparison(results: NSResultsType, model_name_1: str, model_name_2: str,
                                          comparison_fn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
                                          comparison_name: str) -> None:
    """Adds comparisons to the results of the second model, in place.

    Raises:
        AssertionError: for a model that has no results, or lacks one.
    """
    for by_type in results.values():
        for by_model in by_type.values():
            for name in (model_name_1, model_name_2):
                if name not in by_model:
                    raise AssertionError(f"{name} not found in results")
            places = {}
            for result in reversed(by_model[model_name_1]):
                places[result["index_within_arg"], result["index_of_arg"]] = result
            for result in by_model[model_name_2]:
                other = places.get((result["index_within_arg"], result["index_of_arg"]))
                if other is None:
                    raise AssertionError("Expected result_1 to be not None")
                result[comparison_name] = [comparison_fn(a, b) for a, b in zip(other["values"], result["values"])]


# --- several quantized copies of each part


def _with_results(model: torch.nn.Module, example_inputs: Any, backend_config: BackendConfig, tracer: Any):
    """(the traced model whose nodes have their results, its patterns' nodes)."""
    mt: Any = GraphModule(model, tracer.trace(model))
    mt._node_name_to_scope = tracer.node_name_to_scope
    OutputProp(mt).propagate(*example_inputs)
    matches = _find_matches(
        mt.graph, dict(mt.named_modules(remove_duplicate=False)), _get_pattern_to_quantize_handlers(backend_config),
        get_fusion_pattern_to_root_node_getter(backend_config), [], [], [],
    )
    return mt, _get_dedup_subgraphs(matches)


def _qconfigs(mt: Any, mapping: QConfigMapping) -> dict[str, Any]:
    modules = dict(mt.named_modules(remove_duplicate=False))
    return _generate_node_name_to_qconfig(mt, modules, mt.graph, mapping, mt._node_name_to_scope)


def prepare_n_shadows_model(model: torch.nn.Module, example_inputs: Any, qconfig_multi_mapping: QConfigMultiMapping,
                            backend_config: BackendConfig, custom_prepare_fn: Callable | None = None,
                            custom_prepare_kwargs: dict[str, Any] | None = None, custom_tracer: Any = None,
                            ) -> GraphModule:
    """A model with prepared copies of each of its parts beside it, one for each QConfig.

    Calibrate it, then `convert_n_shadows_model`, run it with `loggers_set_enabled`, and
    `extract_results_n_shadows_model`.

    Args:
        custom_prepare_fn: in place of ``prepare_fx``.
        custom_tracer: in place of ``QuantizationTracer``.
    """
    tracer = QuantizationTracer([], []) if custom_tracer is None else custom_tracer
    mt, parts = _with_results(model, example_inputs, backend_config, tracer)
    mappings = qconfig_multi_mapping.qconfig_mappings_list
    qconfigs = [_qconfigs(mt, mapping) for mapping in mappings]
    for i, (name, nodes) in enumerate(parts.items()):
        create_n_transformed_and_logged_copies_of_subgraph(
            mt, i, name, nodes, mappings, qconfigs, custom_prepare_fn, custom_prepare_kwargs
        )
    return mt


def _prepare_n_shadows_add_loggers_model(model: torch.nn.Module, example_inputs: Any, qconfig_mapping: QConfigMapping,
                                         backend_config: BackendConfig) -> torch.nn.Module:
    """A model with one prepared copy of all of it beside it."""
    mt, parts = _with_results(model, example_inputs, backend_config, QuantizationTracer([], []))
    create_add_loggers_graph(mt, parts, qconfig_mapping, _qconfigs(mt, qconfig_mapping))
    return mt


def _n_shadows_compare_weights(model: torch.nn.Module, example_inputs: Any, qconfig_mapping: QConfigMapping,
                               backend_config: BackendConfig) -> NSResultsType:
    """The weights of a model's linear functions, in floating point and quantized."""
    both = QConfigMultiMapping.from_list_qconfig_mapping([qconfig_mapping])
    prepared = prepare_n_shadows_model(model, example_inputs, both, backend_config)
    prepared(*example_inputs)
    return extract_weight_comparison(convert_n_shadows_model(prepared))


def _loggers(model: torch.nn.Module):
    return (child for _, child in model.named_modules() if isinstance(child, OutputLogger))


def loggers_set_enabled(model: torch.nn.Module, enabled: bool) -> None:
    """Turns the loggers of a model on or off."""
    for logger in _loggers(model):
        logger.enabled = enabled


def loggers_set_save_activations(model: torch.nn.Module, save_activations: bool) -> None:
    """Says whether the loggers of a model keep the tensors, or only compare them."""
    for logger in _loggers(model):
        logger.save_activations = save_activations


def convert_n_shadows_model(model: GraphModule, custom_convert_fn: Callable | None = None,
                            custom_convert_kwargs: dict[str, Any] | None = None) -> GraphModule:
    """Converts the prepared copies in a model, in place.

    Args:
        custom_convert_fn: in place of ``convert_fx``.
    """
    for node in model.graph.nodes:
        if node.name.startswith(SHADOW_WRAPPER_NODE_NAME_PREFIX):
            prepared = getattr(model, node.name)
            if custom_convert_fn is None:
                converted = quantize_fx.convert_fx(prepared)
            else:
                converted = custom_convert_fn(prepared, **(custom_convert_kwargs or {}))
            setattr(model, node.name, converted)
    return model


def extract_results_n_shadows_model(model: torch.nn.Module) -> NSResultsType:
    """What the loggers of a model kept."""
    results: NSResultsType = {}
    _extract_logger_info_one_model(model, results, OutputLogger)
    return results


def print_comparisons_n_shadows_model(results: NSResultsType) -> None:
    """Prints a table of how near the copies come, if ``tabulate`` is installed."""
    print_n_shadows_summary(create_results_comparison(group_results_by_subgraph(results)))
