"""What the passes over graphs have in common (``torch.ao.quantization.fx.utils``)."""

from __future__ import annotations

import copy
import operator
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ftorch as torch
from ftorch.ao.quantization.observer import _is_activation_post_process
from ftorch.ao.quantization.quant_type import QuantType
from ftorch.ao.quantization.utils import _assert_and_get_unique_device
from ftorch.ao.quantization.utils import _parent_name as _parent_name
from ftorch.fx import Graph, GraphModule
from ftorch.fx.node import Node, map_arg

__all__ = [
    "EMPTY_ARG_DICT", "NON_OBSERVABLE_ARG_DICT", "NON_QUANTIZABLE_WEIGHT_OPS", "NodeInfo", "ObservedGraphModuleAttrs",
    "all_node_args_except_first", "all_node_args_have_no_tensors", "assert_and_get_unique_device",
    "collect_producer_nodes", "create_getattr_from_value", "create_node_from_old_node_preserve_meta",
    "get_custom_module_class_keys", "get_linear_prepack_op_for_dtype", "get_new_attr_name_with_prefix",
    "get_non_observable_arg_indexes_and_types", "get_qconv_prepack_op", "get_skipped_module_name_and_classes",
    "graph_module_from_producer_nodes", "maybe_get_next_module", "node_arg_is_bias", "node_arg_is_weight",
    "return_arg_list",
]

#: what has weights that are not quantized
NON_QUANTIZABLE_WEIGHT_OPS = {
    torch.nn.functional.layer_norm, torch.nn.functional.group_norm, torch.nn.functional.instance_norm,
}


@dataclass
class ObservedGraphModuleAttrs:
    """What `convert` has to know of how a graph was observed."""

    node_name_to_qconfig: dict[str, Any]
    node_name_to_scope: dict[str, tuple[str, type]]
    prepare_custom_config: Any
    equalization_node_name_to_qconfig: dict[str, Any]
    qconfig_mapping: Any
    is_qat: bool
    observed_node_names: set[str]
    is_observed_standalone_module: bool = False
    standalone_module_input_quantized_idxs: list[int] | None = None
    standalone_module_output_quantized_idxs: list[int] | None = None


def _arg_is(node: Node, arg: Any, what: str) -> bool:
    index = node.meta.get("target_dtype_info", {}).get(f"{what}_index")
    if index is not None and index < len(node.args) and node.args[index] is arg:
        return True
    return node.kwargs.get(what) is arg


def node_arg_is_weight(node: Node, arg: Any) -> bool:
    """Whether an argument of a call is its weight."""
    return _arg_is(node, arg, "weight")


def node_arg_is_bias(node: Node, arg: Any) -> bool:
    """Whether an argument of a call is its bias."""
    return _arg_is(node, arg, "bias")


def get_custom_module_class_keys(custom_module_mapping) -> list[Any]:
    """The classes that a mapping by kinds of quantization has."""
    kinds = (QuantType.STATIC, QuantType.DYNAMIC, QuantType.WEIGHT_ONLY)
    return list(dict.fromkeys(c for kind in kinds for c in custom_module_mapping.get(kind, {})))


def get_linear_prepack_op_for_dtype(dtype):
    """The operator that packs a linear layer's weight of a dtype.

    Raises:
        Exception: for other dtypes.
    """
    if dtype is torch.float16:
        return torch.ops.quantized.linear_prepack_fp16
    if dtype is torch.qint8:
        return torch.ops.quantized.linear_prepack
    raise Exception("can't get linear prepack op for dtype:", dtype)  # noqa: TRY002


def get_qconv_prepack_op(conv_op: Callable) -> Callable:
    """The operator that packs a convolution's weight."""
    F = torch.nn.functional
    for name in ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
        if conv_op is getattr(F, name):
            return getattr(torch.ops.quantized, f"{name}_prepack")
    raise AssertionError(f"Didn't find prepack op for {conv_op}")


def get_new_attr_name_with_prefix(prefix: str) -> Callable:
    """A function that gives a module's first free attribute with a prefix and a number."""
    prefix = prefix.replace(".", "_")

    def get_new_attr_name(module: torch.nn.Module) -> str:
        i = 0
        while hasattr(module, f"{prefix}{i}"):
            i += 1
        return f"{prefix}{i}"

    return get_new_attr_name


def collect_producer_nodes(node: Node) -> list[Node] | None:
    """A node and what it is computed from, the last first; None if that takes an input."""
    nodes, frontier = [node], [node]
    while frontier:
        current = frontier.pop()
        for arg in (*current.args, *current.kwargs.values()):
            if not isinstance(arg, Node):
                continue
            if arg.op == "placeholder":
                return None
            nodes.append(arg)
            if not (arg.op == "call_function" and arg.target is getattr):
                frontier.append(arg)
    return nodes


def graph_module_from_producer_nodes(root: GraphModule, producer_nodes: list[Node]) -> GraphModule:
    """A graph module of the nodes of `collect_producer_nodes`, which gives the first one's value."""
    if not producer_nodes:
        raise AssertionError("list of producer nodes can not be empty")
    producer_nodes.reverse()
    graph, copies = Graph(), {}

    def load_arg(a):
        return map_arg(a, lambda node: copies[node])

    for node in producer_nodes:
        copies[node] = graph.node_copy(node, load_arg)
    graph.output(load_arg(producer_nodes[-1]))
    return GraphModule(root, graph)


def assert_and_get_unique_device(module: torch.nn.Module) -> Any:
    """The device of a module's parameters and buffers, or None.

    Raises:
        AssertionError: if there are several.
    """
    return _assert_and_get_unique_device(module)


def create_getattr_from_value(module, graph, prefix, value, device=None) -> Node:
    """Makes a buffer of a number or tensor, and a node that reads it."""
    name = get_new_attr_name_with_prefix(prefix)(module)
    if device is None:
        device = assert_and_get_unique_device(module)
    buffer = value.detach().clone() if isinstance(value, torch.Tensor) else torch.tensor(value, device=device)
    module.register_buffer(name, buffer)
    return graph.create_node("get_attr", name)


def all_node_args_have_no_tensors(node: Any, modules: dict[str, torch.nn.Module], cache: dict[Node, bool]) -> bool:
    """Whether a node's value is known to be no tensor: sizes, and what is computed of numbers."""
    if not isinstance(node, Node):
        return True
    if node not in cache:
        cache[node] = _has_no_tensors(node, modules, cache)
    return cache[node]


def _has_no_tensors(node, modules, cache) -> bool:
    if node.op in ("placeholder", "get_attr"):
        return False
    if node.op == "call_module":
        observer = _is_activation_post_process(modules[node.target])
        return observer and all_node_args_have_no_tensors(node.args[0], modules, cache)
    if node.op == "call_function" and node.target is operator.getitem:
        return all_node_args_have_no_tensors(node.args[0], modules, cache)
    if node.target is getattr and node.args[1] in ("ndim", "shape"):
        return True
    if node.op == "call_method" and node.target == "size":
        return True
    for arg in node.args:
        if isinstance(arg, list):
            if any(isinstance(a, Node) and not all_node_args_have_no_tensors(a, modules, cache) for a in arg):
                return False
        elif isinstance(arg, int):
            continue
        elif not isinstance(arg, Node) or not all_node_args_have_no_tensors(arg, modules, cache):
            return False
    return bool(node.args)


def all_node_args_except_first(node: Node) -> list[int]:
    """The positions after the first."""
    return list(range(1, len(node.args)))


def return_arg_list(arg_indices: list[int]) -> Callable[[Node], list[int]]:
    """A function that gives those of some positions that a node has."""

    def arg_indices_func(node: Node) -> list[int]:
        return [i for i in arg_indices if i < len(node.args)]

    return arg_indices_func


NodeInfo = namedtuple("NodeInfo", "op target")

#: arguments that are no tensors to be observed: {call: {type: positions}}
NON_OBSERVABLE_ARG_DICT: dict[NodeInfo, dict] = {
    NodeInfo("call_method", "masked_fill"): {torch.bool: return_arg_list([1]), float: return_arg_list([2])},
    **{NodeInfo("call_method", name): {int: all_node_args_except_first}
       for name in ("permute", "repeat", "reshape", "transpose", torch.transpose, "view")},
    **{NodeInfo("call_method", name): {int: return_arg_list([1])}
       for name in ("size", "unsqueeze", "unsqueeze_", torch.unsqueeze)},
}

EMPTY_ARG_DICT: dict = {}


def get_non_observable_arg_indexes_and_types(node: Node) -> dict:
    """{type: function of a node to positions} of the arguments that are no tensors to be observed."""
    return NON_OBSERVABLE_ARG_DICT.get(NodeInfo(node.op, node.target), EMPTY_ARG_DICT)


def maybe_get_next_module(node, modules, target_module_type=None, target_functional_type=None) -> Node | None:
    """The user of a node that calls a module of a type, or a function; else None."""
    for user in node.users:
        if user.op == "call_module" and target_module_type is not None:
            if isinstance(modules[str(user.target)], target_module_type):
                return user
        elif (
            user.op == "call_function" and target_functional_type is not None and user.target == target_functional_type
        ):
            return user
    return None


def create_node_from_old_node_preserve_meta(quantized_graph, create_node_args, old_node) -> Node:
    """Makes a node that comes from where another one came."""
    node = quantized_graph.create_node(*create_node_args)
    node.stack_trace = old_node.stack_trace
    return node


def get_skipped_module_name_and_classes(prepare_custom_config, is_standalone_module) -> tuple[list[str], list[type]]:
    """(names, classes) of the submodules that are not traced into."""
    names = copy.copy(prepare_custom_config.non_traceable_module_names)
    classes = copy.copy(prepare_custom_config.non_traceable_module_classes)
    if not is_standalone_module:
        names += list(prepare_custom_config.standalone_module_names)
        classes += list(prepare_custom_config.standalone_module_classes)
        classes += get_custom_module_class_keys(prepare_custom_config.float_to_observed_mapping)
    return names, classes


def _get_module(node: Node, modules):
    """The module that a node calls, or None."""
    return modules[str(node.target)] if node.op == "call_module" and str(node.target) in modules else None
