"""Convolutions as XLA's own operation."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from .._common import opmath

tf32 = True  # whether GPUs may round float32 operands to TF32, as PyTorch starts: ``torch.backends.cudnn.allow_tf32``


def _precision():
    return lax.Precision.HIGH if tf32 else lax.Precision.HIGHEST


def convolve(x, weight, stride, pads, dilation, groups):
    """Cross-correlation of ``(N, C, ...)`` with ``(O, C / groups, ...)``."""
    return lax.conv_general_dilated(
        x, weight, stride, pads, rhs_dilation=dilation, feature_group_count=groups,
        precision=_precision(), preferred_element_type=opmath(x.dtype),
    )


def convolve_narrow(x, weight, bias, stride, pads, dilation, groups):
    """A convolution with its bias, rounded to the operands' narrow dtype; None: there is no other way than `convolve`."""
    return None


def convolve_transposed(x, weight, stride, pads, dilation, groups):
    """The adjoint of a convolution with ``(C, O / groups, ...)``.

    ``pads`` pad the full result (negative: crop it) in front and behind.
    """
    spans = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    return lax.conv_general_dilated(
        x, _adjoint(weight, groups), (1,) * len(stride),
        [(s + low, s + high) for s, (low, high) in zip(spans, pads, strict=True)],
        lhs_dilation=stride, rhs_dilation=dilation, feature_group_count=groups,
        precision=_precision(), preferred_element_type=opmath(x.dtype),
    )


def _adjoint(weight, groups):
    """``(C, O / groups, ...)`` as the weight ``(O, C / groups, ...)`` of the adjoint convolution."""
    channels, outputs, *kernel = weight.shape
    w = weight.reshape(groups, channels // groups, outputs, *kernel).swapaxes(1, 2)
    w = w.reshape(groups * outputs, channels // groups, *kernel)
    return jnp.flip(w, tuple(range(2, w.ndim)))
