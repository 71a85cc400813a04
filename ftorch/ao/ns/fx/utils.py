"""What nodes take and give, and how near results are (``torch.ao.ns.fx.utils``)."""

from __future__ import annotations

import enum
import functools
import operator
from collections.abc import Callable
from typing import Any

import ftorch as torch
from ftorch import nn
from ftorch.ao.nn import quantized as nnq
from ftorch.ao.nn.intrinsic import quantized as nniq
from ftorch.ao.quantization import FakeQuantizeBase, ObserverBase
from ftorch.ao.quantization.observer import _is_activation_post_process
from ftorch.ao.quantization.utils import getattr_from_fqn
from ftorch.fx import GraphModule
from ftorch.fx.graph import Node

from .ns_types import NSNodeTargetType, NSResultsType

ops = torch.ops.quantized


class NodeInputOrOutputType(enum.Enum):
    """The dtype of a node's first input, or of its result."""

    FP32 = enum.auto()
    INT8 = enum.auto()
    FP16 = enum.auto()
    UNKNOWN = enum.auto()
    FP32_OR_INT8 = enum.auto()


def get_node_first_input_and_output_type(
    node: Node, gm: GraphModule, logger_cls: Callable, node_type_to_io_type_map: dict[str, set[NSNodeTargetType]],
) -> tuple[NodeInputOrOutputType, NodeInputOrOutputType]:
    """The types of a node's first input and of its result, by what it calls and what comes before it."""
    kind, table = NodeInputOrOutputType, node_type_to_io_type_map

    def before() -> NodeInputOrOutputType:
        first = get_normalized_nth_input(node, gm, 0)
        if not isinstance(first, Node):
            raise AssertionError(f"Expected Node, got {type(first)}")
        return get_node_first_input_and_output_type(first, gm, logger_cls, table)[1]

    def passed():
        given = before()
        return given, given

    if node.op == "call_function":
        for name, found in (("fp32", kind.FP32), ("fp16", kind.FP16), ("int8", kind.INT8)):
            if node.target in table[f"funs_io_type_{name}"]:
                return found, found
        if node.target in table["funs_io_type_fp32_or_int8"]:
            return passed()
    elif node.op == "call_module":
        module = getattr_from_fqn(gm, str(node.target))

        def among(name) -> bool:
            kinds: Any = tuple(table[name])
            return isinstance(module, kinds)

        watching: Any = (logger_cls, ObserverBase, FakeQuantizeBase)
        if isinstance(module, watching) or among("mods_io_type_fp32_or_int8"):
            return passed()
        if among("mods_io_type_fp32"):
            return kind.FP32, kind.FP32
        if among("mods_io_type_int8"):
            return kind.INT8, kind.INT8
    elif node.op == "call_method":
        if node.target == "dequantize":
            return before(), kind.FP32
        if node.target == "to":
            given, dtype = before(), get_normalized_nth_input(node, gm, 1)
            if dtype is not torch.float16:
                raise AssertionError(f"{dtype} handling needs to be added")
            return given, kind.FP16
        if node.target in table["meths_io_type_fp32_or_int8"]:
            return passed()
    return kind.UNKNOWN, kind.UNKNOWN


_WITH_QUANTIZER = tuple(
    getattr(nnq, name) for name in (
        "Linear Conv1d Conv2d Conv3d BatchNorm2d BatchNorm3d ConvTranspose1d ConvTranspose2d ELU GroupNorm "
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm Hardswish LeakyReLU ReLU6"
    ).split()
) + tuple(getattr(nniq, name) for name in "BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d LinearReLU".split())


def get_node_input_qparams(node: Node, gm: GraphModule,
                           node_type_to_io_type_map: dict[str, set[NSNodeTargetType]]) -> tuple[Any, Any] | None:
    """The scale and the zero point of a node's first input, as far as what makes it says them; or None."""
    before = get_normalized_nth_input(node, gm, 0)
    if not isinstance(before, Node):
        return None
    if before.op == "call_function":
        first = 1 if before.target is torch.quantize_per_tensor else 2
        if first == 2 and before.target not in (ops.add, ops.add_relu, ops.mul, ops.mul_relu):
            return None
        names = [get_normalized_nth_input(before, gm, first + i) for i in (0, 1)]
        for name in names:
            if not isinstance(name, Node):
                raise AssertionError(f"Expected Node, got {type(name)}")
        return getattr_from_fqn(gm, names[0].target), getattr_from_fqn(gm, names[1].target)
    if before.op == "call_module":
        module = getattr_from_fqn(gm, str(before.target))
        if isinstance(module, _WITH_QUANTIZER):
            return module.scale, module.zero_point
        kinds: Any = tuple(node_type_to_io_type_map["mods_io_type_fp32_or_int8"])
        if isinstance(module, kinds):
            return get_node_input_qparams(before, gm, node_type_to_io_type_map)
    return None


def return_first_non_observer_node(node: Node, gm: GraphModule) -> Node:
    """What an observer, or an observer of an observer, observes; other nodes as they are."""
    for _ in range(2):
        if node.op != "call_module" or not _is_activation_post_process(getattr_from_fqn(gm, str(node.target))):
            break
        if len(node.args) != 1:
            raise AssertionError(f"Expected node.args to have length 1, got {len(node.args)}")
        first = node.args[0]
        if not isinstance(first, Node):
            raise AssertionError(f"Expected Node, got {type(first)}")
        node = first
    return node


def get_number_of_non_param_args(node: Node, gm: GraphModule) -> int:
    """2 for an LSTM, which takes its state as well; else 1."""
    is_lstm = node.op == "call_module" and isinstance(getattr_from_fqn(gm, str(node.target)), nn.LSTM)
    return 2 if is_lstm else 1


_BINARY = (torch.add, ops.add, operator.add, torch.mul, ops.mul, operator.mul)


def get_arg_indices_of_inputs_to_log(node: Node) -> list[int]:
    """The places of the arguments that are logged: both of sums and products, else the first."""
    if not node.args:
        return []
    if node.op == "call_function" and node.target in _BINARY:
        return [i for i in range(2) if type(node.args[i]) is Node]
    return [0]


def get_target_type_str(node: Node, gm: GraphModule) -> str:
    """The name of what a node calls, as of `torch.typename`."""
    if node.op in ("call_function", "call_method"):
        return torch.typename(node.target)
    return torch.typename(getattr_from_fqn(gm, str(node.target))) if node.op == "call_module" else ""


def rekey_logger_info_on_node_name_of_model(results: NSResultsType, model_name: str) -> NSResultsType:
    """Results under the names of a model's nodes."""
    found = {}
    for old, by_type in results.items():
        new = old
        for by_model in by_type.values():
            if model_name in by_model:
                if not by_model[model_name]:
                    raise AssertionError("Expected list_of_results to be not empty")
                new = by_model[model_name][0]["ref_node_name"]
        found[new] = by_type
    return found


def maybe_add_missing_fqns(results: NSResultsType) -> None:
    """Gives the results of the other models the modules' paths of the one that has them, in place."""
    first = next((by_model for by_type in results.values() for by_model in by_type.values()), {})
    known = next((name for name, found in first.items() if found and found[0]["fqn"] is not None), None)
    if not known:
        return
    for by_type in results.values():
        for by_model in by_type.values():
            for name, found in by_model.items():
                if name != known:
                    for result, reference in zip(found, by_model[known], strict=False):
                        result["fqn"] = reference["fqn"]


def maybe_dequantize_first_two_tensor_args_and_handle_tuples(f):
    """A function of two float32 tensors, for quantized ones and for lists as well; None for other dtypes."""

    @functools.wraps(f)
    def inner(a, b, *args, **kwargs):
        if (isinstance(a, tuple) and isinstance(b, tuple)) or (isinstance(a, list) and isinstance(b, list)):
            return [inner(x, y, *args, **kwargs) for x, y in zip(a, b)]
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            a, b = (x.dequantize() if x.is_quantized else x for x in (a, b))
        if a.dtype != torch.float or b.dtype != torch.float:
            return None
        return f(a, b, *args, **kwargs)

    return inner


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_sqnr(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The ratio of the signal ``x`` to the noise ``x - y`` in decibels.

    >>> import ftorch as torch
    >>> torch.ao.ns.fx.utils.compute_sqnr(torch.tensor([10.0]), torch.tensor([9.0]))
    tensor(20.)
    """
    return 20 * torch.log10(torch.norm(x) / torch.norm(x - y))


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_normalized_l2_error(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The length of the difference over the length of ``x``."""
    return torch.sqrt(((x - y) ** 2).sum() / (x**2).sum())


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_cosine_similarity(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The cosine of the angle between two tensors as vectors; of shape (1,)."""
    return nn.functional.cosine_similarity(x.reshape(1, -1), y.reshape(1, -1))


def op_type_supports_shadowing(node: Node) -> bool:
    """Whether a node takes one input, so that it can be copied beside another."""
    several = (torch.add, torch.mul, operator.add, operator.mul, torch.cat, torch.stack)
    return not (node.op == "call_function" and node.target in several)


def normalized_arguments(node: Node, gm: GraphModule) -> tuple[tuple, dict]:
    """A node's arguments, by name where the names are known."""
    try:
        found = node.normalized_arguments(gm, normalize_to_only_use_kwargs=True)
    except RuntimeError:
        found = None
    return (node.args, node.kwargs) if found is None else (found[0], found[1])


def get_normalized_nth_input(node: Node, gm: GraphModule, idx: int) -> Any:
    """The ``idx``-th argument of a node, in the order of what it calls.

    Raises:
        AssertionError: if there are fewer.
    """
    args, kwargs = normalized_arguments(node, gm)
    listed = [*args, *kwargs.values()]
    if len(listed) <= idx:
        raise AssertionError(f"Index {idx} out of range: total = {len(listed)}")
    return listed[idx]
