"""Which QConfig for which part of a model (``torch.ao.quantization.qconfig_mapping``)."""

from __future__ import annotations

from collections import OrderedDict

import ftorch as torch

from .fake_quantize import FixedQParamsFakeQuantize, default_weight_fake_quant
from .observer import _PartialWrapper, default_placeholder_observer, default_weight_observer
from .qconfig import (
    QConfig,
    QConfigAny,
    default_quint8_weight_qconfig,
    default_reuse_input_qconfig,
    get_default_qat_qconfig,
    get_default_qconfig,
)

__all__ = ["QConfigMapping", "get_default_qat_qconfig_mapping", "get_default_qconfig_mapping"]

_GLOBAL, _TYPE, _REGEX, _NAME, _ORDER = (
    "", "object_type", "module_name_regex", "module_name", "module_name_object_type_order",
)


_QCONFIG_STYLE_ORDER = ["global_qconfig", "object_type_qconfigs", "module_name_regex_qconfigs", "module_name_qconfigs",
                        "module_name_object_type_order_qconfigs"]


class QConfigMapping:
    """Which QConfig for which part of a model: by order, by name, by pattern of names, by type, for all.

    >>> import ftorch as torch
    >>> q = torch.ao.quantization
    >>> q.QConfigMapping().set_global(q.default_qconfig).set_module_name("head", None).to_dict()["module_name"]
    [('head', None)]
    """

    def __init__(self) -> None:
        self.global_qconfig: QConfigAny = None
        self.object_type_qconfigs: OrderedDict = OrderedDict()
        self.module_name_regex_qconfigs: OrderedDict[str, QConfigAny] = OrderedDict()
        self.module_name_qconfigs: OrderedDict[str, QConfigAny] = OrderedDict()
        self.module_name_object_type_order_qconfigs: OrderedDict = OrderedDict()

    def set_global(self, global_qconfig: QConfigAny) -> QConfigMapping:
        """The QConfig of everything else."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type, qconfig: QConfigAny) -> QConfigMapping:
        """The QConfig of a module's class, a function, or a method's name."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex: str, qconfig: QConfigAny) -> QConfigMapping:
        """The QConfig of modules whose names match."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name: str, qconfig: QConfigAny) -> QConfigMapping:
        """The QConfig of a module."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(self, module_name, object_type, index, qconfig) -> QConfigMapping:
        """The QConfig of the so manieth call of a type in a module."""
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for name in ("global_qconfig", "object_type_qconfigs", "module_name_regex_qconfigs", "module_name_qconfigs",
                     "module_name_object_type_order_qconfigs"):
            value = getattr(self, name)
            if isinstance(value, OrderedDict) and value:
                lines.append(f" {name}" + "".join(f"\n  {k}: {v}" for k, v in value.items()))
            else:
                lines.append(f" {name}\n  {value}")
        return "\n".join(lines) + "\n)"

    def to_dict(self) -> dict:
        """The older form."""
        return {
            _GLOBAL: self.global_qconfig, _TYPE: list(self.object_type_qconfigs.items()),
            _REGEX: list(self.module_name_regex_qconfigs.items()), _NAME: list(self.module_name_qconfigs.items()),
            _ORDER: [(*k, v) for k, v in self.module_name_object_type_order_qconfigs.items()],
        }

    @classmethod
    def from_dict(cls, qconfig_dict: dict) -> QConfigMapping:
        """The mapping of the older form."""
        made = cls()
        if _GLOBAL in qconfig_dict:
            made.set_global(qconfig_dict[_GLOBAL])
        for key, put in ((_TYPE, made.set_object_type), (_REGEX, made.set_module_name_regex),
                         (_NAME, made.set_module_name), (_ORDER, made.set_module_name_object_type_order)):
            for entry in qconfig_dict.get(key, []):
                put(*entry)
        return made


def _with_fixed_ranges(mapping, weight):
    """Functions whose results have a known range get its quantizer."""
    from .quantization_mappings import DEFAULT_MODULE_TO_ACT_POST_PROCESS

    functions = {
        torch.nn.Hardsigmoid: (torch.nn.functional.hardsigmoid, "hardsigmoid", "hardsigmoid_"),
        torch.nn.Sigmoid: (torch.sigmoid, "sigmoid", "sigmoid_"),
        torch.nn.Softmax: (), torch.nn.Tanh: (torch.tanh, "tanh", "tanh_"),
    }
    by_observer = {}
    for module, process in DEFAULT_MODULE_TO_ACT_POST_PROCESS.items():
        key = id(process)
        if key not in by_observer:
            activation = process if weight is default_weight_fake_quant else _observer_of(process)
            by_observer[key] = QConfig(activation=activation, weight=weight)
        for entry in (module, *functions.get(module, ())):
            mapping.set_object_type(entry, by_observer[key])
    return mapping


def _observer_of(process):
    if isinstance(process, _PartialWrapper) and process.p.func is FixedQParamsFakeQuantize:
        return process.p.keywords["observer"]
    return process


def _mapping(is_qat, backend, version, qconfig=None):
    if qconfig is None:
        qconfig = (get_default_qat_qconfig if is_qat else get_default_qconfig)(backend, version)
    weight = default_weight_fake_quant if is_qat else default_weight_observer
    # The engines of these names have no transposed convolutions with a scale for each channel.
    transposed = QConfig(qconfig.activation, weight) if backend in ("fbgemm", "x86") else qconfig
    layer_norm = QConfig(activation=qconfig.activation, weight=default_placeholder_observer)
    mapping = QConfigMapping().set_global(qconfig).set_object_type("reshape", default_reuse_input_qconfig)
    for entry in (torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d,
                  torch.nn.functional.conv_transpose1d, torch.nn.functional.conv_transpose2d,
                  torch.nn.functional.conv_transpose3d):
        mapping.set_object_type(entry, transposed)
    for entry in (torch.nn.functional.layer_norm, torch.nn.LayerNorm):
        mapping.set_object_type(entry, layer_norm)
    mapping.set_object_type(torch.nn.PReLU, default_quint8_weight_qconfig)
    return _with_fixed_ranges(mapping, weight)


def get_default_qconfig_mapping(backend="x86", version=0) -> QConfigMapping:
    """The mapping for quantization after training, for a quantized engine."""
    return _mapping(False, backend, version)


def get_default_qat_qconfig_mapping(backend="x86", version=1) -> QConfigMapping:
    """The mapping for training with quantization in mind, for a quantized engine."""
    return _mapping(True, backend, version)
