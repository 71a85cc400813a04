"""What of a model is treated apart (``torch.ao.quantization.fx.custom_config``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ftorch.ao.quantization.backend_config import BackendConfig
from ftorch.ao.quantization.qconfig_mapping import QConfigMapping
from ftorch.ao.quantization.quant_type import (
    QuantType,
    _get_quant_type_to_str,
    _quant_type_from_str,
)

__all__ = ["ConvertCustomConfig", "FuseCustomConfig", "PrepareCustomConfig", "StandaloneModuleConfigEntry"]


@dataclass
class StandaloneModuleConfigEntry:
    """How a submodule is quantized that is not traced into."""

    qconfig_mapping: QConfigMapping | None
    example_inputs: tuple[Any, ...]
    prepare_custom_config: PrepareCustomConfig | None
    backend_config: BackendConfig | None


def _of_kind(found, kind, key, dict_name):
    """A config, or the config of a dict, or None.

    Raises:
        ValueError: for other objects.
    """
    if found is None or isinstance(found, kind):
        return found
    if isinstance(found, dict):
        return kind.from_dict(found)
    raise ValueError(f"Expected {kind.__name__} in {dict_name}[\"{key}\"], got '{type(found)}'")


def _mapping_from_dict(given, key, dict_name):
    """{quantization's kind: {class: class}} of a dict whose kinds are texts."""
    found = {}
    for name, mapping in given.get(key, {}).items():
        if isinstance(mapping, dict):
            found[_quant_type_from_str(name)] = dict(mapping)
    return found


def _mapping_to_dict(mapping):
    return {_get_quant_type_to_str(kind): dict(classes) for kind, classes in mapping.items()}


class PrepareCustomConfig:
    """What `prepare_fx` and `prepare_qat_fx` treat apart; each setter gives the config back.

    >>> import ftorch as torch
    >>> from ftorch.ao.quantization.fx.custom_config import PrepareCustomConfig
    >>> PrepareCustomConfig().set_input_quantized_indexes([0]).to_dict()
    {'input_quantized_idxs': [0]}
    """

    def __init__(self) -> None:
        self.standalone_module_names: dict[str, StandaloneModuleConfigEntry] = {}
        self.standalone_module_classes: dict[type, StandaloneModuleConfigEntry] = {}
        self.float_to_observed_mapping: dict[QuantType, dict[type, type]] = {}
        self.non_traceable_module_names: list[str] = []
        self.non_traceable_module_classes: list[type] = []
        self.input_quantized_indexes: list[int] = []
        self.output_quantized_indexes: list[int] = []
        self.preserved_attributes: list[str] = []

    def __repr__(self) -> str:
        nonempty = {k: v for k, v in self.__dict__.items() if len(v) > 0}
        return f"PrepareCustomConfig({nonempty})"

    def set_standalone_module_name(self, module_name, qconfig_mapping, example_inputs, prepare_custom_config,
                                   backend_config) -> PrepareCustomConfig:
        """A submodule that is quantized apart, by name; what is None is the model's."""
        self.standalone_module_names[module_name] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config
        )
        return self

    def set_standalone_module_class(self, module_class, qconfig_mapping, example_inputs, prepare_custom_config,
                                    backend_config) -> PrepareCustomConfig:
        """Submodules that are quantized apart, by class."""
        self.standalone_module_classes[module_class] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config
        )
        return self

    def set_float_to_observed_mapping(self, float_class, observed_class,
                                      quant_type=QuantType.STATIC) -> PrepareCustomConfig:
        """The observed class of a custom module, which has ``from_float``.

        Raises:
            ValueError: for other kinds than static quantization.
        """
        if quant_type != QuantType.STATIC:
            raise ValueError("set_float_to_observed_mapping is currently only supported for static quantization")
        self.float_to_observed_mapping.setdefault(quant_type, {})[float_class] = observed_class
        return self

    def set_non_traceable_module_names(self, module_names: list[str]) -> PrepareCustomConfig:
        """Submodules that are not traced into, by name."""
        self.non_traceable_module_names = module_names
        return self

    def set_non_traceable_module_classes(self, module_classes: list[type]) -> PrepareCustomConfig:
        """Submodules that are not traced into, by class."""
        self.non_traceable_module_classes = module_classes
        return self

    def set_input_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """The inputs that come quantized."""
        self.input_quantized_indexes = indexes
        return self

    def set_output_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """The results that stay quantized."""
        self.output_quantized_indexes = indexes
        return self

    def set_preserved_attributes(self, attributes: list[str]) -> PrepareCustomConfig:
        """The model's attributes that its graph module keeps."""
        self.preserved_attributes = attributes
        return self

    @classmethod
    def from_dict(cls, prepare_custom_config_dict: dict[str, Any]) -> PrepareCustomConfig:
        """Of a dict with PyTorch's keys."""
        given, name = prepare_custom_config_dict, "prepare_custom_config_dict"
        found = cls()
        for key, entries in (("standalone_module_name", found.standalone_module_names),
                             ("standalone_module_class", found.standalone_module_classes)):
            for which, qconfig, inputs, prepare, backend in given.get(key, []):
                entries[which] = StandaloneModuleConfigEntry(
                    _of_kind(qconfig, QConfigMapping, key, name),
                    inputs,
                    _of_kind(prepare, PrepareCustomConfig, key, name),
                    _of_kind(backend, BackendConfig, key, name),
                )
        found.float_to_observed_mapping = _mapping_from_dict(given, "float_to_observed_custom_module_class", name)
        for key, attribute in _PREPARE_KEYS.items():
            setattr(found, attribute, given.get(key, []))
        return found

    def to_dict(self) -> dict[str, Any]:
        """What is set, with PyTorch's keys."""

        def entry(key, value):
            parts = (value.qconfig_mapping, value.prepare_custom_config, value.backend_config)
            qconfig, prepare, backend = (None if p is None else p.to_dict() for p in parts)
            return (key, qconfig, value.example_inputs, prepare, backend)

        found: dict[str, Any] = {}
        for name, entries in (("standalone_module_name", self.standalone_module_names),
                              ("standalone_module_class", self.standalone_module_classes)):
            if entries:
                found[name] = [entry(key, value) for key, value in entries.items()]
        if self.float_to_observed_mapping:
            found["float_to_observed_custom_module_class"] = _mapping_to_dict(self.float_to_observed_mapping)
        return {**found, **{k: getattr(self, a) for k, a in _PREPARE_KEYS.items() if getattr(self, a)}}


_PREPARE_KEYS = {
    "non_traceable_module_name": "non_traceable_module_names",
    "non_traceable_module_class": "non_traceable_module_classes",
    "input_quantized_idxs": "input_quantized_indexes",
    "output_quantized_idxs": "output_quantized_indexes",
    "preserved_attributes": "preserved_attributes",
}


class ConvertCustomConfig:
    """What `convert_fx` treats apart; each setter gives the config back."""

    def __init__(self) -> None:
        self.observed_to_quantized_mapping: dict[QuantType, dict[type, type]] = {}
        self.preserved_attributes: list[str] = []

    def __repr__(self) -> str:
        nonempty = {k: v for k, v in self.__dict__.items() if len(v) > 0}
        return f"ConvertCustomConfig({nonempty})"

    def set_observed_to_quantized_mapping(self, observed_class, quantized_class,
                                          quant_type=QuantType.STATIC) -> ConvertCustomConfig:
        """The quantized class of an observed custom module, which has ``from_observed``."""
        self.observed_to_quantized_mapping.setdefault(quant_type, {})[observed_class] = quantized_class
        return self

    def set_preserved_attributes(self, attributes: list[str]) -> ConvertCustomConfig:
        """The model's attributes that its graph module keeps."""
        self.preserved_attributes = attributes
        return self

    @classmethod
    def from_dict(cls, convert_custom_config_dict: dict[str, Any]) -> ConvertCustomConfig:
        """Of a dict with PyTorch's keys."""
        found = cls()
        found.observed_to_quantized_mapping = _mapping_from_dict(
            convert_custom_config_dict, "observed_to_quantized_custom_module_class", "convert_custom_config_dict"
        )
        found.preserved_attributes = convert_custom_config_dict.get("preserved_attributes", [])
        return found

    def to_dict(self) -> dict[str, Any]:
        """What is set, with PyTorch's keys."""
        found: dict[str, Any] = {}
        if self.observed_to_quantized_mapping:
            found["observed_to_quantized_custom_module_class"] = _mapping_to_dict(self.observed_to_quantized_mapping)
        if self.preserved_attributes:
            found["preserved_attributes"] = self.preserved_attributes
        return found


class FuseCustomConfig:
    """What `fuse_fx` treats apart."""

    def __init__(self) -> None:
        self.preserved_attributes: list[str] = []

    def __repr__(self) -> str:
        nonempty = {k: v for k, v in self.__dict__.items() if len(v) > 0}
        return f"FuseCustomConfig({nonempty})"

    def set_preserved_attributes(self, attributes: list[str]) -> FuseCustomConfig:
        """The model's attributes that its graph module keeps."""
        self.preserved_attributes = attributes
        return self

    @classmethod
    def from_dict(cls, fuse_custom_config_dict: dict[str, Any]) -> FuseCustomConfig:
        """Of a dict with PyTorch's keys."""
        return cls().set_preserved_attributes(fuse_custom_config_dict.get("preserved_attributes", []))

    def to_dict(self) -> dict[str, Any]:
        """What is set, with PyTorch's keys."""
        return {"preserved_attributes": self.preserved_attributes} if self.preserved_attributes else {}
