"""Activations of quantized tensors: those that keep the quantizer work on integers, others on numbers."""

from __future__ import annotations

import numpy as np

from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from . import _quantizer as q
from ._attributes import affine, number
from ._tensor import build, elementwise, integers, quantized, quantized_op, real, with_integers


def level_of(t, value) -> int:
    """The integer that a number becomes in a tensor with one scale."""
    x = torch.tensor(number(value), dtype=_dtype.float32)
    return int(affine(t).quantized(x, t.dtype))


def written(t, out):
    """The in-place form: the integers of ``out`` in the memory of ``t``."""
    t._ints.copy_(out._ints)
    t._quantizer = out._quantizer
    return t


# --- on integers ---------------------------------------------------------------------


@quantized_op()
def relu(input, inplace=False):
    """No number below zero."""
    out = with_integers(input, torch.clamp(integers(input), min=affine(input).zero_point))
    return written(input, out) if inplace else out


@quantized_op()
def clamp(input, min=None, max=None):
    """Numbers between two numbers, each quantized first."""
    if min is None and max is None:
        raise RuntimeError("At least one of 'min' or 'max' must not be None")
    low = None if min is None else level_of(input, min)
    high = None if max is None else level_of(input, max)
    return with_integers(input, torch.clamp(integers(input), low, high))


@quantized_op()
def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """Numbers between two numbers, each quantized first."""
    out = clamp(input, min_val, max_val)
    return written(input, out) if inplace else out


@quantized_op()
def relu6(input, inplace=False):
    """Numbers between 0 and 6."""
    return hardtanh(input, 0.0, 6.0, inplace)


@quantized_op()
def threshold(input, threshold, value, inplace=False):
    """The quantized value for what is not above a threshold."""
    affine(input)
    x = real(input)
    return quantized(torch.where(x > threshold, x, number(value)), input._quantizer, input.dtype)


quantized_op("relu_")(lambda input: relu(input, True))
quantized_op("relu6_")(lambda input: relu6(input, True))
quantized_op("hardtanh_")(lambda input, min_val=-1.0, max_val=1.0: hardtanh(input, min_val, max_val, True))
quantized_op("clip")(clamp)
quantized_op("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout")(
    lambda input, p=0.5, training=False, inplace=False: _dropout(input, p, training)
)


def _dropout(input, p, training):
    return quantized(torch.nn.functional.dropout(real(input), p, training), input._quantizer, input.dtype) if (
        training) else input


# --- on numbers ----------------------------------------------------------------------


def as_quantized(x, input, scale, zero_point):
    """Numbers in a quantizer of one's own, or in that of the input."""
    quantizer = input._quantizer if scale is None else q.PerTensor(scale, zero_point)
    return quantized(x, quantizer, input.dtype)


def _each(function, input, scale, zero_point):
    """A function of each element, in a quantizer of one's own or in that of the input."""
    quantizer = affine(input) if scale is None else q.PerTensor(scale, zero_point)
    return elementwise(function, (input,), quantizer, input.dtype)


def leaky_relu(input, negative_slope=0.01, inplace=False, scale=None, zero_point=None):
    """``x`` above zero, ``x * negative_slope`` below."""
    out = _each(lambda x: torch.where(x > 0, x, x * number(negative_slope)), input, scale, zero_point)
    return written(input, out) if inplace else out


quantized_op("leaky_relu")(lambda input, negative_slope=0.01, inplace=False: leaky_relu(input, negative_slope, inplace))
quantized_op("leaky_relu_")(lambda input, negative_slope=0.01: leaky_relu(input, negative_slope, True))


def elu(input, alpha=1.0, scale_=1.0, input_scale=1.0, scale=None, zero_point=None):
    """``x * scale_`` above zero, ``alpha * scale_ * (exp(x * input_scale) - 1)`` below."""

    def function(x):
        low = (torch.exp(x * number(input_scale)) - 1) * number(alpha * scale_)
        return torch.where(x >= 0, x * number(scale_), low)

    return _each(function, input, scale, zero_point)


quantized_op("elu")(lambda input, alpha=1.0, inplace=False: (
    written(input, elu(input, alpha)) if inplace else elu(input, alpha)))


def celu(input, scale, zero_point, alpha=1.0):
    """`elu` whose slope at zero is one."""
    return elu(input, alpha, 1.0, 1.0 / alpha, scale, zero_point)


def hardswish(input, scale=None, zero_point=None):
    """``x * relu6(x + 3) / 6``."""
    return _each(lambda x: x * torch.clamp(x + 3, 0, 6) / 6, input, scale, zero_point)


quantized_op("hardswish")(lambda input, inplace=False: hardswish(input))
quantized_op("gelu")(lambda input, approximate="none": as_quantized(
    torch.nn.functional.gelu(real(input), approximate=approximate), input, None, None))


def _unit_quantizer(dtype, signed_results):
    """The quantizer of results in [0, 1), or in (-1, 1)."""
    low, high = q.LIMITS[dtype]
    levels = high - low + 1
    if signed_results:
        return 2.0 / levels, 128 if dtype is _dtype.quint8 else 0
    return 1.0 / levels, 0 if dtype is _dtype.qint32 else low


def sigmoid(input, scale=None, zero_point=None):
    """The logistic function; its results are in [0, 1), by which its quantizer is chosen."""
    affine(input)
    if scale is None:
        scale, zero_point = _unit_quantizer(input.dtype, False)
    return as_quantized(torch.sigmoid(real(input)), input, scale, zero_point)


quantized_op("sigmoid")(lambda input: sigmoid(input))
quantized_op("sigmoid_")(lambda input: written(input, sigmoid(input)))


@quantized_op()
def tanh(input):
    """The hyperbolic tangent; its quantizer is chosen by its results, which are in (-1, 1)."""
    affine(input)
    return as_quantized(torch.tanh(real(input)), input, *_unit_quantizer(input.dtype, True))


quantized_op("tanh_")(lambda input: written(input, tanh(input)))


@quantized_op()
def hardsigmoid(input, inplace=False):
    """``relu6(x + 3) / 6``; its quantizer is chosen by its results, which are in [0, 1]."""
    affine(input)
    scale, zero_point = _unit_quantizer(input.dtype, False)
    out = as_quantized(torch.clamp(real(input) + 3, 0, 6) / 6, input, scale, zero_point)
    return written(input, out) if inplace else out


def prelu(input, weight, scale, zero_point):
    """`leaky_relu` with a slope for each channel, or one.

    The slope of what is positive is one as the weight's quantizer has it, which may end below one: PyTorch's kernel
    multiplies all integers by integers.
    """
    own, other = input._quantizer, weight._quantizer
    x, w = integers(input).to(_dtype.int32) - own.zero_point, integers(weight).to(_dtype.int32) - other.zero_point
    if w.numel() > 1 and input.dim() > 1:
        w = w.reshape([-1 if d == 1 else 1 for d in range(input.dim())])
    inverse = torch.tensor([1.0]) / torch.tensor([other.scale], dtype=_dtype.float32)
    one = q.clipped(torch.round(inverse) + other.zero_point, weight.dtype).to(_dtype.int32) - other.zero_point
    both = np.float32(own.scale) * np.float32(other.scale)
    multiplier = float(both * (np.float32(1) / np.float32(scale)))
    products = (x * torch.where(x >= 0, one, w)).to(_dtype.float32) * multiplier
    return build(q.clipped(torch.round(products) + zero_point, input.dtype), q.PerTensor(scale, zero_point))


def softmax(input, dim, scale, zero_point):
    """Softmax over a dimension."""
    return as_quantized(torch.softmax(real(input), dim), input, scale, zero_point)


@quantized_op("prelu")
def _prelu(input, weight):
    quantizer = input._quantizer
    return prelu(input, weight, quantizer.scale, quantizer.zero_point)
