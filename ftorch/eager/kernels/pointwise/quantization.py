"""Fake quantization: rounding to the numbers that a quantized tensor could hold."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ...core.registry import op
from .._common import dtype_name, up, wrap_dim
from ..reduction.reductions import not_implemented

_KERNEL = "fake_quantize_tensor_cachemask_kernel_type_handling"


def _check(x, quant_min, quant_max, kernel):
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or         equal to `quant_max`.")
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise not_implemented(kernel, x)


def _check_zero_point(zero_point, quant_min, quant_max):
    if not np.all((quant_min <= zero_point) & (zero_point <= quant_max)):
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")


def _levels(x, scale, zero_point):
    wide = up(x)
    scale = jnp.asarray(scale).astype(wide.dtype)
    zero_point = jnp.asarray(zero_point)
    shift = zero_point.astype(wide.dtype)
    if jnp.issubdtype(zero_point.dtype, jnp.floating):  # which is no level itself: added before it is rounded
        return jnp.round(wide * (1 / scale) + shift), scale
    return jnp.round(wide * (1 / scale)) + shift, scale


def _quantized(x, scale, zero_point, quant_min, quant_max, through_integers=False):
    levels, step = _levels(x, scale, zero_point)
    if through_integers:  # of 64 bits, of which the least is what does not fit
        levels = jnp.where(jnp.abs(levels) < 2.0**63, levels, quant_min)
    levels = jnp.where(jnp.isnan(levels), quant_min, jnp.clip(levels, quant_min, quant_max))
    return ((levels - jnp.asarray(zero_point).astype(step.dtype)) * step).astype(x.dtype)


def _passed(grad, x, scale, zero_point, quant_min, quant_max):
    """The gradient where nothing was clipped."""
    levels, _ = _levels(x, scale, zero_point)
    return jnp.where((levels >= quant_min) & (levels <= quant_max), grad, jnp.zeros_like(grad))


@op("fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, "
    "int quant_max) -> Tensor", layout="preserve")
def fake_quantize_per_tensor_affine(self, scale, zero_point, quant_min, quant_max):
    """Numbers rounded to ``(q - zero_point) * scale`` for ``q`` in ``quant_min ... quant_max``.

    The gradient goes through unchanged where nothing was clipped.

    Raises:
        RuntimeError: unless ``quant_min <= zero_point <= quant_max``.

    >>> import ftorch as torch
    >>> torch.fake_quantize_per_tensor_affine(torch.tensor([0.12, 0.96, -1.0]), 0.1, 0, 0, 255)
    tensor([0.1000, 1.0000, 0.0000])
    """
    _check(self, quant_min, quant_max, _KERNEL)
    _check_zero_point(np.asarray(zero_point), quant_min, quant_max)
    return _quantized(self, scale, zero_point, quant_min, quant_max)


def _whole(zero_point):
    """One zero point as the kernel of one scale reads it: without what comes after the point."""
    return jnp.trunc(zero_point.reshape(())).astype(np.int32)


@op("fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, "
    "int quant_min, int quant_max) -> Tensor", layout="preserve")
def per_tensor_by_tensors(self, scale, zero_point, quant_min, quant_max):
    _check(self, quant_min, quant_max, _KERNEL)
    return _quantized(self, scale.reshape(()), _whole(zero_point), quant_min, quant_max)


for _op in (fake_quantize_per_tensor_affine, per_tensor_by_tensors):

    @_op.derivative
    def _(grad, self, scale, zero_point, quant_min, quant_max):
        if hasattr(scale, "reshape"):
            scale, zero_point = scale.reshape(()), _whole(zero_point)
            return _passed(grad, self, scale, zero_point, quant_min, quant_max), None, None
        return _passed(grad, self, scale, zero_point, quant_min, quant_max)


def _along(x, channels, axis):
    shape = [1] * x.ndim
    shape[wrap_dim(axis, x.ndim)] = -1
    return channels.reshape(shape)


@op("fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, "
    "int quant_min, int quant_max) -> Tensor", layout="preserve")
def fake_quantize_per_channel_affine(self, scale, zero_point, axis, quant_min, quant_max):
    """`fake_quantize_per_tensor_affine` with a scale and a zero point for each index of a dimension.

    Args:
        scale, zero_point: (self.shape[axis],).

    Raises:
        RuntimeError: for other sizes, or a zero point out of range.
    """
    for name, x in (("scale", scale), ("zero point", zero_point)):
        if x.ndim != 1:
            raise RuntimeError(f"{name} should be a 1-D tensor")
    if scale.shape != zero_point.shape:
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    if scale.shape[0] != self.shape[wrap_dim(axis, self.ndim)]:
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")
    kind = dtype_name(zero_point.dtype)
    if kind not in ("Int", "Float", "Half"):
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {kind}")
    _check(self, quant_min, quant_max, "fake_quantize_channel_cachemask_cpu_type_handling")
    if axis < 0:
        raise RuntimeError("`axis` must be between 0 and number of dimensions of input")
    scale, zero_point = _along(self, scale, axis), _along(self, zero_point, axis)
    return _quantized(self, scale, zero_point, quant_min, quant_max, True)


@fake_quantize_per_channel_affine.derivative
def _(grad, self, scale, zero_point, axis, quant_min, quant_max):
    scale, zero_point = _along(self, scale, axis), _along(self, zero_point, axis)
    return _passed(grad, self, scale, zero_point, quant_min, quant_max), None, None


@fake_quantize_per_channel_affine.check
def _(zero_point, quant_min, quant_max):
    if quant_min <= quant_max and zero_point.ndim == 1:
        _check_zero_point(zero_point, quant_min, quant_max)


# --- the same with what the gradient needs: where nothing is clipped -------------------------


def _with_mask(x, output, scale, zero_point, quant_min, quant_max):
    levels, _ = _levels(x, scale, zero_point)
    return output, (levels >= quant_min) & (levels <= quant_max)


@op("fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, int quant_max) "
    "-> (Tensor output, Tensor mask)", forms="", layout="preserve")
def masked_per_tensor(self, scale, zero_point, quant_min, quant_max):
    output = fake_quantize_per_tensor_affine.kernel(self, scale, zero_point, quant_min, quant_max)
    return _with_mask(self, output, scale, zero_point, quant_min, quant_max)


@op("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, "
    "Tensor fake_quant_enabled, int quant_min, int quant_max) -> (Tensor output, Tensor mask)", layout="preserve")
def masked_by_tensors(self, scale, zero_point, fake_quant_enabled, quant_min, quant_max):
    output = per_tensor_by_tensors.kernel(self, scale, zero_point, quant_min, quant_max)
    output, mask = _with_mask(self, output, scale.reshape(()), _whole(zero_point), quant_min, quant_max)
    is_on = fake_quant_enabled.reshape(()) != 0
    return jnp.where(is_on, output, self), mask | ~is_on


@op("fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, "
    "int quant_max) -> (Tensor output, Tensor mask)", forms="", layout="preserve")
def masked_per_channel(self, scale, zero_point, axis, quant_min, quant_max):
    output = fake_quantize_per_channel_affine.kernel(self, scale, zero_point, axis, quant_min, quant_max)
    scale, zero_point = _along(self, scale, axis), _along(self, zero_point, axis)
    return _with_mask(self, output, scale, zero_point, quant_min, quant_max)


def _through_mask(grad, mask):
    return jnp.where(mask, grad[0], jnp.zeros_like(grad[0]))


@masked_per_tensor.derivative
def _(grad, *, result):
    return _through_mask(grad, result[1])


@masked_by_tensors.derivative
def _(grad, *, result):
    return _through_mask(grad, result[1]), None, None, None


@masked_per_channel.derivative
def _(grad, *, result):
    return _through_mask(grad, result[1]), None, None
