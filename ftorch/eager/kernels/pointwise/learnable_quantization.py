"""Fake quantization whose scale and zero point are learned."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ...core.registry import op
from .._common import fused_multiply_add
from .quantization import _along, _check, _quantized


def _nudged(zero_point, quant_min, quant_max):
    """Zero points as levels: integers, which are added to what is rounded."""
    return jnp.clip(jnp.round(zero_point), quant_min, quant_max).astype(np.int32)


def _slopes(grad, self, scale, nudged, quant_min, quant_max, grad_factor):
    """The gradients of the numbers, and of the scale and the zero point for each of them; levels are rounded with the zero
    point, as PyTorch's gradients do it and its forward kernels do not."""
    inverse = 1 / scale
    levels = jnp.round(fused_multiply_add(self, inverse, nudged.astype(self.dtype)))
    fits = jnp.abs(levels) < 2.0**63  # into an integer; the least is what does not
    low, high = ~fits | (levels < quant_min), fits & (levels > quant_max)
    kept = ~(low | high)
    rounding = ((levels - nudged) * scale - self) * inverse
    by_scale = jnp.where(low, quant_min - nudged, jnp.where(high, quant_max - nudged, rounding))
    nothing, factor = jnp.zeros_like(grad), np.asarray(grad_factor, grad.dtype)
    return jnp.where(kept, grad, nothing), grad * by_scale * factor, jnp.where(kept, nothing, -grad * scale * factor)


@op("_fake_quantize_learnable_per_tensor_affine(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max, "
    "float grad_factor=1.) -> Tensor", layout="preserve")
def per_tensor(self, scale, zero_point, quant_min, quant_max, grad_factor):
    """`fake_quantize_per_tensor_affine` by a scale and a zero point of one element each, with gradients for them.

    Args:
        grad_factor: which their gradients are multiplied by.
    """
    _check(self, quant_min, quant_max, "fake_quantize_learnable_tensor_kernel")
    point = _nudged(zero_point.reshape(()), quant_min, quant_max)
    return _quantized(self, scale.reshape(()), point, quant_min, quant_max)


@per_tensor.derivative
def _(grad, self, scale, zero_point, quant_min, quant_max, grad_factor):
    if not quant_min <= 0 <= quant_max:
        raise RuntimeError("`quant_min` should be less than or         equal to `quant_max`, and the quantization range should "
                           "include 0.")
    raised = jnp.clip(zero_point.reshape(()) + 0.5, quant_min, quant_max)
    point = jnp.trunc(raised).astype(np.int32)  # not the forward kernel's: of -1. it is 0, as in PyTorch
    x, by_scale, by_point = _slopes(grad, self, scale.reshape(()), point, quant_min, quant_max, grad_factor)
    return x, jnp.sum(by_scale).reshape(scale.shape), jnp.sum(by_point).reshape(zero_point.shape)


@op("_fake_quantize_learnable_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, "
    "int quant_max, float grad_factor=1.) -> Tensor", layout="preserve")
def per_channel(self, scale, zero_point, axis, quant_min, quant_max, grad_factor):
    """The same with a scale and a zero point for each index of a dimension."""
    _check(self, quant_min, quant_max, "fake_quantize_learnable_channel_kernel")
    point = _along(self, _nudged(zero_point, quant_min, quant_max), axis)
    return _quantized(self, _along(self, scale, axis), point, quant_min, quant_max, True)


@per_channel.derivative
def _(grad, self, scale, zero_point, axis, quant_min, quant_max, grad_factor):
    if not quant_min <= 0 <= quant_max:
        raise RuntimeError("Expecting `quant_min` <= 0 and `quant_max` >= 0")
    others = tuple(d for d in range(self.ndim) if d != axis % self.ndim)
    point = _along(self, _nudged(zero_point, quant_min, quant_max), axis)
    x, by_scale, by_point = _slopes(grad, self, _along(self, scale, axis), point, quant_min, quant_max, grad_factor)
    return x, jnp.sum(by_scale, others), jnp.sum(by_point, others)
