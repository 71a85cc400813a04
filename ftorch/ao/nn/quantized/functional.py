"""Functions of quantized tensors (``torch.ao.nn.quantized.functional``)."""

from __future__ import annotations

import ftorch as torch

from .modules.utils import _ntuple_from_first

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "celu", "clamp", "conv1d", "conv2d",
    "conv3d", "elu", "hardsigmoid", "hardswish", "hardtanh", "interpolate", "leaky_relu", "linear", "max_pool1d",
    "max_pool2d", "threshold", "upsample", "upsample_bilinear", "upsample_nearest",
]

ops = torch.ops.quantized


def _require(input, name):
    if not input.is_quantized:
        raise ValueError(f"Input to 'quantized.{name}' must be quantized!")


def _of_quantized(name):
    def run(input, *args, **kwargs):
        _require(input, name)
        return getattr(torch.nn.functional, name)(input, *args, **kwargs)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"``torch.nn.functional.{name}`` of a quantized tensor; ValueError for others."
    return run


(adaptive_avg_pool2d, adaptive_avg_pool3d, avg_pool2d, avg_pool3d, hardtanh, interpolate, upsample,
 upsample_bilinear, upsample_nearest) = map(_of_quantized, (
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "hardtanh", "interpolate",
    "upsample", "upsample_bilinear", "upsample_nearest"))


def _conv(dims):
    each = _ntuple_from_first(dims)

    def run(input, weight, bias, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros", scale=1.0,
            zero_point=0, dtype=torch.quint8):
        if padding_mode != "zeros":
            raise NotImplementedError("Only zero-padding is supported!")
        if input.dtype is not torch.quint8:
            raise NotImplementedError("Only torch.quint8 is supported for activation tensor!")
        if weight.dtype is not torch.qint8:
            raise NotImplementedError("Only torch.qint8 is supported for weight tensor!")
        if input.ndim != dims + 2:
            raise ValueError(f"Input shape must be {dims + 2}-dimensional!")
        packed = getattr(ops, f"conv{dims}d_prepack")(weight, bias, each(stride), each(padding), each(dilation), groups)
        return getattr(ops, f"conv{dims}d")(input, packed, scale, zero_point)

    run.__name__ = run.__qualname__ = f"conv{dims}d"
    run.__doc__ = f"A convolution of quantized tensors over {dims} dimensions, its results in a quantizer."
    return run


conv1d, conv2d, conv3d = map(_conv, (1, 2, 3))


def linear(input, weight, bias=None, scale=None, zero_point=None):
    """A linear layer of quantized tensors; its results in the input's quantizer, or in another."""
    scale = input.q_scale() if scale is None else scale
    zero_point = input.q_zero_point() if zero_point is None else zero_point
    return ops.linear(input, ops.linear_prepack(weight, bias), scale, zero_point)


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Largest numbers of windows."""
    return torch.nn.functional.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Largest numbers of windows."""
    return torch.nn.functional.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


def celu(input, scale, zero_point, alpha=1.0):
    """``torch.nn.functional.celu`` in a quantizer."""
    _require(input, "celu")
    return ops.celu(input, scale, zero_point, alpha)


def elu(input, scale, zero_point, alpha=1.0):
    """``torch.nn.functional.elu`` in a quantizer."""
    _require(input, "elu")
    return ops.elu(input, scale, zero_point, alpha)


def leaky_relu(input, negative_slope=0.01, inplace=False, scale=None, zero_point=None):
    """``torch.nn.functional.leaky_relu``, in a quantizer if one is given."""
    if scale is not None and zero_point is not None:
        return ops.leaky_relu(input, negative_slope, inplace, scale, zero_point)
    return torch.nn.functional.leaky_relu(input, negative_slope, inplace)


def hardswish(input, scale, zero_point):
    """``torch.nn.functional.hardswish`` in a quantizer."""
    _require(input, "hardswish")
    return ops.hardswish(input, scale, zero_point)


def threshold(input, threshold, value):
    """The quantized value for what is not above a threshold."""
    _require(input, "threshold")
    return ops.threshold(input, threshold, value)


def hardsigmoid(input, inplace=False):
    """``torch.nn.functional.hardsigmoid``."""
    _require(input, "hardsigmoid")
    return torch.nn.functional.hardsigmoid(input, inplace)


def clamp(input, min_, max_):
    """Numbers between two numbers."""
    _require(input, "clamp")
    return torch.clamp(input, min_, max_)
