"""Weights and results of a model and of its quantized form, side by side (``torch.ao.ns._numeric_suite``).

For models that were quantized module by module; `ftorch.ao.ns._numeric_suite_fx` is for graph modules.

>>> import ftorch as torch
>>> from ftorch.ao.ns import _numeric_suite as ns
>>> model = torch.nn.Sequential(torch.nn.Linear(3, 2))
>>> quantized = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear})
>>> sorted(ns.compare_weights(model.state_dict(), quantized.state_dict()))
['0._packed_params._packed_params']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ftorch as torch
from ftorch import nn
from ftorch.ao.nn import quantized as nnq
from ftorch.ao.nn.quantized import dynamic as nnqd
from ftorch.ao.quantization import prepare
from ftorch.ao.quantization.quantization_mappings import get_default_compare_output_module_list

__all__ = [
    "Logger", "OutputLogger", "Shadow", "ShadowLogger", "compare_model_outputs", "compare_model_stub",
    "compare_weights", "get_logger_dict", "get_matching_activations", "prepare_model_outputs",
    "prepare_model_with_stubs",
]

NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST = {nnqd.Linear, nnq.Linear, nnqd.LSTM, nn.LSTM}


def _owner(path: str, levels: int) -> str:
    # PyTorch joins the parts without dots, so `a.b` and `ab` are the same owner.
    return "".join(path.split(".")[:-levels])


def _find_match(str_list, key_str: str, postfix: str) -> str | None:
    """The name whose owner, or whose owner's owner, owns a name that ends in ``postfix``."""
    if key_str.split(".")[-1] != postfix:
        return None
    levels = (1, 2) if postfix == "_packed_params" else (1,)
    for level in levels:
        owner = _owner(key_str, level)
        if level == 2 and not owner:
            return None
        for name in str_list:
            if owner in (_owner(name, 1), _owner(name, 2)):
                return name
    return None


def compare_weights(float_dict: dict[str, Any], quantized_dict: dict[str, Any]) -> dict[str, dict[str, torch.Tensor]]:
    """{name: {"float": weight, "quantized": weight}} of two state dicts, by the names of the quantized model.

    Of a recurrent layer's weights, the one for the hidden state is there.
    """
    found: dict[str, dict] = {}
    for key, value in quantized_dict.items():
        match = _find_match(float_dict, key, "weight")
        if match is not None:
            found[key] = {"float": float_dict[match], "quantized": value}
            continue
        match = _find_match(float_dict, key, "_packed_params")
        if match is not None:
            found[key] = {"float": float_dict[match], "quantized": value[0]}
        parts = key.split(".")
        if parts[-1] == "param" and parts[-3] == "_all_weight_values":
            owner, layer = ".".join(parts[:-3]), parts[-2]
            names = [f"{owner}.weight_{kind}_l{layer}" for kind in ("ih", "hh")]
            if all(name in float_dict for name in names):
                found[key] = {"float": float_dict[names[1]], "quantized": value.w_hh.unpack()[0]}
    return found


def _get_logger_dict_helper(mod: nn.Module, target_dict: dict[str, Any], prefix: str = "") -> None:
    start = f"{prefix}." if prefix else ""
    logger = next((child for child in mod.children() if isinstance(child, Logger)), None)
    if logger is not None:
        target_dict[start + "stats"] = logger.stats
    for name, child in mod.named_children():
        _get_logger_dict_helper(child, target_dict, start + name)


def get_logger_dict(mod: nn.Module, prefix: str = "") -> dict[str, dict]:
    """{path of a layer + ".stats": what its logger holds}."""
    found: dict[str, dict] = {}
    _get_logger_dict_helper(mod, found, prefix)
    return found


class Logger(nn.Module):
    """A module that keeps what passes through it in ``stats``; subclasses write `forward`."""

    def __init__(self):
        super().__init__()
        self.stats: dict[str, Any] = {}
        self.dtype = torch.quint8

    def forward(self, x):
        """Keeps nothing."""


class ShadowLogger(Logger):
    """Keeps the results of a quantized layer, and of the layer in floating point, for the same inputs."""

    def __init__(self):
        super().__init__()
        self.stats["float"] = []
        self.stats["quantized"] = []

    def forward(self, x, y):  # type: ignore[override]
        """Keeps a pair of results: of several, or of a batch, the first."""
        first, second = (v[0] if len(v) > 1 else v for v in (x, y))
        self.stats["quantized"].append(first.detach())
        self.stats["float"].append(second.detach())


class OutputLogger(Logger):
    """Keeps results in ``stats["tensor_val"]``."""

    def __init__(self):
        super().__init__()
        self.stats["tensor_val"] = []

    def forward(self, x):
        """Keeps a result and hands it on."""
        self.stats["tensor_val"].append(x)
        return x


def _convert_tuple_to_list(t: Any) -> Any:
    return [_convert_tuple_to_list(x) for x in t] if type(t) is tuple else t


def _dequantize_tensor_list(t: Any) -> Any:
    if type(t) is list:
        return [_dequantize_tensor_list(x) for x in t]
    return t.dequantize() if t.is_quantized else t


class Shadow(nn.Module):
    """A quantized layer whose inputs also go, as real numbers, to the layer in floating point.

    Args:
        logger_cls: makes the logger that gets both results.
    """

    def __init__(self, q_module, float_module, logger_cls):
        super().__init__()
        self.orig_module = q_module
        self.shadow_module = float_module
        self.dequant = nnq.DeQuantize()
        self.logger = logger_cls()

    def _both(self, name, tensors, *rest):
        output = getattr(self.orig_module, name)(*tensors, *rest)
        real = [_dequantize_tensor_list(x) for x in tensors]
        self.logger(output, getattr(self.shadow_module, name)(*real, *rest))
        return output

    def forward(self, *x) -> torch.Tensor:
        """The quantized layer's result."""
        return self._both("__call__", _convert_tuple_to_list(x))

    def add(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The quantized layer's sum."""
        return self._both("add", (x, y))

    def add_scalar(self, x: torch.Tensor, y: float) -> torch.Tensor:
        """The quantized layer's sum with a number."""
        return self._both("add_scalar", (x,), y)

    def mul(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The quantized layer's product."""
        return self._both("mul", (x, y))

    def mul_scalar(self, x: torch.Tensor, y: float) -> torch.Tensor:
        """The quantized layer's product with a number."""
        return self._both("mul_scalar", (x,), y)

    def cat(self, x: list[torch.Tensor], dim: int = 0) -> torch.Tensor:
        """The quantized layer's concatenation."""
        return self._both("cat", (list(x),), dim)

    def add_relu(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The quantized layer's sum, negative ones as zero."""
        return self._both("add_relu", (x, y))


def _is_identical_module_type(mod1, mod2) -> bool:
    return [type(m) for m in mod1.modules()] == [type(m) for m in mod2.modules()]


def prepare_model_with_stubs(float_module: nn.Module, q_module: nn.Module, module_swap_list: set[type],
                             logger_cls: Callable) -> None:
    """Puts a `Shadow` in the place of each quantized layer whose class in floating point is listed."""
    originals = dict(float_module.named_children())
    shadows = {}
    for name, child in q_module.named_children():
        if name not in originals:
            continue
        original = originals[name]
        if type(original) not in module_swap_list:
            prepare_model_with_stubs(original, child, module_swap_list, logger_cls)
        elif not _is_identical_module_type(child, original):
            shadows[name] = Shadow(child, original, logger_cls)
    q_module._modules.update(shadows)


def compare_model_stub(float_model: nn.Module, q_model: nn.Module, module_swap_list: set[type], *data,
                       logger_cls=ShadowLogger) -> dict[str, dict]:
    """Runs a quantized model with shadows: what the loggers hold, by layer."""
    prepare_model_with_stubs(float_model, q_model, module_swap_list, logger_cls)
    q_model(*data)
    return get_logger_dict(q_model)


def get_matching_activations(float_module: nn.Module, q_module: nn.Module) -> dict[str, dict[str, torch.Tensor]]:
    """{layer: {"float": results, "quantized": results}} of models whose loggers have seen data."""
    originals = get_logger_dict(float_module)
    found: dict[str, dict] = {}
    for key, stats in get_logger_dict(q_module).items():
        if len(stats["tensor_val"]) == 0:
            continue
        match = _find_match(sorted(originals, reverse=True), key, "stats")
        if match is not None:
            found[key] = {"float": originals[match]["tensor_val"], "quantized": stats["tensor_val"]}
    return found


def prepare_model_outputs(float_module: nn.Module, q_module: nn.Module, logger_cls=OutputLogger,
                          allow_list=None) -> None:
    """Attaches a logger to the results of each layer whose class is listed."""
    if allow_list is None:
        allow_list = get_default_compare_output_module_list()
    float_module.qconfig = q_module.qconfig = torch.ao.quantization.QConfig(activation=logger_cls, weight=None)
    prepare(float_module, inplace=True, allow_list=allow_list, prepare_custom_config_dict={})
    prepare(q_module, inplace=True, allow_list=allow_list,
            observer_non_leaf_module_list=NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST,
            prepare_custom_config_dict={})


def compare_model_outputs(float_model: nn.Module, q_model: nn.Module, *data, logger_cls=OutputLogger,
                          allow_list=None) -> dict[str, dict[str, torch.Tensor]]:
    """Runs both models on the same data: {layer: {"float": results, "quantized": results}}."""
    prepare_model_outputs(float_model, q_model, logger_cls, allow_list)
    float_model(*data)
    q_model(*data)
    return get_matching_activations(float_model, q_model)
