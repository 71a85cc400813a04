"""Helpers of quantization (``torch.ao.quantization.utils``)."""

from __future__ import annotations

import warnings
from typing import Any

import ftorch as torch

NodePattern = Any
QuantizerCls = Any
Pattern = Any
NodeType = Any
EdgeOrNode = Any


DEPRECATION_WARNING = (
    "torch.ao.quantization is deprecated and will be removed in 2.10. \n"
    "For migrations of users: \n"
    "1. Eager mode quantization (torch.ao.quantization.quantize, torch.ao.quantization.quantize_dynamic), please migrate to "
    "use torchao eager mode quantize_ API instead \n"
    "2. FX graph mode quantization (torch.ao.quantization.quantize_fx.prepare_fx,torch.ao.quantization.quantize_fx.convert_fx, "
    "please migrate to use torchao pt2e quantization API instead (prepare_pt2e, convert_pt2e) \n"
    "3. pt2e quantization has been migrated to torchao (https://github.com/pytorch/ao/tree/main/torchao/quantization/pt2e) \n"
    "see https://github.com/pytorch/ao/issues/2259 for more details"
)


class MatchAllNode:
    """A pattern's node that matches every node."""


MATCH_ALL = MatchAllNode


def get_combined_dict(default_dict, additional_dict):
    """A dict of both; the second has precedence.

    >>> get_combined_dict({"a": 1, "b": 1}, {"b": 2})
    {'a': 1, 'b': 2}
    """
    return {**default_dict, **additional_dict}


def is_per_tensor(qscheme):
    """Whether a scheme has one scale."""
    return qscheme in (torch.per_tensor_affine, torch.per_tensor_symmetric)


def is_per_channel(qscheme):
    """Whether a scheme has a scale for each channel."""
    return qscheme in (
        torch.per_channel_affine, torch.per_channel_affine_float_qparams, torch.per_channel_symmetric,
    )


def getattr_from_fqn(obj: Any, fqn: str) -> Any:
    """The attribute that a path with points leads to."""
    for name in fqn.split("."):
        obj = getattr(obj, name)
    return obj


def to_underlying_dtype(qdtype):
    """The dtype that a quantized dtype keeps its integers in."""
    return {
        torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32, torch.quint4x2: torch.uint8,
        torch.quint2x4: torch.uint8, torch.uint8: torch.uint8, torch.int8: torch.int8, torch.uint16: torch.uint16,
        torch.int16: torch.int16, torch.int32: torch.int32, torch.float8_e5m2: torch.float8_e5m2,
        torch.float8_e4m3fn: torch.float8_e4m3fn,
    }[qdtype]


_QUANTIZED_INPUTS = (
    torch.quint8, torch.qint8, torch.qint32, torch.uint8, torch.int8, torch.uint16, torch.int16, torch.int32,
    torch.float8_e5m2, torch.float8_e4m3fn,
)


def activation_dtype(qconfig):
    """The dtype of activations that a QConfig asks for."""
    return qconfig.activation().dtype


def weight_dtype(qconfig):
    """The dtype of weights that a QConfig asks for."""
    return qconfig.weight().dtype


def activation_is_statically_quantized(qconfig):
    """Whether activations are quantized with a quantizer that is known before."""
    process = qconfig.activation()
    return process.dtype in (*_QUANTIZED_INPUTS, torch.float16) and not getattr(process, "is_dynamic", False)


def activation_is_dynamically_quantized(qconfig):
    """Whether activations are quantized by the range of each."""
    return getattr(qconfig.activation(), "is_dynamic", False)


def activation_is_int8_quantized(qconfig):
    """Whether activations have eight bits."""
    return activation_dtype(qconfig) in (torch.quint8, torch.qint8, torch.uint8, torch.int8)


def activation_is_int32_quantized(qconfig):
    """Whether activations have 32 bits."""
    return activation_dtype(qconfig) in (torch.qint32, torch.int32)


def weight_is_quantized(qconfig):
    """Whether weights are quantized, or rounded to half precision."""
    return weight_dtype(qconfig) in (*_QUANTIZED_INPUTS, torch.float16, torch.quint4x2)


def weight_is_statically_quantized(qconfig):
    """Whether weights are quantized to integers of eight bits."""
    return weight_dtype(qconfig) in (torch.quint8, torch.qint8, torch.uint8, torch.int8)


def op_is_int8_dynamically_quantized(qconfig) -> bool:
    """Whether activations of eight bits are quantized by their range, and the weights are quantized."""
    process = qconfig.activation()
    return (process.dtype in (torch.quint8, torch.uint8) and getattr(process, "is_dynamic", False)
            and weight_dtype(qconfig) in (torch.qint8, torch.int8))


def get_qconfig_dtypes(qconfig):
    """(activation's dtype, weight's dtype, whether activations are dynamic)."""
    process = qconfig.activation()
    return process.dtype, weight_dtype(qconfig), getattr(process, "is_dynamic", False)


def get_quant_type(qconfig):
    """How a QConfig quantizes: statically, dynamically, weights only.

    Raises:
        Exception: for combinations that are none of these.
    """
    from .quant_type import QuantType

    activation, weight = qconfig.activation(), weight_dtype(qconfig)
    if weight in (*_QUANTIZED_INPUTS, torch.quint4x2):
        if getattr(activation, "is_dynamic", False):
            return QuantType.DYNAMIC
        return QuantType.STATIC if activation.dtype in _QUANTIZED_INPUTS else QuantType.WEIGHT_ONLY
    if weight is torch.float16:
        if getattr(activation, "is_dynamic", False):
            return QuantType.DYNAMIC
        if activation.dtype is torch.float16:
            return QuantType.STATIC
    raise Exception(  # noqa: TRY002
        f"Unrecognized dtype combination in get_quant_type: activation({activation.dtype}),weight({weight})"
    )


def _parent_name(target: str) -> tuple[str, str]:
    """(path of the parent, last name) of a path."""
    parent, _, name = target.rpartition(".")
    return parent, name


def check_min_max_valid(min_val: torch.Tensor, max_val: torch.Tensor) -> bool:
    """Whether a range was seen.

    Raises:
        AssertionError: if the least number is above the largest.
    """
    if min_val.numel() == 0 or max_val.numel() == 0:
        warnings.warn("must run observer before calling calculate_qparams. Returning default values.", stacklevel=2)
        return False
    if min_val.dim() == 0 or max_val.dim() == 0:
        if min_val == float("inf") and max_val == float("-inf"):
            warnings.warn("must run observer before calling calculate_qparams. Returning default values.", stacklevel=2)
            return False
        if bool(min_val > max_val):  # NaN passes
            raise AssertionError(f"min {min_val} should be less than max {max_val}")
    elif bool(torch.any(min_val > max_val)):
        raise AssertionError(f"min {min_val} should be less than max {max_val}")
    return True


_RANGES = {
    torch.qint8: (-128, 127), torch.int8: (-128, 127), torch.quint8: (0, 255), torch.uint8: (0, 255),
    torch.qint32: (-(2**31), 2**31 - 1), torch.int32: (-(2**31), 2**31 - 1), torch.uint16: (0, 2**16 - 1),
    torch.int16: (-(2**15), 2**15 - 1),
}


def calculate_qmin_qmax(quant_min, quant_max, has_customized_qrange, dtype, reduce_range):
    """(least, largest) integer: those given, or the dtype's; half of them with ``reduce_range``."""
    if has_customized_qrange:
        length = quant_max - quant_min + 1
        if dtype in (torch.qint8, torch.int8) and not 0 < length <= 256:
            raise AssertionError("quantization range should be positive and not exceed the maximum bit range (=256).")
        if dtype in (torch.qint32, torch.int32) and not 0 < length <= 2**32:
            raise AssertionError(
                "quantization range should be positive and not exceed the maximum bit range (=4294967296)."
            )
        return (quant_min // 2, quant_max // 2) if reduce_range else (quant_min, quant_max)
    low, high = _RANGES.get(dtype, (0, 15))
    if reduce_range and dtype in (torch.qint8, torch.int8, torch.quint8, torch.uint8):
        return low // 2, high // 2
    return low, high


def validate_qmin_qmax(quant_min: int, quant_max: int) -> None:
    """Raises AssertionError unless the integers are in order and hold zero."""
    if not quant_min <= 0 <= quant_max:
        raise AssertionError("Used-specified quantization range must include 0.")
    if not quant_min < quant_max:
        raise AssertionError("qmin must be strictly less than qmax for user-specified quantization range.")


def determine_qparams(min_val, max_val, quant_min, quant_max, dtype, eps, has_customized_qrange,
                      qscheme=torch.per_tensor_affine):
    """(scale, zero_point) of a range: see `UniformQuantizationObserverBase`."""
    from .observer import MinMaxObserver, PerChannelMinMaxObserver

    kind = MinMaxObserver if is_per_tensor(qscheme) else PerChannelMinMaxObserver
    observer = kind(dtype=dtype, qscheme=qscheme)
    observer.quant_min, observer.quant_max = quant_min, quant_max
    observer.has_customized_qrange, observer.eps = has_customized_qrange, eps
    scale, zero_point = observer._calculate_qparams(min_val, max_val)
    return scale.to(torch.double), zero_point.to(torch.int64)




def has_no_children_ignoring_parametrizations(module):
    """Whether a module has no children but its parametrizations."""
    return len(module._modules) == 0 or (
        len(module._modules) == 1 and "parametrizations" in module._modules
    )


def get_qparam_dict(observer_or_fake_quant) -> dict[str, Any]:
    """What an observer knows: scheme (without symmetry), dtype, scale, zero point, axis, and bounds.

    Raises:
        RuntimeError: for other schemes.
    """
    from .observer import PlaceholderObserver

    observer, dtype = observer_or_fake_quant, observer_or_fake_quant.dtype
    qscheme = getattr(observer, "qscheme", None)
    if not qscheme or isinstance(observer, PlaceholderObserver):
        return {"qscheme": None, "dtype": dtype}
    found: dict[str, Any] = {"qscheme": torch.per_tensor_affine, "dtype": dtype}
    if is_per_channel(qscheme):
        found["axis"] = observer.ch_axis
        found["qscheme"] = torch.per_channel_affine if qscheme is torch.per_channel_symmetric else qscheme
    elif not is_per_tensor(qscheme):
        raise RuntimeError(f"Unrecognized qscheme: {qscheme}")
    found["scale"], found["zero_point"] = observer.calculate_qparams()
    for name in ("quant_min", "quant_max"):
        if hasattr(observer, name):
            found[name] = getattr(observer, name)
    return found


def get_swapped_custom_module_class(custom_module, custom_module_class_mapping, qconfig):
    """The class that takes the place of a custom module.

    Raises:
        AssertionError: if there is none.
    """
    mapping = custom_module_class_mapping.get(get_quant_type(qconfig), {})
    if type(custom_module) not in mapping:
        raise AssertionError(
            f"did not find corresponding observed module class for {type(custom_module)} in mapping: {mapping}"
        )
    return mapping[type(custom_module)]


def _assert_and_get_unique_device(module) -> Any:
    devices = {p.device for p in module.parameters()} | {b.device for b in module.buffers()}
    if len(devices) > 1:
        raise AssertionError(f"prepare only works with cpu or single-device CUDA modules, but got devices {devices}")
    return next(iter(devices), None)


def _normalize_kwargs(func, loc):
    import inspect

    known = inspect.signature(func).parameters
    return {k: v for k, v in loc.items() if k in known}
