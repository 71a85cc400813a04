"""Normalizations of quantized tensors."""

from __future__ import annotations

import functools

from ..eager.bindings.publishing import function
from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from . import _quantizer as q
from ._layers import channels_last
from ._tensor import build, integers, quantized, real


def _as(x, qx, scale, zero_point):
    return quantized(x, q.PerTensor(scale, zero_point), qx.dtype)


def batch_norm(qx, weight, bias, mean, var, eps, output_scale, output_zero_point, relu=False):
    """Batch normalization by given statistics, as one factor and one term for each channel."""
    ndim = qx.dim()
    shape = [-1 if d == 1 else 1 for d in range(ndim)]
    inverse = 1.0 / torch.sqrt(var + q.single(eps))
    alpha = inverse if weight is None else inverse * weight
    beta = -mean * alpha if bias is None else bias - mean * alpha
    quantizer = qx._quantizer
    fused_alpha = alpha * q.single(q.single(quantizer.scale) / q.single(output_scale))
    fused_beta = beta / q.single(output_scale)
    levels = (integers(qx).to(_dtype.int32) - quantizer.zero_point).to(_dtype.float32)
    # The kernel multiplies and adds with one rounding.
    out = (levels.double() * fused_alpha.double().reshape(shape) + fused_beta.double().reshape(shape)).float()
    out = torch.round(out) + output_zero_point
    if relu:
        out = torch.clamp(out, min=output_zero_point)
    ints = q.clipped(out, qx.dtype)
    if ndim > 2:
        ints = channels_last(ints)
    return build(ints, q.PerTensor(output_scale, output_zero_point))


@functools.partial(function, path=".")
def quantized_batch_norm(input, weight, bias, mean, var, eps, output_scale, output_zero_point):
    """Batch normalization of a quantized tensor by given statistics (``torch.quantized_batch_norm``).

    Raises:
        RuntimeError: without weight and bias.
    """
    for name, given in (("Weight", weight), ("Bias", bias)):
        if given is None:
            raise RuntimeError(f"{name} must be provided")
    return batch_norm(input, weight, bias, mean, var, eps, output_scale, output_zero_point)


def layer_norm(input, normalized_shape, weight, bias, eps, output_scale, output_zero_point):
    """Layer normalization."""
    x = torch.nn.functional.layer_norm(real(input), list(normalized_shape), weight, bias, eps)
    return _as(x, input, output_scale, output_zero_point)


def group_norm(input, num_groups, weight, bias, eps, output_scale, output_zero_point):
    """Group normalization."""
    x = torch.nn.functional.group_norm(real(input), num_groups, weight, bias, eps)
    return _as(x, input, output_scale, output_zero_point)


def instance_norm(input, weight, bias, eps, output_scale, output_zero_point):
    """Instance normalization by the input's own statistics."""
    return group_norm(input, input.shape[1], weight, bias, eps, output_scale, output_zero_point)
