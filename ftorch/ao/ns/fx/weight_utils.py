"""The weights of nodes (``torch.ao.ns.fx.weight_utils``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ftorch as torch
import ftorch.nn.functional as F
from ftorch import nn
from ftorch.ao.nn import intrinsic as nni
from ftorch.ao.nn import qat as nnqat
from ftorch.ao.nn import quantized as nnq
from ftorch.ao.nn.intrinsic import qat as nniqat
from ftorch.ao.nn.intrinsic import quantized as nniq
from ftorch.ao.nn.quantized import dynamic as nnqd
from ftorch.fx import GraphModule
from ftorch.fx.graph import Node

from .ns_types import NSSingleResultType, NSSingleResultValuesType
from .utils import get_target_type_str, getattr_from_fqn, return_first_non_observer_node

ops = torch.ops.quantized


def mod_weight_detach(mod: Any) -> torch.Tensor:
    """A layer's weight."""
    return mod.weight.detach()


def mod_0_weight_detach(mod: Any) -> torch.Tensor:
    """The weight of the first layer of several that are one."""
    return mod[0].weight.detach()


def mod_weight_bias_0(mod: Any) -> torch.Tensor:
    """A quantized layer's weight."""
    return mod._weight_bias()[0]


def get_lstm_weight(mod: Any) -> list[torch.Tensor]:
    """An LSTM's matrices."""
    return [weight.detach() for name, weight in zip(mod._flat_weights_names, mod._flat_weights)
            if "weight_ih_l" in name or "weight_hh_l" in name]


def get_qlstm_weight(mod: Any) -> list[torch.Tensor]:
    """A quantized LSTM's matrices."""
    cells = [cell.param for cell in mod._all_weight_values]
    return [product.unpack()[0] for cell in cells for product in (cell.w_ih, cell.w_hh)]


def _by_kind(mod: Any, plain, fused) -> torch.Tensor:
    if isinstance(mod, plain):
        return mod_weight_detach(mod)
    return mod_0_weight_detach(mod) if isinstance(mod, fused) else mod_weight_bias_0(mod)


def get_conv_mod_weight(mod: nn.Module) -> torch.Tensor:
    """A convolution's weight, quantized or not."""
    return _by_kind(mod, (nn.Conv1d, nn.Conv2d, nn.Conv3d), (nni.ConvReLU1d, nni.ConvReLU2d, nni.ConvReLU3d))


def get_linear_mod_weight(mod: nn.Module) -> torch.Tensor:
    """A linear layer's weight, quantized or not."""
    return _by_kind(mod, nn.Linear, nni.LinearReLU)


def get_lstm_mod_weights(mod: nn.Module) -> list[torch.Tensor]:
    """An LSTM's matrices, quantized or not; AssertionError for other modules."""
    if isinstance(mod, nn.LSTM):
        return get_lstm_weight(mod)
    if not isinstance(mod, nnqd.LSTM):
        raise AssertionError(f"type {type(mod)} not handled yet")
    return get_qlstm_weight(mod)


def _attribute(node: Any, gm: GraphModule) -> Any:
    if not isinstance(node, Node):
        raise AssertionError(f"Expected Node, got {type(node)}")
    if node.op != "get_attr":
        raise AssertionError(f"Expected get_attr, got {node.op}")
    return getattr_from_fqn(gm, str(node.target))


def get_conv_fun_weight(node: Node, gm: GraphModule) -> torch.Tensor:
    """The weight of a call of a convolution, with its observer or without."""
    weight = node.args[1]
    if not isinstance(weight, Node):
        raise AssertionError(f"Expected Node, got {type(weight)}")
    return _attribute(return_first_non_observer_node(weight, gm), gm).detach()


def get_qconv_fun_weight(node: Node, gm: GraphModule) -> torch.Tensor:
    """The weight of a call of a quantized convolution."""
    return _attribute(node.args[1], gm).weight()


def get_linear_fun_weight(node: Node, gm: GraphModule) -> torch.Tensor:
    """The weight of a call of a linear function: as it is, observed, or by way of half precision."""
    given: Any = node.args[1]
    if isinstance(given, Node) and given.op == "call_module":
        return _attribute(given.args[0], gm).detach()
    if isinstance(given, Node) and given.op == "call_method":
        halved: Any = given.args[0]
        return _attribute(halved.args[0], gm).detach().to(halved.args[1])
    return _attribute(given, gm).detach()


def get_qlinear_fun_weight(node: Node, gm: GraphModule) -> torch.Tensor:
    """The weight of a call of a quantized linear function."""
    return _attribute(node.args[1], gm).unpack()[0]


def get_op_to_type_to_weight_extraction_fn() -> dict[str, dict[Callable, Callable]]:
    """{"call_module" or "call_function": {what is called: what gives its weight}}."""
    modules: dict[Any, Callable] = {}
    functions: dict[Any, Callable] = {}
    for d in (1, 2, 3):
        modules |= {
            getattr(nn, f"Conv{d}d"): mod_weight_detach, getattr(nni, f"ConvReLU{d}d"): mod_0_weight_detach,
            getattr(nnq, f"Conv{d}d"): mod_weight_bias_0, getattr(nnqat, f"Conv{d}d"): mod_weight_detach,
            getattr(nniqat, f"ConvBn{d}d"): mod_weight_detach, getattr(nniqat, f"ConvBnReLU{d}d"): mod_weight_detach,
            getattr(nniqat, f"ConvReLU{d}d"): mod_weight_detach, getattr(nniq, f"ConvReLU{d}d"): mod_weight_bias_0,
        }
        functions |= {
            getattr(F, f"conv{d}d"): get_conv_fun_weight, getattr(ops, f"conv{d}d"): get_qconv_fun_weight,
            getattr(ops, f"conv{d}d_relu"): get_qconv_fun_weight,
        }
    modules |= {
        nn.Linear: mod_weight_detach, nnq.Linear: mod_weight_bias_0, nni.LinearReLU: mod_0_weight_detach,
        nniq.LinearReLU: mod_weight_bias_0, nnqat.Linear: mod_weight_detach, nnqd.Linear: mod_weight_bias_0,
        nniqat.LinearReLU: mod_weight_detach, nniqat.LinearBn1d: mod_weight_detach,
        nn.modules.linear.NonDynamicallyQuantizableLinear: mod_weight_detach, nn.LSTM: get_lstm_weight,
        nnqd.LSTM: get_qlstm_weight,
    }
    functions |= {
        F.linear: get_linear_fun_weight, ops.linear: get_qlinear_fun_weight, ops.linear_relu: get_qlinear_fun_weight,
    }
    return {"call_module": modules, "call_function": functions}


def extract_weight_from_node(
    node: Node, gm: GraphModule,
    op_to_type_to_weight_extraction_fn: dict[str, dict[Callable, Callable]] | None = None,
) -> NSSingleResultType | None:
    """The weight of what a node calls as a result, or None."""
    table = op_to_type_to_weight_extraction_fn or get_op_to_type_to_weight_extraction_fn()
    if node.op not in ("call_function", "call_module"):
        return None
    if node.op == "call_function":
        get = table["call_function"].get(node.target)  # type: ignore[call-overload]
        weight = None if get is None else get(node, gm)
    else:
        module = getattr_from_fqn(gm, str(node.target))
        get = table["call_module"].get(type(module))
        weight = None if get is None else get(module)
    if get is None:
        return None
    kind, scopes = get_target_type_str(node, gm), getattr(gm, "_node_name_to_scope", None)
    return {
        "type": NSSingleResultValuesType.WEIGHT.value, "values": [weight], "prev_node_name": node.name,
        "prev_node_target_type": kind, "ref_node_name": node.name, "ref_node_target_type": kind,
        "index_within_arg": 0, "index_of_arg": 0, "fqn": None if scopes is None else scopes[node.name][0],
    }
