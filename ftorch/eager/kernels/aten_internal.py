"""Ops of ATen that no public function needs here, but that programs written against it call."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ..core.registry import op
from ._common import default_float, is_integral, up, wrap_dim
from .indexing.masking import index_put
from .nn.interpolation import interpolate
from .nn.pooling import scatter_to_maxima

# --- gradients of softmax, dropout and pooling -------------------------------------------


@op("_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> "
    "Tensor")
def softmax_backward(grad_output, output, dim, input_dtype):
    """The gradient of softmax, from its result."""
    dim = wrap_dim(dim, output.ndim) if output.ndim else ()
    grad, y = up(grad_output), up(output)
    inner = jnp.sum(grad * y, dim, keepdims=True)
    return (y * (grad - inner)).astype(input_dtype)


@op("_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, "
    "ScalarType input_dtype) -> Tensor")
def log_softmax_backward(grad_output, output, dim, input_dtype):
    """The gradient of the logarithm of softmax, from its result."""
    dim = wrap_dim(dim, output.ndim) if output.ndim else ()
    grad, y = up(grad_output), up(output)
    return (grad - jnp.exp(y) * jnp.sum(grad, dim, keepdims=True)).astype(input_dtype)


@op("_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor")
def safe_softmax(self, dim, dtype):
    """Softmax that is 0 where all elements are -inf."""
    dtype = dtype or self.dtype
    if np.issubdtype(dtype, np.integer):
        dtype = default_float()
    x = up(self.astype(dtype))
    if x.ndim == 0:
        return jnp.where(x == -jnp.inf, x * 0, jnp.ones_like(x)).astype(dtype)
    dim = wrap_dim(dim, x.ndim)
    if not x.shape[dim]:
        return x.astype(dtype)
    top = jnp.max(x, dim, keepdims=True)
    e = jnp.exp(x - jnp.where(top == -jnp.inf, jnp.zeros_like(top), top))
    total = jnp.sum(e, dim, keepdims=True)
    return (e / jnp.where(total == 0, jnp.ones_like(total), total)).astype(dtype)


@safe_softmax.derivative
def _(grad, *, result, self, dim):
    return softmax_backward(grad, result, dim, self.dtype)


@op("native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor", forms="")
def native_dropout_backward(grad_output, mask, scale):
    """The gradient of dropout."""
    if is_integral(grad_output):
        grad_output = grad_output.astype(default_float())
    return grad_output * mask.astype(grad_output.dtype) * np.asarray(scale, grad_output.dtype)


@op("max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, "
    "int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor",
    forms="")
def max_pool2d_with_indices_backward(grad_output, self, kernel_size, stride, padding, dilation,
                                     ceil_mode, indices):
    """The gradient of max pooling, from where the maxima were."""
    return scatter_to_maxima(up(grad_output), indices, self, 2).astype(self.dtype)


# --- resampling --------------------------------------------------------------------------


@op("_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
    "float[]? scale_factors) -> Tensor", forms="")
def upsample_bilinear2d_aa(input, output_size, align_corners, scale_factors):
    """Bilinear interpolation with antialiasing."""
    if output_size is None:
        output_size = tuple(int(n * s) for n, s in zip(input.shape[2:], scale_factors))
    return interpolate(input, output_size, "bilinear", align_corners, scale_factors, True)


@op("_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, "
    "float? scales_h=None, float? scales_w=None) -> Tensor", forms="")
def upsample_bilinear2d_aa_of_size(self, output_size, align_corners, scales_h, scales_w):
    """Bilinear interpolation with antialiasing to a size."""
    scales = (scales_h, scales_w)
    return interpolate(self, output_size, "bilinear", align_corners, scales, True)


# --- masked indexing ---------------------------------------------------------------------


def _inside(self, mask, indices):
    """The indices, with those that the mask leaves out replaced by ones that exist."""
    return [
        None if i is None else jnp.clip(jnp.where(mask, i, jnp.zeros((), i.dtype)), -n, n - 1)
        for i, n in zip(indices, self.shape)
    ]


@op("_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor")
def unsafe_masked_index(self, mask, indices, fill):
    """``self[indices]`` where the mask is True, else ``fill``."""
    where = tuple(slice(None) if i is None else i for i in _inside(self, mask, indices))
    return jnp.where(mask, self[where], jnp.asarray(fill).astype(self.dtype))


@op("_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, "
    "Tensor values) -> Tensor")
def unsafe_masked_index_put_accumulate(self, mask, indices, values):
    """Adds values where the indices point and the mask is True."""
    kept = jnp.where(mask, values, jnp.zeros((), values.dtype))
    return index_put(self, _inside(self, mask, indices), kept, True)
