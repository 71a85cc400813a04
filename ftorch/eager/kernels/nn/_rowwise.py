"""Softmax and layer normalization of rows, as primitives for which the package has kernels.

Numbers of 16 bits are computed with in float32, and rounded once, as PyTorch's are.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._common import Array, up
from .._primitives import primitive

_DTYPES = frozenset(map(np.dtype, (np.float32, np.float64, np.float16, jnp.bfloat16)))


def is_plain(first, *others) -> bool:
    """Whether the arrays (or None) are what the primitives take: of one floating dtype, not empty."""
    dtype = first.dtype
    return dtype in _DTYPES and all(x is None or x.dtype == dtype and x.size > 0 for x in (first, *others))


def _in_float32(function):
    """``function`` of arrays of one dtype, computed in float32 where theirs is narrower."""

    def computed(*arrays, **how):
        found = function(*map(up, arrays), **how)
        return jax.tree.map(lambda x: x.astype(arrays[0].dtype), found)

    return computed


def _like(first, *_):
    return [jax.ShapeDtypeStruct(first.shape, first.dtype)]


# --- softmax -----------------------------------------------------------------------------


@_in_float32
def _softmax(x, *, logarithm):
    """Of rows (n, length)."""
    x = x - lax.stop_gradient(x.max(-1, keepdims=True))
    powers = jnp.exp(x)
    total = powers.sum(-1, keepdims=True)
    return x - jnp.log(total) if logarithm else powers / total


@_in_float32
def _softmax_gradient(grad, y, *, logarithm):
    if logarithm:
        return grad - jnp.exp(y) * grad.sum(-1, keepdims=True)
    weighted = grad * y
    return weighted - y * weighted.sum(-1, keepdims=True)


_softmax_rows = primitive("softmax", _softmax, _like)
_softmax_rows_gradient = primitive("softmax_gradient", _softmax_gradient, _like)


def softmax(x: Array, *, logarithm: bool) -> Array:
    """The softmax along the last dimension, or its logarithm."""
    (y,) = _softmax_rows.bind(x.reshape(-1, x.shape[-1]), logarithm=logarithm)
    return y.reshape(x.shape)


def softmax_gradient(grad: Array, y: Array, *, logarithm: bool) -> Array:
    """The gradient of the operand of `softmax`, from the result and its gradient."""
    rows = (x.reshape(-1, y.shape[-1]) for x in (grad, y))
    (result,) = _softmax_rows_gradient.bind(*rows, logarithm=logarithm)
    return result.reshape(y.shape)


# --- layer normalization -----------------------------------------------------------------


@_in_float32
def _layer_norm(x, weight, bias, *, eps):
    """Of groups of rows (groups, n, length), each group with its weight and bias (groups, length)."""
    centered = x - x.mean(-1, keepdims=True)
    scale = lax.rsqrt(jnp.square(centered).mean(-1, keepdims=True) + np.asarray(eps, x.dtype))
    return centered * scale * weight[:, None] + bias[:, None]


@_in_float32
def _layer_norm_gradient(grad, x, weight, *, eps):
    centered = x - x.mean(-1, keepdims=True)
    scale = lax.rsqrt(jnp.square(centered).mean(-1, keepdims=True) + np.asarray(eps, x.dtype))
    standard, inner = centered * scale, grad * weight[:, None]
    d_x = inner - inner.mean(-1, keepdims=True) - standard * (inner * standard).mean(-1, keepdims=True)
    return scale * d_x, (grad * standard).sum(1), grad.sum(1)


_layer_norm_rows = primitive("layer_norm", _layer_norm, _like)
_layer_norm_rows_gradient = primitive(
    "layer_norm_gradient", _layer_norm_gradient, lambda grad, x, weight: _like(x) + 2 * _like(weight)
)


def layer_norm(x: Array, shape: tuple[int, ...], weight: Array | None, bias: Array | None, eps: float) -> Array:
    """``x`` standardized over its last dimensions, which are ``shape``."""
    length = math.prod(shape)
    weight = jnp.ones(shape, x.dtype) if weight is None else weight
    bias = jnp.zeros(shape, x.dtype) if bias is None else bias
    rows, *parameters = x.reshape(1, -1, length), *(p.reshape(1, length) for p in (weight, bias))
    (y,) = _layer_norm_rows.bind(rows, *parameters, eps=eps)
    return y.reshape(x.shape)


def layer_norm_gradient(grad: Array, x: Array, shape: tuple[int, ...], weight: Array | None, eps: float):
    """Gradients of `layer_norm` for ``x``, the weight and the bias, from the result's."""
    length = math.prod(shape)
    scale = jnp.ones((1, length), x.dtype) if weight is None else weight.reshape(1, length)
    rows = (v.reshape(1, -1, length) for v in (grad, x))
    d_x, d_weight, d_bias = _layer_norm_rows_gradient.bind(*rows, scale, eps=eps)
    return d_x.reshape(x.shape), d_weight.reshape(shape), d_bias.reshape(shape)
