"""Which values of a graph are observed, and by what."""

from __future__ import annotations

from typing import Any

import ftorch as torch
from ftorch.ao.quantization.backend_config.utils import (
    get_fusion_pattern_to_root_node_getter,
    get_pattern_to_dtype_configs,
)
from ftorch.ao.quantization.observer import PlaceholderObserver, _is_activation_post_process
from ftorch.ao.quantization.qconfig import (
    _default_fp32_placeholder_qconfig,
    _default_quint8_placeholder_qconfig,
    _is_reuse_input_qconfig,
)
from ftorch.ao.quantization.qconfig_mapping import QConfigMapping
from ftorch.ao.quantization.utils import get_qconfig_dtypes
from ftorch.fx.node import Node

from ._constraints import _qconfig_satisfies_dtype_config_constraints
from ._equalize import is_equalization_observer
from .custom_config import PrepareCustomConfig, StandaloneModuleConfigEntry
from .lstm_utils import custom_module_lstm_of
from .quantize_handler import _default_root_node_getter
from .utils import (
    NON_QUANTIZABLE_WEIGHT_OPS,
    _parent_name,
    all_node_args_have_no_tensors,
    assert_and_get_unique_device,
    get_new_attr_name_with_prefix,
    node_arg_is_bias,
    node_arg_is_weight,
)

_NOT_OBSERVED = (int, float, torch.bool, None)
_OBSERVED = (
    torch.quint8, torch.qint8, torch.qint32, torch.float16, torch.uint8, torch.int8, torch.int16, torch.int32,
    torch.float8_e5m2, torch.float8_e4m3fn,
)
_FLOAT_OBSERVER = PlaceholderObserver.with_args(dtype=torch.float)

#: what nodes are observed with that are not quantized, and those that are quantized outside of the graph
FLOAT, QUINT8 = (
    {"input_act_obs_or_fq_ctr": q.activation, "output_act_obs_or_fq_ctr": q.activation}
    for q in (_default_fp32_placeholder_qconfig, _default_quint8_placeholder_qconfig)
)


def dtype_and_is_dynamic(observer) -> tuple[Any, bool]:
    """(dtype, whether the range of each input is taken) of an observer, or of None."""
    return (None, False) if observer is None else (observer.dtype, getattr(observer, "is_dynamic", False))


def _made(make):
    return make() if make else None


def _is_observer(node, modules) -> bool:
    return (
        isinstance(node, Node) and node.op == "call_module" and _is_activation_post_process(modules[str(node.target)])
    )


def target_dtype_info(node, qconfig, handler, backend_config, modules, cache) -> dict[str, Any]:
    """What a node's inputs, weight, bias and results are observed with."""
    if all_node_args_have_no_tensors(node, modules, cache):
        return {"input_act_obs_or_fq_ctr": None, "output_act_obs_or_fq_ctr": None}
    activation, weight, is_dynamic = get_qconfig_dtypes(qconfig)
    half = activation is torch.float16 and weight is torch.float16 and not is_dynamic
    indices: dict[str, int] = {}
    if node.op == "call_function" and node.target in backend_config._pattern_complex_format_to_config:
        indices = backend_config._pattern_complex_format_to_config[node.target]._input_type_to_index
    return {
        "input_act_obs_or_fq_ctr": qconfig.activation,
        "weight_obs_or_fq_ctr": qconfig.weight,
        "bias_obs_or_fq_ctr": PlaceholderObserver.with_args(dtype=torch.float16 if half else torch.float),
        "weight_index": indices.get("weight"),
        "bias_index": indices.get("bias"),
        "output_act_obs_or_fq_ctr": qconfig.activation,
        "reuse_input_obs_or_fq": _is_reuse_input_qconfig(qconfig),
        "input_output_share_observers": handler is not None and handler.is_general_tensor_value_op(),
        "_is_standalone_module": handler is not None and handler.is_standalone_module(),
    }


# --- what the backend can


def _is_input_supported(arg, node, qconfig, dtype_config) -> bool:
    if isinstance(arg, (list, tuple)):
        return all(_is_input_supported(a, node, qconfig, dtype_config) for a in arg)
    if not isinstance(arg, Node):
        return True
    info = node.meta["target_dtype_info"]
    if node_arg_is_weight(node, arg):
        dtype, _ = dtype_and_is_dynamic(_made(info.get("weight_obs_or_fq_ctr")))
        satisfied = _qconfig_satisfies_dtype_config_constraints(
            qconfig, dtype_config.weight_dtype_with_constraints, is_activation=False
        )
        return dtype_config.weight_dtype is None or (dtype == dtype_config.weight_dtype and satisfied)
    if node_arg_is_bias(node, arg):
        dtype, _ = dtype_and_is_dynamic(_made(info.get("bias_obs_or_fq_ctr")))
        return dtype_config.bias_dtype is None or dtype == dtype_config.bias_dtype
    dtype, is_dynamic = dtype_and_is_dynamic(_made(info.get("input_act_obs_or_fq_ctr")))
    return dtype_config.input_dtype is None or (
        dtype_config.input_dtype == dtype
        and bool(dtype_config.is_dynamic) == bool(is_dynamic)
        and _qconfig_satisfies_dtype_config_constraints(qconfig, dtype_config.input_dtype_with_constraints)
    )


def _is_output_supported(node, qconfig, dtype_config) -> bool:
    make = node.meta["target_dtype_info"].get("output_act_obs_or_fq_ctr", _FLOAT_OBSERVER)
    dtype, is_dynamic = dtype_and_is_dynamic(_made(make))
    if is_dynamic:
        # A dynamic QConfig is for the inputs; the results are in floating point.
        dtype = torch.float32
    satisfied = _qconfig_satisfies_dtype_config_constraints(qconfig, dtype_config.output_dtype_with_constraints)
    return dtype_config.output_dtype is None or (dtype == dtype_config.output_dtype and satisfied)


def is_supported_by_backend(pattern, matched, qconfig, backend_config) -> bool:
    """Whether a backend can a pattern with what its nodes are to be observed with."""
    if backend_config is None or pattern is None:
        return True
    root = get_fusion_pattern_to_root_node_getter(backend_config).get(pattern, _default_root_node_getter)(matched)
    arguments = (*root.args, *root.kwargs.values())
    return any(
        all(_is_input_supported(arg, root, qconfig, config) for arg in arguments)
        and _is_output_supported(matched[0], qconfig, config)
        for config in get_pattern_to_dtype_configs(backend_config).get(pattern, [])
    )


def standalone_configs(node, modules, prepare_custom_config, parent_qconfig, parent_backend_config):
    """(QConfig mapping, example inputs, custom config, backend's config) of a submodule that is quantized apart."""
    entry = StandaloneModuleConfigEntry(None, (), None, None)
    entry = prepare_custom_config.standalone_module_classes.get(type(modules[str(node.target)]), entry)
    entry = prepare_custom_config.standalone_module_names.get(str(node.target), entry)
    return (entry.qconfig_mapping or QConfigMapping().set_global(parent_qconfig), entry.example_inputs,
            entry.prepare_custom_config or PrepareCustomConfig(), entry.backend_config or parent_backend_config)


# --- observers in the graph


def insert_observer(node, observer, model, modules, graph, device=None) -> Node:
    """Makes an observer a submodule, and calls it behind a node."""
    if device is None:
        device = assert_and_get_unique_device(model)
    if device:
        observer.to(device)
    equalizes = is_equalization_observer(observer)
    prefix = f"{node.name}_equalization_process_" if equalizes else "activation_post_process_"
    name = get_new_attr_name_with_prefix(prefix)(model)
    setattr(model, name, observer)
    modules[name] = observer
    with graph.inserting_after(node):
        return graph.create_node("call_module", name, (node,), {})


def _output_observer(arg, modules):
    """What a value is observed with where it is made."""
    made_by = custom_module_lstm_of(arg, modules)
    if made_by is not None:
        return _made(made_by.meta["target_dtype_info"]["output_act_obs_or_fq_ctr"])
    if _is_observer(arg, modules):
        return _made(arg.args[0].meta["target_dtype_info"]["output_act_obs_or_fq_ctr"])
    return _made(arg.meta.get("target_dtype_info", {}).get("output_act_obs_or_fq_ctr", _FLOAT_OBSERVER))


def arg_dtype_as_output(arg, modules):
    """The dtype that a value has where it is made."""
    return dtype_and_is_dynamic(_output_observer(arg, modules))[0]


def _input_observer(arg, node):
    """What a value is observed with where it is used."""
    info = node.meta["target_dtype_info"]
    if node_arg_is_weight(node, arg):
        if node.target in NON_QUANTIZABLE_WEIGHT_OPS:
            return None
        return _made(info.get("weight_obs_or_fq_ctr", _FLOAT_OBSERVER))
    name = "bias" if node_arg_is_bias(node, arg) else "input_act"
    return _made(info.get(f"{name}_obs_or_fq_ctr", _FLOAT_OBSERVER))


def _needs_observer(before, target, is_dynamic, reuses, is_first=False) -> bool:
    """Whether a value of a dtype has to be observed to get another one."""
    if is_dynamic:
        if target not in _OBSERVED:
            raise AssertionError(f"Expected cur_target_dtype to be torch.float, but got: {target}")
        if before in _NOT_OBSERVED:
            raise AssertionError("prev_output_dtype must not be in _DO_NOT_OBS_DTYPE_LIST")
        return is_first
    if reuses or target not in _OBSERVED:
        return False
    return before in (*_OBSERVED, torch.float) and target != before


def _observed_input(node, arg, qconfig, handler, insertion):
    """An argument, or its observer's call where the call wants another dtype."""
    if isinstance(arg, (list, tuple)):
        return type(arg)([_observed_input(node, a, qconfig, handler, insertion) for a in arg])
    if not isinstance(arg, Node):
        return arg
    modules = insertion.modules
    if handler is not None and handler.is_standalone_module():
        configs = standalone_configs(node, modules, insertion.custom, qconfig, insertion.backend)
        quantized = configs[2].input_quantized_indexes
        at = next((i for i, a in enumerate(node.args) if a is arg), None)
        target = torch.quint8 if at in quantized else torch.float
        needed = at is not None and target is not torch.float and arg_dtype_as_output(arg, modules) != target
        observer = _made(qconfig.activation)
    else:
        observer = _input_observer(arg, node)
        target, is_dynamic = dtype_and_is_dynamic(observer)
        reuses = node.meta["target_dtype_info"].get("reuse_input_obs_or_fq", False)
        first = bool(node.args) and arg is node.args[0]
        needed = _needs_observer(arg_dtype_as_output(arg, modules), target, is_dynamic, reuses, first)
    if not needed:
        return arg
    for user in arg.users:
        if user.op == "call_module":
            existing = modules[user.target]
            if type(existing) is type(observer) and existing.dtype == target:
                return user
    return insertion.insert(arg, observer)


def insert_input_observers(node, qconfig, handler, insertion) -> None:
    """Puts observers before a call's arguments where it wants other dtypes."""
    node.args = tuple(_observed_input(node, arg, qconfig, handler, insertion) for arg in node.args)
    node.kwargs = {k: _observed_input(node, arg, qconfig, handler, insertion) for k, arg in node.kwargs.items()}


def insert_output_observer(node, insertion) -> Node | None:
    """Puts an observer behind a call whose results are quantized."""
    info = node.meta["target_dtype_info"]
    observer = _made(info.get("output_act_obs_or_fq_ctr"))
    dtype, is_dynamic = dtype_and_is_dynamic(observer)
    if is_dynamic or info.get("_is_standalone_module", False) or not _needs_observer(torch.float, dtype, False, False):
        return None
    return insertion.insert(node, observer)


def observe_results(output, insertion) -> None:
    """Puts observers before the graph's results that stay quantized."""

    def observed(value):
        if isinstance(value, Node):
            make = value.meta.get("target_dtype_info", {}).get("input_act_obs_or_fq_ctr")
            observer = _made(make)
            target = torch.float if observer is None else observer.dtype
            if target is torch.float or arg_dtype_as_output(value, insertion.modules) == target:
                return value
            return insertion.insert(value, observer)
        if isinstance(value, (list, tuple)):
            found = [observed(v) for v in value]
            return found if isinstance(value, list) else tuple(found)
        if isinstance(value, dict):
            return {k: observed(v) for k, v in value.items()}
        if value is None:
            return None
        raise Exception("Unhandled type for returned node:", value)  # noqa: TRY002

    output.args = tuple(observed(arg) for arg in output.args)


def _observer_behind(node, modules) -> Node | None:
    """The observer's call that a value comes from, through calls that are not observed."""
    while not _is_observer(node, modules):
        if not isinstance(node, Node) or node.op == "placeholder":
            return None
        before = None
        for arg in node.args:
            before = arg
            if isinstance(arg, Node):
                break
        if before is None:
            return None
        node = before
    return node


def _replace_observer(node, observer, modules) -> None:
    parent, name = _parent_name(node.target)
    setattr(modules[parent], name, observer)


def share_observers(node, modules) -> bool:
    """Gives a call's inputs and results the observer of the first input; whether there is one."""
    first = next((a for a in node.args if isinstance(a, (Node, list, tuple))), None)
    if first is None:
        return False
    many = isinstance(first, (list, tuple))
    found = _observer_behind(first[0] if many else first, modules)
    if found is None:
        return False
    observer = modules[found.target]
    for other in first[1:] if many else ():
        while not _is_observer(other, modules):
            if not other.args:
                return False
            other = other.args[0]
        _replace_observer(other, observer, modules)
    for user in node.users:
        if not _is_observer(user, modules):
            raise AssertionError("output_obs_node must be an activation post process node")
        _replace_observer(user, observer, modules)
    return True


def remove_output_observer(node, model, modules) -> None:
    """Takes the observers behind a call away."""
    for user in list(node.users):
        if not _is_observer(user, modules):
            raise AssertionError("output_obs_node must be an activation post process node")
        user.replace_all_uses_with(node)
        model.graph.erase_node(user)
