"""How a layer is to be quantized (``torch.ao.quantization.qconfig``)."""

from __future__ import annotations

import collections
import copy
import warnings
from typing import Any

import ftorch as torch
from ftorch import nn

from . import fake_quantize as fq
from . import observer as ob
from .fake_quantize import (  # noqa: F401  some are only for those who ask this module
    FakeQuantize,
    FakeQuantizeBase,
    FusedMovingAvgObsFakeQuantize,
    default_dynamic_fake_quant,
    default_embedding_fake_quant,
    default_embedding_fake_quant_4bit,
    default_fake_quant,
    default_fused_act_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_per_channel_weight_fake_quant,
    default_weight_fake_quant,
    fused_per_channel_wt_fake_quant_range_neg_127_to_127,
    fused_wt_fake_quant_range_neg_127_to_127,
)
from .observer import (  # noqa: F401
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    NoopObserver,
    ObserverBase,
    PlaceholderObserver,
    ReuseInputObserver,
    default_debug_observer,
    default_dynamic_quant_observer,
    default_float_qparams_observer,
    default_float_qparams_observer_4bit,
    default_observer,
    default_per_channel_weight_observer,
    default_placeholder_observer,
    default_reuse_input_observer,
    default_weight_observer,
    per_channel_weight_observer_range_neg_127_to_127,
    weight_observer_range_neg_127_to_127,
)

__all__ = [
    "QConfig", "QConfigAny", "QConfigDynamic", "default_activation_only_qconfig", "default_debug_qconfig",
    "default_dynamic_qat_qconfig", "default_dynamic_qconfig", "default_embedding_qat_qconfig",
    "default_embedding_qat_qconfig_4bit", "default_per_channel_qconfig",
    "default_per_channel_symmetric_qnnpack_qat_qconfig", "default_per_channel_symmetric_qnnpack_qconfig",
    "default_qat_qconfig", "default_qat_qconfig_v2", "default_qconfig", "default_quint8_weight_qconfig",
    "default_reuse_input_qconfig", "default_symmetric_qnnpack_qat_qconfig", "default_symmetric_qnnpack_qconfig",
    "default_weight_only_qconfig", "float16_dynamic_qconfig", "float16_static_qconfig",
    "float_qparams_weight_only_qconfig", "float_qparams_weight_only_qconfig_4bit", "get_default_qat_qconfig",
    "get_default_qat_qconfig_dict", "get_default_qconfig", "get_default_qconfig_dict", "per_channel_dynamic_qconfig",
    "qconfig_equals",
]


class QConfig(collections.namedtuple("QConfig", ["activation", "weight"])):
    """Observers of a layer's results and weights: classes, or functions without arguments that make them.

    Raises:
        ValueError: if one is a module rather than its class.
    """

    __slots__ = ()

    def __new__(cls, activation, weight):
        if isinstance(activation, nn.Module) or isinstance(weight, nn.Module):
            raise ValueError(
                "QConfig received observer instance, please pass observer class instead. Use "
                "MyObserver.with_args(x=1) to override arguments to constructor if needed"
            )
        return super().__new__(cls, activation, weight)


class QConfigDynamic(collections.namedtuple("QConfigDynamic", ["activation", "weight"])):
    """The older name of a `QConfig` for dynamic quantization."""

    __slots__ = ()

    def __new__(cls, activation=torch.nn.Identity, weight=torch.nn.Identity):
        if isinstance(weight, nn.Module):
            raise ValueError(
                "QConfigDynamic received observer instance, please pass observer class instead. Use "
                "MyObserver.with_args(x=1) to override arguments to constructor if needed"
            )
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig | None

default_qconfig = QConfig(ob.default_observer, ob.default_weight_observer)
default_debug_qconfig = QConfig(weight=ob.default_weight_observer, activation=ob.default_debug_observer)
default_per_channel_qconfig = QConfig(ob.default_observer, ob.default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(ob.default_dynamic_quant_observer, ob.default_weight_observer)
float16_dynamic_qconfig = QConfig(
    activation=PlaceholderObserver.with_args(dtype=torch.float16, is_dynamic=True),
    weight=PlaceholderObserver.with_args(dtype=torch.float16),
)
float16_static_qconfig = QConfig(
    activation=PlaceholderObserver.with_args(dtype=torch.float16),
    weight=PlaceholderObserver.with_args(dtype=torch.float16),
)
per_channel_dynamic_qconfig = QConfig(ob.default_dynamic_quant_observer, ob.default_per_channel_weight_observer)
float_qparams_weight_only_qconfig = QConfig(ob.default_placeholder_observer, ob.default_float_qparams_observer)
float_qparams_weight_only_qconfig_4bit = QConfig(
    ob.default_placeholder_observer, ob.default_float_qparams_observer_4bit
)
default_qat_qconfig = QConfig(fq.default_fake_quant, fq.default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(fq.default_dynamic_fake_quant, fq.default_weight_fake_quant)
default_weight_only_qconfig = QConfig(torch.nn.Identity, fq.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(fq.default_fake_quant, torch.nn.Identity)
default_qat_qconfig_v2 = QConfig(fq.default_fused_act_fake_quant, fq.default_fused_wt_fake_quant)
default_reuse_input_qconfig = QConfig(ob.default_reuse_input_observer, NoopObserver)
default_quint8_weight_qconfig = QConfig(HistogramObserver, ob.MinMaxObserver)
default_embedding_qat_qconfig = QConfig(
    NoopObserver.with_args(dtype=torch.float32), fq.default_embedding_fake_quant
)
default_embedding_qat_qconfig_4bit = QConfig(
    NoopObserver.with_args(dtype=torch.float32), fq.default_embedding_fake_quant_4bit
)

_QNNPACK = {"dtype": torch.qint8, "reduce_range": False, "eps": 2**-12}
_QNNPACK_QAT = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, **_QNNPACK
)
default_symmetric_qnnpack_qconfig = QConfig(
    HistogramObserver.with_args(**_QNNPACK), ob.weight_observer_range_neg_127_to_127
)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(
    HistogramObserver.with_args(**_QNNPACK), ob.per_channel_weight_observer_range_neg_127_to_127
)
default_symmetric_qnnpack_qat_qconfig = QConfig(_QNNPACK_QAT, fq.fused_wt_fake_quant_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    _QNNPACK_QAT, fq.fused_per_channel_wt_fake_quant_range_neg_127_to_127
)

#: what stands for values that are not quantized, and for those that come quantized
_default_fp32_placeholder_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=torch.float32), PlaceholderObserver.with_args(dtype=torch.float32)
)
_default_quint8_placeholder_qconfig = QConfig(PlaceholderObserver.with_args(dtype=torch.quint8), None)


def _unknown(backend):
    return AssertionError(
        f"backend: {backend} not supported. backend must be one of ['fbgemm', 'x86', 'qnnpack', 'onednn']"
    )


def get_default_qconfig(backend="x86", version=0):
    """The `QConfig` for quantization after training, for a quantized engine.

    Raises:
        AssertionError: for other engines and versions.
    """
    if backend not in ("fbgemm", "x86", "qnnpack", "onednn"):
        raise _unknown(backend)
    if version != 0:
        raise AssertionError(
            f"Version number: {version} in get_default_qconfig is not supported. Version number must be 0"
        )
    reduced = backend in ("fbgemm", "x86")
    weight = ob.default_weight_observer if backend == "qnnpack" else ob.default_per_channel_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=reduced), weight)


def get_default_qat_qconfig(backend="x86", version=1):
    """The `QConfig` for training with quantization in mind, for a quantized engine.

    Args:
        version: 0 for separate observers and fake quantizers, 1 for fused ones.

    Raises:
        AssertionError: for other engines and versions.
    """
    if backend not in ("fbgemm", "x86", "qnnpack", "onednn"):
        raise _unknown(backend)
    if version not in (0, 1):
        raise AssertionError(
            f"Version number: {version}in get_default_qat_qconfig is not supported. Version number must be 0 or 1"
        )
    fused = version == 1
    kind = FusedMovingAvgObsFakeQuantize if fused else FakeQuantize
    options: dict[str, Any] = {"observer": MovingAverageMinMaxObserver, "quant_min": 0, "quant_max": 255}
    if backend in ("fbgemm", "x86"):
        options["reduce_range"] = True
    elif backend == "qnnpack":
        options["reduce_range"] = False
    if backend == "qnnpack":
        weight = fq.default_fused_wt_fake_quant if fused else fq.default_weight_fake_quant
    else:
        weight = (
            fq.default_fused_per_channel_wt_fake_quant if fused else fq.default_per_channel_weight_fake_quant
        )
    return QConfig(kind.with_args(**options), weight)


def get_default_qconfig_dict(backend="x86", version=0):
    """`get_default_qconfig_mapping` as a dict, the older form."""
    warnings.warn(
        "torch.ao.quantization.get_default_qconfig_dict is deprecated and will be removed in a future version. "
        "Please use torch.ao.quantization.get_default_qconfig_mapping instead.",
        FutureWarning,
        stacklevel=2,
    )
    from .qconfig_mapping import get_default_qconfig_mapping

    return get_default_qconfig_mapping(backend, version).to_dict()


def get_default_qat_qconfig_dict(backend="x86", version=1):
    """`get_default_qat_qconfig_mapping` as a dict, the older form."""
    warnings.warn(
        "torch.ao.quantization.get_default_qat_qconfig_dict is deprecated and will be removed in a future "
        "version. Please use torch.ao.quantization.get_default_qat_qconfig_mapping instead.",
        FutureWarning,
        stacklevel=2,
    )
    from .qconfig_mapping import get_default_qat_qconfig_mapping

    return get_default_qat_qconfig_mapping(backend, version).to_dict()


def _assert_valid_qconfig(qconfig, mod) -> None:
    """Raises AssertionError for weights with a scale for each channel where they are not supported."""
    if qconfig is None:
        return
    if isinstance(mod, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)):
        if qconfig.weight is None:
            return
        example = qconfig.weight()
        if isinstance(example, (ob.PerChannelMinMaxObserver, ob.MovingAveragePerChannelMinMaxObserver)):
            raise AssertionError("Per channel weight observer is not supported yet for ConvTranspose{n}d.")


def _add_module_to_qconfig_obs_ctr(qconfig, module):
    """A QConfig whose observers are made on the module's device."""
    if module is None or qconfig is None or qconfig._fields != ("activation", "weight"):
        return qconfig

    def factory_kwargs():
        devices = {p.device for p in module.parameters()} | {b.device for b in module.buffers()}
        return None if len(devices) != 1 else {"device": next(iter(devices))}

    def with_factory(constructor):
        if not hasattr(constructor, "with_callable_args"):
            return constructor
        try:
            made = constructor.with_callable_args(factory_kwargs=factory_kwargs)
            made()
        except (AttributeError, TypeError):
            return constructor
        return made

    return type(qconfig)(with_factory(qconfig.activation), with_factory(qconfig.weight))


def _partial_wrapper_equals(obs_or_fq1, obs_or_fq2):
    """Whether two constructors have the same class and arguments."""
    first, second = copy.copy(obs_or_fq1.p.keywords), copy.copy(obs_or_fq2.p.keywords)
    same = True
    if "observer" in first and "observer" in second:
        same = _obs_or_fq_ctr_equals(first.pop("observer"), second.pop("observer"))
    return first == second and obs_or_fq1.p.func == obs_or_fq2.p.func and same


def _obs_or_fq_ctr_equals(first, second):
    if isinstance(first, ob._PartialWrapper) and isinstance(second, ob._PartialWrapper):
        return _partial_wrapper_equals(first, second)
    return first == second


def qconfig_equals(q1: QConfigAny, q2: QConfigAny):
    """Whether two `QConfig` s make the same observers."""
    if q1 is None or q2 is None:
        return q1 == q2
    try:
        return (_obs_or_fq_ctr_equals(q1.activation, q2.activation)
                and _obs_or_fq_ctr_equals(q1.weight, q2.weight))
    except AttributeError:
        return q1 == q2


def _activation_is_memoryless(qconfig: QConfig):
    """Whether the activation's observer forgets what it saw before."""

    def forgets(observer):
        return getattr(observer, "averaging_constant", None) == 1

    process = qconfig.activation()
    if isinstance(process, FakeQuantizeBase) and hasattr(process, "activation_post_process"):
        return forgets(process.activation_post_process)
    return forgets(process)


def _is_reuse_input_qconfig(qconfig: QConfig | None):
    return (qconfig is not None and isinstance(qconfig.activation(), ob.ReuseInputObserver)
            and isinstance(qconfig.weight(), NoopObserver))
