"""What the modes of quantization ask of a `BackendConfig` (``torch.ao.quantization.backend_config.utils``)."""

from __future__ import annotations

import inspect
from typing import Any

import ftorch as torch
from ftorch.ao.quantization.fuser_method_mappings import _reverse2, _reverse3
from ftorch.ao.quantization.utils import Pattern

from .backend_config import BackendConfig, BackendPatternConfig

__all__ = [
    "entry_to_pretty_str", "get_fused_module_classes", "get_fuser_method_mapping",
    "get_fusion_pattern_to_extra_inputs_getter", "get_fusion_pattern_to_root_node_getter", "get_module_to_qat_module",
    "get_pattern_to_dtype_configs", "get_pattern_to_input_type_to_index", "get_qat_module_classes",
    "get_root_module_to_quantized_reference_module", "pattern_to_human_readable", "remove_boolean_dispatch_from_name",
]


def _by_pattern(backend_config: BackendConfig, name: str) -> dict[Pattern, Any]:
    """{pattern: attribute} of the configs that set it."""
    found = ((p, getattr(c, name)) for p, c in backend_config._pattern_complex_format_to_config.items())
    return {pattern: value for pattern, value in found if value is not None}


def get_pattern_to_dtype_configs(backend_config: BackendConfig) -> dict[Pattern, list]:
    """{pattern: its possible dtypes}."""
    return _by_pattern(backend_config, "dtype_configs")


def get_qat_module_classes(backend_config: BackendConfig) -> tuple[type, ...]:
    """The layers that train with rounded weights."""
    return tuple({c.qat_module for c in backend_config.configs if c.qat_module is not None})


def get_fused_module_classes(backend_config: BackendConfig) -> tuple[type, ...]:
    """The layers that patterns are joined to."""
    return tuple({c.fused_module for c in backend_config.configs if c.fused_module is not None})


def get_pattern_to_input_type_to_index(backend_config: BackendConfig) -> dict[Pattern, dict[str, int]]:
    """{pattern: {"weight" or "bias": the argument's position}}."""
    return _by_pattern(backend_config, "_input_type_to_index")


def get_root_module_to_quantized_reference_module(backend_config: BackendConfig) -> dict[type, type]:
    """{layer in floating point: reference layer}."""
    return {
        c.root_module: c.reference_quantized_module for c in backend_config.configs
        if c.root_module is not None and c.reference_quantized_module is not None
    }


def get_fuser_method_mapping(backend_config: BackendConfig) -> dict[Pattern, Any]:
    """{pattern: the function that joins its modules, which takes them in the pattern's reversed order}."""
    found = {}
    for pattern, config in backend_config._pattern_complex_format_to_config.items():
        if config.fuser_method is not None:
            found[pattern] = _get_fuser_method_in_reversed_nested_tuple_format(config)
    return found


def get_module_to_qat_module(backend_config: BackendConfig) -> dict[Pattern, type]:
    """{pattern: the layer that trains with rounded weights}."""
    return _by_pattern(backend_config, "qat_module")


def get_fusion_pattern_to_root_node_getter(backend_config: BackendConfig) -> dict[Pattern, Any]:
    """{pattern: the function that finds the node of the pattern's first layer}, where it is not the default."""
    return _by_pattern(backend_config, "_root_node_getter")


def get_fusion_pattern_to_extra_inputs_getter(backend_config: BackendConfig) -> dict[Pattern, Any]:
    """{pattern: the function that finds inputs beside those of the first layer}."""
    return _by_pattern(backend_config, "_extra_inputs_getter")


def remove_boolean_dispatch_from_name(p) -> Any:
    """A readable name of functions that choose by a flag."""
    names = {
        torch.nn.functional.fractional_max_pool2d: "torch.nn.functional.fractional_max_pool2d",
        torch.nn.functional.fractional_max_pool3d: "torch.nn.functional.fractional_max_pool3d",
        torch.nn.functional.max_pool1d: "torch.nn.functional.max_pool1d",
        torch.nn.functional.max_pool2d: "torch.nn.functional.max_pool2d",
        torch.nn.functional.max_pool3d: "torch.nn.functional.max_pool3d",
        torch.nn.functional.adaptive_max_pool1d: "torch.nn.functional.adaptive_max_pool1d",
        torch.nn.functional.adaptive_max_pool2d: "torch.nn.functional.adaptive_max_pool2d",
        torch.nn.functional.adaptive_max_pool3d: "torch.nn.functional.adaptive_max_pool3d",
    }
    return names.get(p, p)


def pattern_to_human_readable(p) -> Any:
    """A pattern with names for classes."""
    if isinstance(p, tuple):
        return tuple(pattern_to_human_readable(inner) for inner in p)
    if isinstance(p, str):
        return p
    p = remove_boolean_dispatch_from_name(p)
    return p.__name__ if inspect.isclass(p) else p


def entry_to_pretty_str(entry) -> str:
    """The text of a config's dict."""
    text = "{\n"
    for key in ("pattern", "pattern_complex_format"):
        if key in entry:
            text += f"  '{key}': {pattern_to_human_readable(entry[key])},\n"
    if "dtype_configs" in entry:
        text += "  'dtype_configs': [\n"
        for config in entry["dtype_configs"]:
            text += "    {\n" + "".join(f"      '{k}': {v},\n" for k, v in config.items()) + "    },\n"
        text += "  ],\n"
    if "num_tensor_args_to_observation_type" in entry:
        items = entry["num_tensor_args_to_observation_type"].items()
        text += (
            "  'num_tensor_args_to_observation_type': {\n" + "".join(f"    {k}: {v},\n" for k, v in items) + "  },\n"
        )
    special = ("pattern", "pattern_complex_format", "dtype_configs", "num_tensor_args_to_observation_type")
    text += "".join(f"  '{k}': {v},\n" for k, v in entry.items() if k not in special)
    return text + "}"


def _get_pattern_in_reversed_nested_tuple_format(config: BackendPatternConfig) -> Pattern:
    """A pattern from its last call to its first: (a, b, c) becomes (c, (b, a))."""
    if config._pattern_complex_format is not None:
        return config._pattern_complex_format
    if config.pattern is None:
        raise ValueError("Either 'pattern' or 'pattern_complex_format' must be specified")
    if not isinstance(config.pattern, tuple):
        return config.pattern
    if len(config.pattern) == 2:
        first, second = config.pattern
        return (second, first)
    if len(config.pattern) == 3:
        first, second, third = config.pattern
        return (third, (second, first))
    raise ValueError("Expected a tuple with 2 or 3 elements, got: ", config.pattern)


def _get_fuser_method_in_reversed_nested_tuple_format(config: BackendPatternConfig):
    if config.fuser_method is None:
        raise AssertionError("config.fuser_method must be provided")
    if config._pattern_complex_format is not None or not isinstance(config.pattern, tuple):
        return config.fuser_method
    if len(config.pattern) == 2:
        return _reverse2(config.fuser_method)
    if len(config.pattern) == 3:
        return _reverse3(config.fuser_method)
    raise ValueError("Expected a tuple with 2 or 3 elements, got: ", config.pattern)
