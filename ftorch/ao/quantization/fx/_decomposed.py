"""Quantization of tensors to tensors of integers (``torch.ops.quantized_decomposed``)."""

from __future__ import annotations

import ftorch as torch
from ftorch.ao.quantization.utils import determine_qparams, validate_qmin_qmax
from ftorch.library import Library

quantized_decomposed_lib = Library("quantized_decomposed", "DEF")

_BOUNDS = {
    torch.uint8: (0, 255), torch.int8: (-128, 127), torch.uint16: (0, 2**16 - 1), torch.int16: (-(2**15), 2**15 - 1),
    torch.int32: (-(2**31), 2**31 - 1), torch.float8_e5m2: (-57344.0, 57344.0), torch.float8_e4m3fn: (-448.0, 448.0),
}
_HALVES = (torch.float16, torch.bfloat16)


def _operator(schema):
    """Makes a function the operator of a schema."""

    def register(function):
        quantized_decomposed_lib.define(schema)
        name = schema.partition("(")[0]
        quantized_decomposed_lib.impl(name, function, "CompositeExplicitAutograd")
        return function

    return register


def _check_bounds(quant_min, quant_max, dtype) -> None:
    if dtype not in _BOUNDS:
        raise ValueError(f"Unsupported dtype: {dtype}")
    low, high = _BOUNDS[dtype]
    if quant_min < low or quant_max > high:
        raise AssertionError(
            f"quant_min/quant_max out of bound for dtype, quant_min/quant_max: {quant_min}/{quant_max} "
            f"lower/upper bound: {low}/{high}"
        )


def _as_float32(input):
    input = input.to(torch.float32) if input.dtype in _HALVES else input
    if input.dtype is not torch.float32:
        raise AssertionError(f"Expecting input to have dtype torch.float32, but got dtype: {input.dtype}")
    return input


def _check_integers(input, dtype) -> None:
    if input.dtype is not dtype:
        raise AssertionError(f"Expecting input to have dtype: {dtype}, but got {input.dtype}")


_BOUNDED = "int quant_min, int quant_max, ScalarType dtype"
_OUT = "ScalarType? out_dtype=None"


@_operator(f"quantize_per_tensor(Tensor input, float scale, int zero_point, {_BOUNDED}) -> Tensor")
def quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype):
    """Integers of a tensor: round(input / scale) + zero_point, between two bounds."""
    input = _as_float32(input)
    _check_bounds(quant_min, quant_max, dtype)
    return torch.clamp(torch.round(input * (1.0 / scale)) + zero_point, quant_min, quant_max).to(dtype)


@_operator(f"quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, {_BOUNDED}) -> Tensor")
def quantize_per_tensor_tensor(input, scale, zero_point, quant_min, quant_max, dtype):
    """`quantize_per_tensor` by tensors of one element."""
    return quantize_per_tensor(input, scale.item(), zero_point.item(), quant_min, quant_max, dtype)


@_operator("quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, "
           "Tensor quant_max, ScalarType dtype) -> Tensor")
def quantize_per_tensor_tensor2(input, scale, zero_point, quant_min, quant_max, dtype):
    """`quantize_per_tensor` by tensors of one element, bounds too."""
    return quantize_per_tensor(input, *(v.item() for v in (scale, zero_point, quant_min, quant_max)), dtype)


@_operator(f"dequantize_per_tensor(Tensor input, float scale, int zero_point, {_BOUNDED}, *, {_OUT}) -> Tensor")
def dequantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, *, out_dtype=None):
    """Numbers of integers: (input - zero_point) * scale."""
    _check_integers(input, dtype)
    if dtype not in _BOUNDS:
        raise ValueError(f"Unsupported dtype in dequantize_per_tensor: {dtype}")
    return (input.to(out_dtype or torch.float32) - zero_point) * scale


@_operator(
    f"dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, {_BOUNDED}, *, {_OUT}) -> Tensor"
)
def dequantize_per_tensor_tensor(input, scale, zero_point, quant_min, quant_max, dtype, *, out_dtype=None):
    """`dequantize_per_tensor` by tensors of one element."""
    return dequantize_per_tensor(
        input, scale.item(), zero_point.item(), quant_min, quant_max, dtype, out_dtype=out_dtype
    )


@_operator("dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, "
           f"Tensor quant_max, ScalarType dtype, *, {_OUT}) -> Tensor")
def dequantize_per_tensor_tensor2(input, scale, zero_point, quant_min, quant_max, dtype, *, out_dtype=None):
    """`dequantize_per_tensor` by tensors of one element, bounds too."""
    numbers = (v.item() for v in (scale, zero_point, quant_min, quant_max))
    return dequantize_per_tensor(input, *numbers, dtype, out_dtype=out_dtype)


def _choose(input, quant_min, quant_max, eps, dtype, qscheme):
    if input.dtype not in (torch.float32, *_HALVES):
        raise AssertionError(f"Expecting input to have dtype torch.float32/16/b16, but got dtype: {input.dtype}")
    if dtype not in _BOUNDS:
        raise AssertionError(f"Expecting target dtype to be one of {_BOUNDS.keys()}, but got: {dtype}")
    validate_qmin_qmax(quant_min, quant_max)
    least, largest = torch.aminmax(input)
    found = determine_qparams(least, largest, quant_min, quant_max, dtype, torch.tensor([eps]), False, qscheme)
    return tuple(found)


@_operator("choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) "
           "-> (Tensor, Tensor)")
def choose_qparams_tensor(input, qmin, qmax, eps, dtype):
    """(scale, zero point) of a tensor's range."""
    return _choose(input, qmin, qmax, eps, dtype, torch.per_tensor_affine)


@_operator("choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) "
           "-> (Tensor, Tensor)")
def choose_qparams_symmetric_tensor(input, qmin, qmax, eps, dtype):
    """(scale, zero point) of a tensor's range, as if it were symmetric."""
    return _choose(input, qmin, qmax, eps, dtype, torch.per_tensor_symmetric)


def _along(values, input, axis):
    """Values of an axis, so that they broadcast."""
    shape = [1] * input.dim()
    shape[axis] = -1
    return values.reshape(shape)


@_operator(f"quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, {_BOUNDED}) -> Tensor")
def quantize_per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype):
    """Integers of a tensor with a scale and zero point for each index of an axis."""
    input = _as_float32(input)
    if axis >= input.dim():
        raise AssertionError(f"Expecting axis to be < {input.dim()}")
    _check_bounds(quant_min, quant_max, dtype)
    levels = torch.round(input * (1.0 / _along(scales, input, axis))) + _along(zero_points, input, axis)
    return torch.clamp(levels, quant_min, quant_max).to(dtype)


@_operator("dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, "
           f"{_BOUNDED}, *, {_OUT}) -> Tensor")
def dequantize_per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype, *, out_dtype=None):
    """Numbers of integers with a scale and zero point for each index of an axis."""
    _check_integers(input, dtype)
    if axis >= input.dim():
        raise AssertionError(f"Expecting axis to be < {input.dim()}")
    levels = input.to(torch.float32)
    if zero_points is not None:
        levels = levels - _along(zero_points, input, axis)
    return (levels * _along(scales, input, axis)).to(out_dtype or torch.float32)


@_operator("convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor")
def convert_element_type(input, dtype):
    """Another dtype, by an operator that compilers leave in its place."""
    return input.to(dtype)


# --- a scale for each token, or for each group of a channel ------------------------------


def _per_token_quant_qparam_dim_check(input, scales, zero_points) -> None:
    """Raises AssertionError unless there is a scale and a zero point for each row of the last dimension."""
    tokens = input.numel() // input.shape[-1]
    for name, values in ("scales", scales), ("zero_points", zero_points):
        if values.numel() != tokens:
            raise AssertionError(f"num_tokens: {tokens} {name}: {values.size()}")


_FOR_EACH = "Tensor scales, Tensor zero_points"
_LEAST_SCALE = 1e-5


@_operator("choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)")
def choose_qparams_per_token(input, dtype):
    """Scales of int8 for each token, by its largest absolute value, and zero points of 0: both (..., 1)."""
    largest = input.abs().amax(dim=-1, keepdim=True)
    if largest.dtype is torch.float16:
        largest = largest.float()
    scales = largest.clamp(min=_LEAST_SCALE).div(127)
    return scales, torch.zeros_like(scales)


@_operator("_choose_qparams_per_token_asymmetric_impl(Tensor input, ScalarType dtype) -> (Tensor, Tensor)")
def _choose_qparams_per_token_asymmetric_impl(input, dtype):
    """Scales (float64) and zero points (int64) of int8 for each token, by its least and largest values: both (..., 1)."""
    low, high = -128, 127
    least = input.amin(dim=-1, keepdim=True).clamp(max=0)
    largest = input.amax(dim=-1, keepdim=True).clamp(min=0)
    scale = ((largest - least) / float(high - low)).clamp(min=torch.finfo(torch.float32).eps)
    below, above = least / scale, largest / scale
    # The end whose error is the smaller one decides.
    from_least = (low + below) + (high + above) > 0
    zero_point = torch.where(from_least, low - below, high - above).clamp(low, high).round()
    return scale.to(torch.float64), zero_point.to(torch.int64)


@_operator("choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)")
def choose_qparams_per_token_asymmetric(input, dtype):
    """`_choose_qparams_per_token_asymmetric_impl`."""
    return _choose_qparams_per_token_asymmetric_impl(input, dtype)


@_operator(f"quantize_per_token(Tensor input, {_FOR_EACH}, {_BOUNDED}) -> Tensor")
def quantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype):
    """Integers of a tensor, with a scale for each token."""
    _check_bounds(quant_min, quant_max, dtype)
    _per_token_quant_qparam_dim_check(input, scales, zero_points)
    return input.mul(1.0 / scales).add(zero_points).round().clamp(quant_min, quant_max).to(dtype)


@_operator(f"dequantize_per_token(Tensor input, {_FOR_EACH}, {_BOUNDED}, ScalarType output_dtype) -> Tensor")
def dequantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype, output_dtype=torch.float32):
    """The numbers that `quantize_per_token`'s integers stand for."""
    return ((input - zero_points) * scales).to(output_dtype)


def _in_groups(input, scales, group_size):
    if group_size <= 1:
        raise AssertionError("group_size must be > 1")
    if group_size > input.shape[-1] and scales.shape[-1] == 1:
        group_size = input.shape[-1]
    if input.shape[-1] % group_size:
        raise AssertionError("input.shape[-1] must be divisible by group_size")
    return input.reshape(-1, group_size)


@_operator(f"quantize_per_channel_group(Tensor input, {_FOR_EACH}, {_BOUNDED}, int group_size) -> Tensor")
def quantize_per_channel_group(input, scales, zero_points, quant_min, quant_max, dtype, group_size=128):
    """Integers of a matrix, with a scale (rows, groups) for each group of columns in a row."""
    rows = _in_groups(input, scales, group_size)
    scales, zero_points = scales.reshape(-1, 1), zero_points.reshape(-1, 1)
    found = rows.mul(1.0 / scales).add(zero_points).round().clamp(quant_min, quant_max)
    return found.to(dtype).reshape_as(input)


@_operator(
    f"dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, {_BOUNDED}, int group_size, "
    "ScalarType output_dtype) -> Tensor"
)
def dequantize_per_channel_group(input, scales, zero_points, quant_min, quant_max, dtype, group_size=128,
                                 output_dtype=torch.float32):
    """The numbers that `quantize_per_channel_group`'s integers stand for."""
    rows = _in_groups(input, scales, group_size)
    zeros = 0 if zero_points is None else zero_points.reshape(-1, 1)
    return (rows - zeros).mul(scales.reshape(-1, 1)).reshape_as(input).to(output_dtype)
