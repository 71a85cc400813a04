"""What pruners of rows have in common (``torch.ao.pruning._experimental.pruner.base_structured_sparsifier``)."""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem
from typing import Any

import ftorch as torch
from ftorch import nn
from ftorch.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier
from ftorch.fx import symbolic_trace
from ftorch.nn import functional as F
from ftorch.nn.utils import parametrize

from .match_utils import apply_match
from .parametrization import BiasHook, FakeStructuredSparsity, module_contains_param
from .prune_functions import (
    prune_conv2d,
    prune_conv2d_activation_conv2d,
    prune_conv2d_activation_pool_conv2d,
    prune_conv2d_conv2d,
    prune_conv2d_pool_activation_conv2d,
    prune_conv2d_pool_flatten_linear,
    prune_linear,
    prune_linear_activation_linear,
    prune_linear_linear,
    prune_lstm_output_layernorm_linear,
    prune_lstm_output_linear,
)

__all__ = ["BaseStructuredSparsifier"]

# Function and module.
_ACTIVATIONS = {
    "relu": "ReLU", "rrelu": "RReLU", "hardtanh": "Hardtanh", "relu6": "ReLU6", "sigmoid": "Sigmoid",
    "hardsigmoid": "Hardsigmoid", "tanh": "Tanh", "silu": "SiLU", "mish": "Mish", "hardswish": "Hardswish",
    "elu": "ELU", "celu": "CELU", "selu": "SELU", "hardshrink": "Hardshrink", "leaky_relu": "LeakyReLU",
    "logsigmoid": "LogSigmoid", "softplus": "Softplus", "prelu": "PReLU", "softsign": "Softsign",
    "tanhshrink": "Tanhshrink", "gelu": "GELU",
}


def _get_supported_structured_pruning_modules():
    return {nn.Linear, nn.Conv2d, nn.LSTM}


def _get_supported_activation_functions():
    return {getattr(F, name) for name in _ACTIVATIONS}


def _get_supported_activation_modules():
    return {getattr(nn, name) for name in _ACTIVATIONS.values()}


def _get_default_structured_pruning_patterns() -> dict[tuple, Callable[..., None]]:
    """{chain of module types, functions and names: what prunes it}."""
    patterns: dict[tuple, Callable[..., None]] = {
        (nn.Linear, "output"): prune_linear,
        (nn.Linear, nn.Linear): prune_linear_linear,
        (nn.Conv2d, "output"): prune_conv2d,
        (nn.Conv2d, nn.Conv2d): prune_conv2d_conv2d,
        (nn.LSTM, getitem, nn.Linear): prune_lstm_output_linear,
        (nn.LSTM, getitem, nn.LayerNorm, nn.Linear): prune_lstm_output_layernorm_linear,
    }
    pools = (nn.AvgPool2d, F.avg_pool2d, nn.MaxPool2d, F.max_pool2d)
    for activation in (*_get_supported_activation_functions(), *_get_supported_activation_modules()):
        patterns[nn.Linear, activation, nn.Linear] = prune_linear_activation_linear
        patterns[nn.Conv2d, activation, nn.Conv2d] = prune_conv2d_activation_conv2d
        for pool in pools:
            patterns[nn.Conv2d, activation, pool, nn.Conv2d] = prune_conv2d_activation_pool_conv2d
            patterns[nn.Conv2d, pool, activation, nn.Conv2d] = prune_conv2d_pool_activation_conv2d
    for pool in (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d):
        for flatten in (nn.Flatten, torch.flatten):
            patterns[nn.Conv2d, pool, flatten, nn.Linear] = prune_conv2d_pool_flatten_linear
    return patterns


class BaseStructuredSparsifier(BaseSparsifier):
    """Masks rows of weights, and takes them out of the model: `prepare`, `step`, `prune`.

    Subclasses write ``update_mask(module, tensor_name, **group)``.

    Args:
        defaults: what each group has that does not say otherwise; ``prune_bias`` (True) of a group says whether
            biases of masked rows are zero.
        patterns: {chain of module types, functions and names: function that prunes it}; None for the usual ones.

    >>> import ftorch as torch
    >>> from ftorch.ao.pruning._experimental.pruner import SaliencyPruner
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
    >>> pruner = SaliencyPruner({"sparsity_level": 0.5})
    >>> pruner.prepare(model, [{"tensor_fqn": "0.weight"}])
    >>> pruner.step()
    >>> pruner.prune().get_submodule("2")
    Linear(in_features=3, out_features=2, bias=True)
    """

    def __init__(self, defaults, patterns=None):
        super().__init__(defaults)
        self.patterns = _get_default_structured_pruning_patterns() if patterns is None else patterns

    def make_config_from_model(self, model: nn.Module, SUPPORTED_MODULES: set[type] | None = None) -> None:
        """A config of the weights of all linear layers, convolutions and LSTMs."""
        super().make_config_from_model(model, SUPPORTED_MODULES or _get_supported_structured_pruning_modules())

    def _prepare(self, *args, **kwargs) -> None:
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            tensor = getattr(module, name)
            mask = group.get("mask", torch.ones(tensor.shape[0], dtype=torch.bool, device=tensor.device))
            self.state[group["tensor_fqn"]]["mask"] = mask
            parametrize.register_parametrization(
                module, name, group.get("parametrization", FakeStructuredSparsity)(mask)
            )
            if not isinstance(module, (nn.Linear, nn.Conv2d)):
                continue
            layer: Any = module
            prune_bias = group.get("prune_bias", True)
            if layer.bias is not None:
                # The hook adds it, after the mask.
                layer.register_parameter("_bias", nn.Parameter(layer.bias.detach()))
                layer.bias = None
                layer.prune_bias = prune_bias
            layer.register_forward_hook(BiasHook(layer.parametrizations.weight[0], prune_bias))

    def prune(self):
        """The model as a graph module whose layers lack the masked rows, and the layers after them those columns.

        Raises:
            Exception: for a mask on a layer that no pattern fits (that type, as in PyTorch).
        """
        self.traced = symbolic_trace(self.model)
        modules: dict[Any, Any] = dict(self.traced.named_modules())
        for node in self.traced.graph.nodes:
            for pattern, prune in self.patterns.items():
                matched = apply_match(modules, pattern, node, [])
                if matched is None:
                    continue
                first = modules.get(node.target)
                if first is not None and module_contains_param(first, FakeStructuredSparsity):
                    prune(*[modules.get(n.target) if n.op == "call_module" else n.target
                            for n in matched if n.op in ("call_module", "call_function")])
        for module in self.traced.modules():
            if module_contains_param(module, FakeStructuredSparsity):
                raise Exception(  # noqa: TRY002
                    f"Error: {module} still contains FakeStructuredSparsity parametrizations!"
                )
        self.traced.graph.lint()
        self.traced.recompile()
        return self.traced
