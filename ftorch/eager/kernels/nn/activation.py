"""Activation functions, each a single kernel, with PyTorch's gradients at the kinks.

Their parameters (slopes, thresholds) are static: they belong to a model, and constants fold. The
functions of ``torch.nn.functional`` that take ``inplace=`` are in ``composites/activation.py``.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.dtype import from_numpy
from ...core.registry import op
from .._common import cast, check_fits, dtype_name, in_order, is_complex, is_integral, up, wrap_dim
from ..pointwise.unary import by_factor, keep, magnitude, require, require_floating, times
from . import _rowwise

FUNCTIONAL = "nn.functional"


def _constant(value, x, halves=True):
    check_fits(value, from_numpy(x.dtype), halves)
    return jnp.asarray(value).astype(x.dtype)


# --- piecewise linear ----------------------------------------------------------------


def _clamped(self, low, high):
    if is_complex(self):
        raise NotImplementedError("clamp is not supported for complex types")
    if self.dtype == jnp.bool_:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if np.dtype(self.dtype).kind == "u" and (low < 0 or high < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    low, high = _constant(low, self), _constant(high, self)
    return jnp.where(self < low, low, jnp.where(self > high, high, self))


@op("relu(Tensor self) -> Tensor", forms="function method inplace", layout="pointwise")
def relu(self):
    if self.dtype == jnp.bool_:
        raise RuntimeError("Boolean inputs not supported for relu")
    if is_complex(self):
        raise NotImplementedError("clamp is not supported for complex types")
    return keep(~(self <= 0), self)


@relu.derivative
def _(grad, *, result):
    return keep(~(result <= 0), grad)


@op("relu6(Tensor self) -> Tensor", forms="", layout="pointwise")
def relu6(self):
    if is_integral(self) and np.dtype(self.dtype).kind == "u":
        return jnp.minimum(self, _constant(6, self))
    return _clamped(self, 0, 6)


@relu6.derivative
def _(grad, *, self):
    return keep(~((self <= 0) | (self >= 6)), grad)


@op("hardtanh(Tensor self, float min_val=-1, float max_val=1) -> Tensor", forms="",
    layout="pointwise")
def hardtanh(self, min_val, max_val):
    return _clamped(self, min_val, max_val)


@hardtanh.derivative
def _(grad, *, self, min_val, max_val):
    return keep(~((self <= min_val) | (self >= max_val)), grad)


@op("leaky_relu(Tensor self, float negative_slope=0.01) -> Tensor", forms="", layout="pointwise")
def leaky_relu(self, negative_slope):
    require_floating(self, "leaky_relu_cpu")
    x = up(self)
    return jnp.where(x > 0, x, x * negative_slope).astype(self.dtype)


@leaky_relu.derivative
def _(grad, *, self, negative_slope):
    g = up(grad)
    return jnp.where(self > 0, g, g * negative_slope).astype(grad.dtype)


@op("threshold(Tensor self, float threshold, float value) -> Tensor", forms="", layout="pointwise")
def threshold_(self, threshold, value):
    require(self, "threshold_cpu", boolean=False)
    return jnp.where(self <= _constant(threshold, self, halves=False), _constant(value, self), self)


@threshold_.derivative
def _(grad, *, self, threshold):
    return keep(~(self <= threshold), grad)


@op("hardsigmoid(Tensor self) -> Tensor", forms="", layout="pointwise")
def hardsigmoid(self):
    require_floating(self, "hardsigmoid_cpu")
    x = up(self)
    return jnp.where(x <= -3, 0, jnp.where(x >= 3, 1, (x + 3) / 6)).astype(self.dtype)


@hardsigmoid.derivative
def _(grad, *, self):
    return keep((self > -3) & (self < 3), grad / 6)


@op("hardswish(Tensor self) -> Tensor", forms="", layout="pointwise")
def hardswish(self):
    require_floating(self, "hardswish_cpu")
    x = up(self)
    return (x * jnp.clip(x + 3, 0, 6) / 6).astype(self.dtype)


@hardswish.derivative
def _(grad, *, self):
    x, g = up(self), up(grad)
    inner = jnp.where(x >= 3, g, g * (x / 3 + 0.5))
    inner = jnp.where(jnp.isnan(x), g, inner)
    return jnp.where(x <= -3, jnp.zeros_like(g), inner).astype(grad.dtype)


def _shrink_derivative(grad, *, self, lambd):
    return keep(~((self >= -lambd) & (self <= lambd)), grad)


@op("hardshrink(Tensor self, float lambd=0.5) -> Tensor", forms="function method out",
    public=f". {FUNCTIONAL}", layout="pointwise")
def hardshrink(self, lambd):
    require_floating(self, "hardshrink_cpu")
    check_fits(lambd, from_numpy(self.dtype), halves=True)
    return keep(~((self >= -lambd) & (self <= lambd)), self)


hardshrink.derivative(_shrink_derivative)


@op("softshrink(Tensor self, float lambd=0.5) -> Tensor", forms="function out", public=FUNCTIONAL,
    layout="pointwise")
def softshrink(self, lambd):
    require_floating(self, "softshrink_check")
    highest = float(jnp.finfo(self.dtype).max)
    if not 0 <= lambd <= highest:
        raise RuntimeError(
            f"lambda must be in range [0, {highest:g}] for input dtype {dtype_name(self.dtype)}, "
            f"but found {lambd:g}"
        )
    x = up(self)
    # Times zero in the middle, so that nan stays nan.
    value = jnp.where(x > lambd, x - lambd, jnp.where(x < -lambd, x + lambd, x * 0))
    return value.astype(self.dtype)


softshrink.derivative(_shrink_derivative)


# --- exponential units ---------------------------------------------------------------


def _elu(x, alpha, scale, input_scale):
    require_floating(x, "elu_cpu")
    wide = up(x)
    negative = jnp.expm1(jnp.minimum(wide, 0) * input_scale) * (alpha * scale)
    return jnp.where(wide < 0, negative, wide * scale).astype(x.dtype)


def _elu_slope(x, alpha, scale, input_scale):
    negative = jnp.exp(jnp.minimum(x, 0) * input_scale) * (alpha * scale * input_scale)
    return jnp.where(x <= 0, negative, scale)


@op("elu(Tensor self, float alpha=1, float scale=1, float input_scale=1) -> Tensor", forms="",
    layout="pointwise")
def elu(self, alpha, scale, input_scale):
    return _elu(self, alpha, scale, input_scale)


@elu.derivative
def _(grad, *, self, alpha, scale, input_scale):
    return times(grad, _elu_slope(up(self), alpha, scale, input_scale))


SELU = (1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0)


@op("selu(Tensor self) -> Tensor", forms="", layout="pointwise")
def selu(self):
    return _elu(self, *SELU)


selu.derivative(by_factor(lambda self: _elu_slope(self, *SELU)))


@op("celu(Tensor self, float alpha=1.) -> Tensor", forms="", layout="pointwise")
def celu(self, alpha):
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _elu(self, alpha, 1.0, 1.0 / alpha)


@celu.derivative
def _(grad, *, self, alpha):
    return times(grad, _elu_slope(up(self), alpha, 1.0, 1.0 / alpha))


# --- smooth --------------------------------------------------------------------------


@op('gelu(Tensor input, *, str approximate="none") -> Tensor', public=FUNCTIONAL,
    forms="function out", layout="pointwise")
def gelu(input, approximate):
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    require_floating(input, "GeluKernelImpl")
    x = up(input)
    if approximate == "none":
        value = 0.5 * x * (1 + lax.erf(x * math.sqrt(0.5)))
    else:
        value = 0.5 * x * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return value.astype(input.dtype)


@op("silu(Tensor self) -> Tensor", forms="", layout="pointwise")
def silu(self):
    require_floating(self, "silu_cpu", complex=True)
    x = up(self)
    return (x * lax.logistic(x)).astype(self.dtype)


@by_factor
def _silu_slope(self):
    s = lax.logistic(self)
    return s * (1 + self * (1 - s))


silu.derivative(_silu_slope)


def _log1p_exp(x):
    return jnp.logaddexp(x, jnp.zeros_like(x))


@op("mish(Tensor self) -> Tensor", forms="", layout="pointwise")
def mish(self):
    require_floating(self, "mish_cpu")
    x = up(self)
    return (x * jnp.tanh(_log1p_exp(x))).astype(self.dtype)


@by_factor
def _mish_slope(self):
    t = jnp.tanh(_log1p_exp(self))
    return t + self * lax.logistic(self) * (1 - t * t)


mish.derivative(_mish_slope)


@op("softplus(Tensor self, float beta=1, float threshold=20) -> Tensor", forms="function out",
    public=FUNCTIONAL, layout="pointwise")
def softplus(self, beta, threshold):
    require_floating(self, "softplus_cpu")
    x = up(self)
    scaled = x * beta
    # PyTorch divides by beta, so beta=0 gives infinity.
    smooth = _log1p_exp(scaled) / _constant(beta, scaled)
    return jnp.where(scaled > threshold, x, smooth).astype(self.dtype)


@softplus.derivative
def _(grad, *, self, beta, threshold):
    scaled = up(self) * beta
    return times(grad, jnp.where(scaled > threshold, 1, lax.logistic(scaled)))


@op("logsigmoid(Tensor input) -> Tensor", forms="function out", public=FUNCTIONAL)
def logsigmoid(input):
    require_floating(input, "log_sigmoid_cpu")
    return (-_log1p_exp(-up(input))).astype(input.dtype)


@logsigmoid.derivative
def _(grad, *, input):
    return times(grad, lax.logistic(-up(input)))


@op("tanhshrink(Tensor input) -> Tensor", promote="float", public=FUNCTIONAL)
def tanhshrink(input):
    x = up(input)
    return (x - jnp.tanh(x)).astype(input.dtype)


@tanhshrink.dtypes
def _(input):
    if input.name == "bool":
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use "
            "the `~` or `logical_not()` operator instead."
        )


@tanhshrink.derivative
def _(grad, *, input):
    t = jnp.tanh(up(input))
    return times(grad, t * t)


@op("softsign(Tensor input) -> Tensor", promote="float", public=FUNCTIONAL)
def softsign(input):
    x = up(input)
    return (x / (magnitude(x) + 1)).astype(input.dtype)


@softsign.dtypes
def _(input):
    if input.name == "bool":
        raise NotImplementedError("\"abs_cpu\" not implemented for 'Bool'")


# --- with weights, along dimensions --------------------------------------------------


def _channels(self, weight):
    """The weight in a shape that broadcasts along dimension 1."""
    if weight.dtype != self.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {dtype_name(self.dtype)} and "
            f"{dtype_name(weight.dtype)}"
        )
    if weight.size != 1:
        if self.ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = self.shape[1] if self.ndim > 1 else 1
        if weight.size != channels:
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.size} and channel size = {channels}."
            )
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    return weight.reshape((1, -1, *(1,) * (self.ndim - 2))[: self.ndim])


@op("prelu(Tensor self, Tensor weight) -> Tensor", forms="function method",
    public=f". {FUNCTIONAL}", layout=in_order)
def prelu(self, weight):
    weight = _channels(self, weight)
    require_floating(self, "prelu_cpu")
    return jnp.where(self > 0, self, weight * self)


@prelu.derivative
def _(grad, *, self, weight):
    slopes = _channels(self, weight)
    axes = tuple(d for d in range(self.ndim) if slopes.shape[d] == 1)
    to_weight = keep(~(self > 0), grad * self).sum(axes).reshape(weight.shape)
    return jnp.where(self > 0, grad, slopes * grad), to_weight.astype(weight.dtype)


@op("glu(Tensor input, int dim=-1) -> Tensor", public=FUNCTIONAL, forms="function out", layout=in_order)
def glu(input, dim):
    if input.ndim == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    dim = wrap_dim(dim, input.ndim)
    if input.shape[dim] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim} is size {input.shape[dim]}"
        )
    require_floating(input, "glu_cpu")
    value, gate = jnp.split(up(input), 2, dim)
    return (value * lax.logistic(gate)).astype(input.dtype)


# --- softmax -------------------------------------------------------------------------


def _softmax(self, dim, dtype, logarithm):
    x, name = self if dtype is None else cast(self, dtype), "log_softmax" if logarithm else "softmax"
    axis = wrap_dim(dim, x.ndim)
    inner = axis >= x.ndim - 1
    require_floating(x, f"{name}_lastdim_kernel_impl" if inner else f"{name}_kernel_impl")
    if x.ndim and inner and _rowwise.is_plain(x):
        return _rowwise.softmax(x, logarithm=logarithm)
    axes, wide = () if x.ndim == 0 else (axis,), up(x)
    wide = wide - lax.stop_gradient(wide.max(axes, keepdims=True, initial=-jnp.inf))
    powers = jnp.exp(wide)
    total = powers.sum(axes, keepdims=True)
    return (wide - jnp.log(total) if logarithm else powers / total).astype(x.dtype)


def _softmax_gradient(grad, result, dim, logarithm):
    axis = wrap_dim(dim, result.ndim)
    if result.ndim and axis == result.ndim - 1 and _rowwise.is_plain(grad, result):
        return _rowwise.softmax_gradient(grad, result, logarithm=logarithm)
    y, g = up(result), up(grad)
    axes = () if y.ndim == 0 else (axis,)
    if logarithm:
        return (g - jnp.exp(y) * g.sum(axes, keepdims=True)).astype(grad.dtype)
    weighted = g * y
    return (weighted - y * weighted.sum(axes, keepdims=True)).astype(grad.dtype)


@op("softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    forms="function method out", public=". special")
def softmax(self, dim, dtype):
    return _softmax(self, dim, dtype, logarithm=False)


@softmax.derivative
def _(grad, *, result, dim):
    return _softmax_gradient(grad, result, dim, logarithm=False)


@op("log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    forms="function method out", public=". special")
def log_softmax(self, dim, dtype):
    return _softmax(self, dim, dtype, logarithm=True)


@log_softmax.derivative
def _(grad, *, result, dim):
    return _softmax_gradient(grad, result, dim, logarithm=True)
