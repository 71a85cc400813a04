"""Normalization over a batch, a layer, groups or instances.

All of them standardize over some axes and then scale and shift by parameters that broadcast along
others, so they share one computation and one gradient.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.registry import op
from .._common import (
    Array,
    default_float,
    dtype_name,
    in_order,
    is_complex,
    is_floating,
    is_integral,
    opmath,
    unbiased_factor,
    up,
)
from . import _rowwise
from ._windows import sizes

# --- the computation ---------------------------------------------------------------------


def _moments(x, axes):
    """Mean and (biased) variance, kept as broadcasting dimensions."""
    mean = x.mean(axes, keepdims=True, dtype=x.dtype)
    return mean, jnp.square(x - mean).mean(axes, keepdims=True, dtype=x.dtype)


def _affine(x, weight, bias, shape):
    if weight is not None:
        x = x * weight.astype(x.dtype).reshape(shape)
    if bias is not None:
        x = x + bias.astype(x.dtype).reshape(shape)
    return x


def _normalize(x, axes, eps, weight, bias, shape):
    """Standardizes ``x`` over ``axes``; the parameters broadcast as ``shape``."""
    y = up(x)
    mean, var = _moments(y, axes)
    return _affine((y - mean) * lax.rsqrt(var + eps), weight, bias, shape).astype(x.dtype)


def _normalize_gradient(grad, x, axes, eps, weight, bias, shape):
    """Gradients of `_normalize` for the input, the weight and the bias."""
    grad, y = up(grad), up(x)
    mean, var = _moments(y, axes)
    scale = lax.rsqrt(var + eps)
    standard = (y - mean) * scale
    d_weight, d_bias = _parameter_gradients(grad, standard, weight, bias, shape)
    inner = grad if weight is None else grad * weight.astype(grad.dtype).reshape(shape)
    d_x = inner - inner.mean(axes, keepdims=True, dtype=y.dtype)
    d_x = scale * (d_x - standard * (inner * standard).mean(axes, keepdims=True, dtype=y.dtype))
    return d_x.astype(x.dtype), d_weight, d_bias


def _parameter_gradients(grad, standard, weight, bias, shape):
    lead = grad.ndim - len(shape)
    axes = tuple(
        i for i in range(grad.ndim) if i < lead or (shape[i - lead] == 1 and grad.shape[i] != 1)
    )

    def reduced(parameter, value):
        if parameter is None:
            return None
        return value.sum(axes, dtype=value.dtype).reshape(parameter.shape).astype(parameter.dtype)

    return reduced(weight, grad * standard), reduced(bias, grad)


# --- argument checks ---------------------------------------------------------------------


def _check_floating(kernel_name, x):
    if not is_floating(x):
        raise NotImplementedError(f"\"{kernel_name}\" not implemented for '{dtype_name(x.dtype)}'")


def _check_mixed(x, *parameters):
    """Parameters have the input's dtype, or float32 with a half-precision input."""
    dtypes = {p.dtype for p in parameters if p is not None}
    if dtypes <= {x.dtype} or dtypes == {opmath(x.dtype)}:
        return
    raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")


def _channel_shape(ndim):
    return (-1, *(1,) * (ndim - 2))


def check_batch_size(shape) -> None:
    """Raises PyTorch's ValueError where training statistics would come from one value."""
    count = shape[0] * math.prod(shape[2:])
    if count == 1:
        raise ValueError(
            "Expected more than 1 value per channel when training, got input size "
            f"torch.Size({sizes(shape)})"
        )


def _check_channels(x, **parameters):
    for name, parameter in parameters.items():
        if parameter is not None and parameter.size != x.shape[1]:
            raise RuntimeError(f"{name} should contain {x.shape[1]} elements not {parameter.size}")


# --- batch normalization -----------------------------------------------------------------


def _batch_axes(x):
    if x.ndim < 2:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got 1)")
    return (0, *range(2, x.ndim))


def _check_batch_norm(x, running_mean, running_var, weight, bias, eps):
    if eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    _batch_axes(x)
    _check_channels(
        x, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    _check_floating("batch_norm", x)
    _check_mixed(x, running_mean, running_var, weight, bias)


@op("_batch_norm_train(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight, "
    "Tensor? bias, Scalar momentum, float eps) -> (Tensor, Tensor, Tensor)", layout="channels")
def batch_norm_train(input, running_mean, running_var, weight, bias, momentum, eps):
    """Normalizes by the batch's statistics; also returns the new running mean and variance."""
    _check_batch_norm(input, running_mean, running_var, weight, bias, eps)
    axes = _batch_axes(input)
    shape = _channel_shape(input.ndim)
    y = up(input)
    mean, var = _moments(y, axes)
    out = _affine((y - mean) * lax.rsqrt(var + eps), weight, bias, shape).astype(input.dtype)
    count = input.size // max(input.shape[1], 1)
    unbiased = var.reshape(-1) * unbiased_factor(count, y.dtype)
    if count == 0:  # PyTorch leaves the statistics alone
        return out, *(_or_zeros(r, input) for r in (running_mean, running_var))
    return (
        out,
        _running(running_mean, mean.reshape(-1), momentum),
        _running(running_var, unbiased, momentum),
    )


def _or_zeros(running, x):
    return jnp.zeros(x.shape[1], x.dtype) if running is None else running


def _running(running, new, momentum):
    if running is None:
        return new
    old = up(running)
    momentum = jnp.asarray(momentum).astype(old.dtype)
    return (old * (1 - momentum) + new.astype(old.dtype) * momentum).astype(running.dtype)


@batch_norm_train.derivative
def _(grad, input, weight, bias, eps):
    shape = _channel_shape(input.ndim)
    d_input, d_weight, d_bias = _normalize_gradient(
        grad[0], input, _batch_axes(input), eps, weight, bias, shape
    )
    return d_input, None, None, d_weight, d_bias


@op("_batch_norm_eval(Tensor input, Tensor running_mean, Tensor running_var, Tensor? weight, "
    "Tensor? bias, float eps) -> Tensor", layout="channels")
def batch_norm_eval(input, running_mean, running_var, weight, bias, eps):
    """Normalizes by given statistics."""
    if not input.size:
        return input
    _check_batch_norm(input, running_mean, running_var, weight, bias, eps)
    shape = _channel_shape(input.ndim)
    y = up(input)
    mean, var = (s.astype(y.dtype).reshape(shape) for s in (running_mean, running_var))
    return _affine((y - mean) * lax.rsqrt(var + eps), weight, bias, shape).astype(input.dtype)


@batch_norm_eval.derivative
def _(grad, input, running_mean, running_var, weight, bias, eps):
    shape = _channel_shape(input.ndim)
    g, y = up(grad), up(input)
    mean, var = (s.astype(y.dtype).reshape(shape) for s in (running_mean, running_var))
    scale = lax.rsqrt(var + eps)
    d_weight, d_bias = _parameter_gradients(g, (y - mean) * scale, weight, bias, shape)
    d_input = _affine(g * scale, weight, None, shape).astype(input.dtype)
    return d_input, None, None, d_weight, d_bias


@op("_instance_norm_train(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight, "
    "Tensor? bias, Scalar momentum, float eps) -> (Tensor, Tensor, Tensor)")
def instance_norm_train(input, running_mean, running_var, weight, bias, momentum, eps):
    """Normalizes each sample's channels; running statistics take the mean over the batch."""
    _check_instance_channels(
        input, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var
    )
    axes = tuple(range(2, input.ndim))
    out = _normalize(input, axes, eps, weight, bias, _channel_shape(input.ndim))
    mean, var = _moments(up(input), axes)
    count = math.prod(input.shape[2:])
    var = var * unbiased_factor(count, var.dtype)
    mean, var = (s.mean(0, dtype=s.dtype).reshape(-1) for s in (mean, var))
    return out, _running(running_mean, mean, momentum), _running(running_var, var, momentum)


def _check_instance_channels(x, **parameters):
    # PyTorch normalizes a batch of one with N * C channels and says so.
    n = x.shape[0]
    for name, parameter in parameters.items():
        if parameter is not None and parameter.size != x.shape[1]:
            raise RuntimeError(
                f"{name} should contain {n * x.shape[1]} elements not {n * parameter.size}"
            )
    _check_floating("batch_norm", x)
    _check_mixed(x, *parameters.values())


@instance_norm_train.derivative
def _(grad, input, weight, bias, eps):
    d_input, d_weight, d_bias = _normalize_gradient(
        grad[0], input, tuple(range(2, input.ndim)), eps, weight, bias, _channel_shape(input.ndim)
    )
    return d_input, None, None, d_weight, d_bias


# --- layer, root mean square and group normalization -------------------------------------


def _check_normalized(x, normalized_shape, weight, bias, star):
    if not normalized_shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            f"element, but got normalized_shape = {sizes(normalized_shape)}"
        )
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and parameter.shape != tuple(normalized_shape):
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{sizes(parameter.shape)} and normalized_shape = {sizes(normalized_shape)}"
            )
    n = len(normalized_shape)
    if x.ndim < n or x.shape[x.ndim - n :] != tuple(normalized_shape):
        listed = ", ".join(map(str, normalized_shape))
        raise RuntimeError(
            f"Given normalized_shape={sizes(normalized_shape)}, expected input with shape "
            f"[{star}{listed}], but got input of size{sizes(x.shape)}"
        )


@op("layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
    "float eps=1e-05, bool cudnn_enable=True) -> Tensor", public=". nn.functional")
def layer_norm(input, normalized_shape, weight, bias, eps, cudnn_enable):
    """Standardizes over the last dimensions."""
    _check_normalized(input, normalized_shape, weight, bias, "*, ")
    _check_floating("LayerNormKernelImpl", input)
    _check_mixed(input, weight, bias)
    if _rowwise.is_plain(input, weight, bias):
        return _rowwise.layer_norm(input, tuple(normalized_shape), weight, bias, eps)
    n = len(normalized_shape)
    axes = tuple(range(input.ndim - n, input.ndim))
    return _normalize(input, axes, eps, weight, bias, tuple(normalized_shape))


@layer_norm.derivative
def _(grad, input, normalized_shape, weight, bias, eps):
    if _rowwise.is_plain(grad, input, weight, bias):
        d_input, *d_parameters = _rowwise.layer_norm_gradient(grad, input, tuple(normalized_shape), weight, eps)
        return d_input, *(None if p is None else d for p, d in zip((weight, bias), d_parameters, strict=True))
    n = len(normalized_shape)
    axes = tuple(range(input.ndim - n, input.ndim))
    lead = (1,) * (input.ndim - n)
    return _normalize_gradient(
        grad, input, axes, eps, weight, bias, (*lead, *normalized_shape)
    )


@op("rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None)"
    " -> Tensor", public=". nn.functional", layout="channels")
def rms_norm(input, normalized_shape, weight, eps):
    """Divides by the root mean square over the last dimensions."""
    _check_normalized(input, normalized_shape, weight, None, "*")
    if not is_floating(input) and not is_complex(input):
        raise NotImplementedError(
            f"\"rms_norm\" not implemented for '{dtype_name(input.dtype)}'"
        )
    x = up(input)
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    eps = float(jnp.finfo(x.dtype).eps) if eps is None else eps
    y = x * lax.rsqrt((x * x).mean(axes, keepdims=True, dtype=x.dtype) + eps)
    if weight is None:
        return y.astype(input.dtype)
    # PyTorch rounds to the input's dtype before the weight only where the weight's differs.
    return (y * weight.astype(y.dtype)).astype(input.dtype)


def _grouped(x, num_groups):
    return (x.shape[0], num_groups, x.shape[1] // max(num_groups, 1), *x.shape[2:])


def _group_parameter_shape(x, num_groups):
    return (1, num_groups, x.shape[1] // num_groups, *(1,) * (x.ndim - 2))


@op("group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, "
    "float eps=1e-05, bool cudnn_enabled=True) -> Tensor", public=". nn.functional",
    layout="channels")
def group_norm(input, num_groups, weight, bias, eps, cudnn_enabled):
    """Standardizes over groups of channels and the dimensions behind them."""
    _check_group_norm(input, num_groups, weight, bias)
    x = input.reshape(_grouped(input, num_groups))
    shape = _group_parameter_shape(input, num_groups)
    y = _normalize(x, tuple(range(2, x.ndim)), eps, weight, bias, shape)
    return y.reshape(input.shape)


def _check_group_norm(x, num_groups, weight, bias):
    if x.ndim < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {x.ndim}"
        )
    if num_groups == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    seen = (x.shape[0] * x.shape[1] // num_groups, num_groups, *x.shape[2:])
    if seen[0] * math.prod(seen[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(seen)}")
    if num_groups < 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if x.shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {sizes(x.shape)} and num_groups={num_groups}"
        )
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and parameter.shape != (x.shape[1],):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {'weight' if weight is not None else name} of shape "
                f"{sizes((weight if weight is not None else parameter).shape)} and input of shape "
                f"{sizes(x.shape)}"
            )
    _check_floating("GroupNormKernelImpl", x)
    _check_mixed(x, weight, bias)


@group_norm.derivative
def _(grad, input, num_groups, weight, bias, eps):
    x = input.reshape(_grouped(input, num_groups))
    shape = _group_parameter_shape(input, num_groups)
    d_x, d_weight, d_bias = _normalize_gradient(
        grad.reshape(x.shape), x, tuple(range(2, x.ndim)), eps, weight, bias, shape
    )
    return d_x.reshape(input.shape), d_weight, d_bias


@op("local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, "
    "float k=1.0) -> Tensor", public="nn.functional", layout=in_order)
def local_response_norm(input, size, alpha, beta, k):
    """Divides by a power of the mean square over neighbouring channels."""
    if input.ndim < 3:
        raise ValueError(
            "Expected 3D or higher dimensionality                          input (got "
            f"{input.ndim} dimensions)"
        )
    if input.size == 0:
        return input
    x: Array = up(input)
    squares = jnp.pad(
        x * x, [(0, 0), (size // 2, (size - 1) // 2), *[(0, 0)] * (x.ndim - 2)]
    )
    total = sum(squares[:, i : i + x.shape[1]] for i in range(size))
    if is_integral(x):  # whose means are integers, too
        input = x = x.astype(default_float())
        mean = (total // size).astype(x.dtype)
    else:
        mean = total / np.asarray(size, x.dtype)
    return (x / (mean * alpha + k) ** beta).astype(input.dtype)
