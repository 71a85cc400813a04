"""What a backend can quantize (``torch.ao.quantization.backend_config``): patterns, their dtypes, their layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import ftorch as torch
from ftorch.ao.quantization.utils import Pattern

__all__ = ["BackendConfig", "BackendPatternConfig", "DTypeConfig", "DTypeWithConstraints", "ObservationType"]


class ObservationType(Enum):
    """Which observers a pattern's results have: their own, those of the inputs, or none."""

    OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT = 0
    OUTPUT_SHARE_OBSERVER_WITH_INPUT = 1
    INPUT_OUTPUT_NOT_OBSERVED = 2


ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT.__doc__ = "The results have observers of their own."
ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT.__doc__ = "The results have the observers of the inputs."
ObservationType.INPUT_OUTPUT_NOT_OBSERVED.__doc__ = "Neither the inputs nor the results are observed."


@dataclass
class DTypeWithConstraints:
    """A dtype, and what a backend asks of the integers and the scale.

    >>> import ftorch as torch
    >>> torch.ao.quantization.backend_config.DTypeWithConstraints(torch.qint8, quant_min_lower_bound=-127).dtype
    torch.qint8
    """

    dtype: torch.dtype | None = None
    quant_min_lower_bound: int | float | None = None
    quant_max_upper_bound: int | float | None = None
    scale_min_lower_bound: int | float | None = None
    scale_max_upper_bound: int | float | None = None
    scale_exact_match: float | None = None
    zero_point_exact_match: int | None = None


@dataclass(init=False)
class DTypeConfig:
    """The dtypes of a pattern's inputs, results, weights and biases; None stands for any.

    Args:
        input_dtype, output_dtype, weight_dtype: a dtype, or one `DTypeWithConstraints`.
        is_dynamic: whether the inputs are quantized by their range.

    >>> import ftorch as torch
    >>> torch.ao.quantization.backend_config.DTypeConfig(torch.quint8, torch.quint8).input_dtype
    torch.quint8
    """

    input_dtype_with_constraints: DTypeWithConstraints
    output_dtype_with_constraints: DTypeWithConstraints
    weight_dtype_with_constraints: DTypeWithConstraints
    bias_dtype: torch.dtype | None
    is_dynamic: bool | None

    def __init__(
        self, input_dtype=None, output_dtype=None, weight_dtype=None, bias_dtype=None, is_dynamic=None
    ) -> None:
        def constrained(dtype):
            return dtype if isinstance(dtype, DTypeWithConstraints) else DTypeWithConstraints(dtype=dtype)

        self.input_dtype_with_constraints = constrained(input_dtype)
        self.output_dtype_with_constraints = constrained(output_dtype)
        self.weight_dtype_with_constraints = constrained(weight_dtype)
        self.bias_dtype = bias_dtype
        self.is_dynamic = is_dynamic

    @property
    def input_dtype(self) -> torch.dtype | None:
        """The inputs' dtype."""
        return self.input_dtype_with_constraints.dtype

    @property
    def output_dtype(self) -> torch.dtype | None:
        """The results' dtype."""
        return self.output_dtype_with_constraints.dtype

    @property
    def weight_dtype(self) -> torch.dtype | None:
        """The weights' dtype."""
        return self.weight_dtype_with_constraints.dtype

    @classmethod
    def from_dict(cls, dtype_config_dict: dict[str, Any]) -> DTypeConfig:
        """Of a dict with the names of the arguments.

        Raises:
            ValueError: for a dtype that is none.
        """
        for name in ("input_dtype", "output_dtype", "weight_dtype"):
            dtype = dtype_config_dict.get(name)
            if dtype is not None and not isinstance(dtype, (torch.dtype, DTypeWithConstraints)):
                raise ValueError("Expected dtype to be a torch.dtype or DTypeWithConstraints, got:" f" {type(dtype)}")
        names = ("input_dtype", "output_dtype", "weight_dtype", "bias_dtype", "is_dynamic")
        return cls(*(dtype_config_dict.get(name) for name in names))

    def to_dict(self) -> dict[str, Any]:
        """What is set, by name."""
        found: dict[str, Any] = {}
        for name in ("input_dtype", "output_dtype", "weight_dtype"):
            if getattr(self, name) is not None:
                found[name] = getattr(self, name + "_with_constraints")
        for name in ("bias_dtype", "is_dynamic"):
            if getattr(self, name):
                found[name] = getattr(self, name)
        return found


class BackendConfig:
    """What a backend can quantize: a `BackendPatternConfig` for each pattern.

    >>> import ftorch as torch
    >>> from ftorch.ao.quantization.backend_config import BackendConfig, BackendPatternConfig
    >>> config = BackendConfig("mine").set_backend_pattern_config(BackendPatternConfig(torch.nn.Linear))
    >>> [c.pattern.__name__ for c in config.configs]
    ['Linear']
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._pattern_complex_format_to_config: dict[Pattern, BackendPatternConfig] = {}

    def __repr__(self) -> str:
        return f"BackendConfig({self.__dict__})"

    def set_name(self, name: str) -> BackendConfig:
        """Names the backend."""
        self.name = name
        return self

    def set_backend_pattern_config(self, config: BackendPatternConfig) -> BackendConfig:
        """Adds a pattern, in place of an equal one."""
        from .utils import _get_pattern_in_reversed_nested_tuple_format

        self._pattern_complex_format_to_config[_get_pattern_in_reversed_nested_tuple_format(config)] = config
        return self

    def set_backend_pattern_configs(self, configs: list[BackendPatternConfig]) -> BackendConfig:
        """Adds patterns."""
        for config in configs:
            self.set_backend_pattern_config(config)
        return self

    @property
    def configs(self) -> list[BackendPatternConfig]:
        """The patterns."""
        return list(self._pattern_complex_format_to_config.values())

    @classmethod
    def from_dict(cls, backend_config_dict: dict[str, Any]) -> BackendConfig:
        """Of a dict with a name and the patterns' configs.

        Raises:
            ValueError: for a config that is neither a dict nor a `BackendPatternConfig`.
        """
        found = cls(backend_config_dict.get("name", ""))
        for config in backend_config_dict.get("configs", []):
            if isinstance(config, dict):
                config = BackendPatternConfig.from_dict(config)
            elif not isinstance(config, BackendPatternConfig):
                raise ValueError('Expected backend_config_dict["configs"] to be a dictionary')
            found.set_backend_pattern_config(config)
        return found

    def to_dict(self) -> dict[str, Any]:
        """The name and the patterns' configs as dicts."""
        return {"name": self.name, "configs": [c.to_dict() for c in self.configs]}


class BackendPatternConfig:
    """What a backend does with a pattern: a module's class, a function, a method's name, or a tuple of such in the order
    of the calls.

    Each setter gives the config back.

    >>> import ftorch as torch
    >>> from ftorch.ao.quantization.backend_config import BackendPatternConfig
    >>> BackendPatternConfig(torch.nn.Linear).set_root_module(torch.nn.Linear).root_module.__name__
    'Linear'
    """

    def __init__(self, pattern: Pattern | None = None) -> None:
        self.pattern: Pattern | None = pattern
        self.observation_type = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
        self.dtype_configs: list[DTypeConfig] = []
        self.root_module: type[torch.nn.Module] | None = None
        self.qat_module: type[torch.nn.Module] | None = None
        self.reference_quantized_module: type[torch.nn.Module] | None = None
        self.fused_module: type[torch.nn.Module] | None = None
        self.fuser_method: Callable | None = None
        self._root_node_getter: Callable | None = None
        self._extra_inputs_getter: Callable | None = None
        self._num_tensor_args_to_observation_type: dict[int, ObservationType] = {}
        self._input_type_to_index: dict[str, int] = {}
        self._pattern_complex_format: Pattern | None = None

    def __repr__(self) -> str:
        nonempty = {
            k: v for k, v in self.__dict__.items()
            if (not isinstance(v, (list, dict)) and v is not None) or (isinstance(v, (list, dict)) and len(v) > 0)
        }
        return f"BackendPatternConfig({nonempty})"

    def set_observation_type(self, observation_type: ObservationType) -> BackendPatternConfig:
        """How inputs and results are observed."""
        self.observation_type = observation_type
        return self

    def add_dtype_config(self, dtype_config: DTypeConfig) -> BackendPatternConfig:
        """Adds dtypes that are possible."""
        self.dtype_configs.append(dtype_config)
        return self

    def set_dtype_configs(self, dtype_configs: list[DTypeConfig]) -> BackendPatternConfig:
        """The dtypes that are possible."""
        self.dtype_configs = dtype_configs
        return self

    def set_root_module(self, root_module) -> BackendPatternConfig:
        """The layer in floating point that has the weights."""
        self.root_module = root_module
        return self

    def set_qat_module(self, qat_module) -> BackendPatternConfig:
        """The layer that trains with rounded weights."""
        self.qat_module = qat_module
        return self

    def set_reference_quantized_module(self, reference_quantized_module) -> BackendPatternConfig:
        """The reference layer with rounded weights."""
        self.reference_quantized_module = reference_quantized_module
        return self

    def set_fused_module(self, fused_module) -> BackendPatternConfig:
        """The layer that the pattern is joined to."""
        self.fused_module = fused_module
        return self

    def set_fuser_method(self, fuser_method) -> BackendPatternConfig:
        """The function that joins the pattern's modules: ``fuser_method(is_qat, *modules)``."""
        self.fuser_method = fuser_method
        return self

    def _set_root_node_getter(self, root_node_getter: Callable) -> BackendPatternConfig:
        self._root_node_getter = root_node_getter
        return self

    def _set_extra_inputs_getter(self, extra_inputs_getter: Callable) -> BackendPatternConfig:
        self._extra_inputs_getter = extra_inputs_getter
        return self

    def _set_num_tensor_args_to_observation_type(self, mapping: dict[int, ObservationType]) -> BackendPatternConfig:
        self._num_tensor_args_to_observation_type = mapping
        return self

    def _set_input_type_to_index(self, input_type_to_index: dict[str, int]) -> BackendPatternConfig:
        self._input_type_to_index = input_type_to_index
        return self

    def _set_pattern_complex_format(self, pattern: Pattern) -> BackendPatternConfig:
        if self.pattern is not None:
            raise ValueError("Only one of 'pattern' or 'pattern_complex_format' can be set")
        self._pattern_complex_format = pattern
        return self

    @classmethod
    def from_dict(cls, backend_pattern_config_dict: dict[str, Any]) -> BackendPatternConfig:
        """Of a dict with PyTorch's keys."""
        given = backend_pattern_config_dict
        found = cls(given.get("pattern"))
        found.observation_type = given.get("observation_type", found.observation_type)
        for dtype_config in given.get("dtype_configs", []):
            if isinstance(dtype_config, dict):
                dtype_config = DTypeConfig.from_dict(dtype_config)
            elif not isinstance(dtype_config, DTypeConfig):
                raise ValueError(
                    "Expected the following dictionary to contain DTypeConfigs or dictionaries, got: "
                    f"{type(dtype_config)}"
                )
            found.add_dtype_config(dtype_config)
        for key, attribute in _KEYS.items():
            if key in given:
                setattr(found, attribute, given[key])
        return found

    def to_dict(self) -> dict[str, Any]:
        """What is set, with PyTorch's keys."""
        found: dict[str, Any] = {
            "observation_type": self.observation_type, "dtype_configs": [c.to_dict() for c in self.dtype_configs],
        }
        if self.pattern is not None:
            found["pattern"] = self.pattern
        for key, attribute in _KEYS.items():
            value = getattr(self, attribute)
            if value is not None and value != {}:
                found[key] = value
        return found


_KEYS = {
    "root_module": "root_module",
    "qat_module": "qat_module",
    "reference_quantized_module_for_root": "reference_quantized_module",
    "fused_module": "fused_module",
    "fuser_method": "fuser_method",
    "root_node_getter": "_root_node_getter",
    "extra_inputs_getter": "_extra_inputs_getter",
    "num_tensor_args_to_observation_type": "_num_tensor_args_to_observation_type",
    "input_type_to_index": "_input_type_to_index",
    "pattern_complex_format": "_pattern_complex_format",
}
