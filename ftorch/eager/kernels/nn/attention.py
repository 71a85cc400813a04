"""Scaled dot product attention."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.errors import size_mismatch
from ...core.geometry import permuted_stride
from ...core.registry import op
from .._common import broadcast_shapes, dtype_name, is_complex, is_floating, opmath
from .._primitives import primitive

_CPP = {"Float": "float", "Double": "double", "Half": "c10::Half", "BFloat16": "c10::BFloat16",
        "Long": "long int", "Int": "int", "Bool": "bool"}


def _cpp_name(x):
    name = dtype_name(x.dtype)
    return _CPP.get(name, name)


def _check(query, key, value, attn_mask, enable_gqa):
    named = (("query", query), ("key", key), ("value", value))
    if any(x.ndim < 2 for _, x in named):
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        )
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{_cpp_name(query)} key.dtype: {_cpp_name(key)} and value.dtype: {_cpp_name(value)} "
            "instead."
        )
    if attn_mask is not None and attn_mask.dtype not in (jnp.bool_, jnp.float32, query.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {_cpp_name(attn_mask)} and  query.dtype: {_cpp_name(query)} instead."
        )
    if is_complex(query):
        raise NotImplementedError(
            f"\"softmax_lastdim_kernel_impl\" not implemented for '{dtype_name(query.dtype)}'"
        )
    if not is_floating(query):
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: float != {_cpp_name(query)}"
        )
    if enable_gqa and any(query.shape[-3] % x.shape[-3] for x in (key, value)):
        raise RuntimeError("Number of heads in key and value must divide the number of heads in ")
    if not enable_gqa:
        _check_batches(query, key)
        _check_batches(key, value)
    batch = math.prod(query.shape[:-2])
    _check_inner(query.shape[-2:], key.shape[-2:][::-1], query.ndim, batch)
    _check_inner((query.shape[-2], key.shape[-2]), value.shape[-2:], query.ndim, batch)


def _check_batches(a, b):
    broadcast_shapes(a.shape[:-2], b.shape[:-2])


def _check_inner(a, b, ndim, batch):
    if a[1] != b[0] and ndim == 2:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a[0]}x{a[1]} and {b[0]}x{b[1]})"
        )
    if a[1] != b[0]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {a[1]}] but got: "
            f"[{batch}, {b[0]}]."
        )


def _safe_softmax(scores):
    """Softmax over the last dimension that is 0 where a row is all -inf."""
    if not scores.shape[-1]:
        return scores
    top = lax.stop_gradient(scores.max(-1, keepdims=True))
    numerator = jnp.exp(scores - jnp.where(top == -jnp.inf, jnp.zeros((), top.dtype), top))
    total = numerator.sum(-1, keepdims=True, dtype=numerator.dtype)
    return numerator / jnp.where(total == 0, jnp.ones((), total.dtype), total)


# --- heads of one shape, which a kernel of this package may attend with ---------------------


def _attend(query, key, value, *, scale, is_causal):
    """(batch, heads, L, Ev) from (batch, heads, L, E), (batch, heads, S, E), (batch, heads, S, Ev)."""
    precise = opmath(query.dtype)
    scores = jnp.matmul(query, key.swapaxes(-1, -2), preferred_element_type=precise)
    weights = _weights(scores * np.asarray(scale, precise), is_causal)
    return jnp.matmul(weights.astype(query.dtype), value, preferred_element_type=precise)


def _attend_gradient(grad, query, key, value, **how):
    """The gradients of query, key and value."""
    return tuple(jax.vjp(functools.partial(_attend, **how), query, key, value)[1](grad))


def _weights(scores, is_causal):
    if is_causal:
        rows, columns = scores.shape[-2:]
        kept = jnp.arange(rows)[:, None] >= jnp.arange(columns)
        scores = jnp.where(kept, scores, -jnp.inf)
    return _safe_softmax(scores)


_attention = primitive("attention", _attend, lambda q, k, v: [(*q.shape[:3], v.shape[3])])
_attention_gradient = primitive(
    "attention_gradient", _attend_gradient, lambda grad, *operands: [x.shape for x in operands]
)


def _is_plain(query, key, value, *extra):
    return (
        all(x.dtype == np.float32 and x.shape[:-2] == query.shape[:-2] and x.size
            for x in (query, key, value))
        and all(x is None for x in extra)
    )


def _heads(x):
    """As (batch, heads, rows, columns)."""
    lead = x.shape[:-2]
    return x.reshape(math.prod(lead[:-1]), lead[-1] if lead else 1, *x.shape[-2:])


# --- the op -----------------------------------------------------------------------------------


def _is_fused(query, key, value, gqa):
    """Whether PyTorch's fused kernel for the CPU takes operands of these geometries, whose result lies as the query does."""
    operands = (query, key, value)
    return (
        all(g.ndim == 4 and g.shape[3] == query.shape[3] and g.stride[3] == 1 for g in operands)
        and all(g.shape[2] and g.shape[0] == query.shape[0] for g in operands)
        and key.shape[1] == value.shape[1]
        and (key.shape[1] == query.shape[1] or bool(gqa))
    )


def _result_layout(inputs, static, shapes):
    dropped = "dropout_factor" not in static  # which has what are no tensors
    if dropped or not _is_fused(*inputs[:3], static.get("enable_gqa")):
        return [None]
    query = inputs[0]
    if query.is_dense:
        return [query.stride]
    return [permuted_stride(shapes[0], sorted(range(4), key=lambda d: -(query.stride[d] or math.inf)))]


@op("_scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, "
    "Tensor? attn_mask=None, Tensor? dropout_factor=None, bool is_causal=False, *, "
    "float? scale=None, bool enable_gqa=False) -> Tensor", layout=_result_layout)
def scaled_dot_product_attention(query, key, value, attn_mask, dropout_factor, is_causal, scale,
                                 enable_gqa):
    """Softmax of scaled scores times values; ``dropout_factor`` multiplies the softmax."""
    _check(query, key, value, attn_mask, enable_gqa)
    scale = _scale(query, scale)
    if _is_plain(query, key, value, attn_mask, dropout_factor):
        operands = map(_heads, (query, key, value))
        (out,) = _attention.bind(*operands, scale=scale, is_causal=bool(is_causal))
        return out.reshape(*query.shape[:-1], value.shape[-1])
    precise = opmath(query.dtype)
    if enable_gqa:
        key, value = (
            jnp.repeat(x, query.shape[-3] // x.shape[-3], axis=-3) for x in (key, value)
        )
    scores = _products(query, key, precise) * np.asarray(scale, precise)
    if attn_mask is not None:
        _check_mask(scores, attn_mask)
        if attn_mask.dtype == jnp.bool_:
            scores = jnp.where(attn_mask, scores, -jnp.inf)
        else:
            scores = scores + attn_mask.astype(precise)
    weights = _weights(scores, is_causal)
    if dropout_factor is not None:
        weights = weights * dropout_factor.astype(precise)
    out = jnp.matmul(weights.astype(query.dtype), value, preferred_element_type=precise)
    return out.astype(query.dtype)


def _products(query, key, dtype):
    """Of all queries with all keys, which are read as they lie: a transpose of a cache would be a copy for each token."""
    batch = tuple(range(query.ndim - 2))
    if query.shape[:-2] != key.shape[:-2]:
        return jnp.matmul(query, key.swapaxes(-1, -2), preferred_element_type=dtype)
    dims = ((query.ndim - 1,), (key.ndim - 1,)), (batch, batch)
    return lax.dot_general(query, key, dims, preferred_element_type=dtype)


def _scale(query, scale):
    return float(1.0 / np.sqrt(query.shape[-1] or 1) if scale is None else scale)


@scaled_dot_product_attention.derivative
def _(grad, *, query, key, value, attn_mask, dropout_factor, is_causal, scale, enable_gqa):
    if _is_plain(query, key, value, attn_mask, dropout_factor):
        operands = map(_heads, (grad, query, key, value))
        grads = _attention_gradient.bind(*operands, scale=_scale(query, scale), is_causal=bool(is_causal))
        grads = [g.reshape(x.shape) for g, x in zip(grads, (query, key, value), strict=True)]
        return *grads, None, None
    added = attn_mask is not None and jnp.issubdtype(attn_mask.dtype, jnp.floating)
    variables = [query, key, value] + [attn_mask] * added + [dropout_factor] * (dropout_factor is not None)

    def apply(query, key, value, *rest):
        rest = list(rest)
        mask = rest.pop(0) if added else attn_mask
        return scaled_dot_product_attention(
            query, key, value, mask, rest[0] if rest else None, is_causal, scale, enable_gqa
        )

    grads = list(jax.vjp(apply, *variables)[1](grad))
    mask = grads.pop(3) if added else None
    return *grads[:3], mask, grads[3] if len(grads) > 3 else None


# --- GPUs: cuDNN's attention, which never holds all scores ------------------------------------------------

_LONG = 1 << 16  # scores of a head; those of fewer take less time than the compilation of a program for each length


def _by_cudnn(query, key, value, *, is_causal, scale):
    turned = (x.swapaxes(1, 2) for x in (query, key, value))
    found = jax.nn.dot_product_attention(*turned, is_causal=bool(is_causal), scale=scale, implementation="cudnn")
    return found.swapaxes(1, 2)


def _attends_with_cudnn(query, key, value, attn_mask, dropout_factor, is_causal, scale, enable_gqa):
    """Whether cuDNN takes the operands and gives what PyTorch does; this GPU and its libraries may be too old for it."""
    rows, columns, size = query.shape[-2], key.shape[-2], query.shape[-1]
    if not (
        query.dtype.itemsize == 2 and query.ndim == key.ndim == 4 and key.shape == value.shape
        and query.shape[0] == key.shape[0] and query.dtype == key.dtype == value.dtype
        and (query.shape[1] == key.shape[1] or enable_gqa and query.shape[1] % key.shape[1] == 0)
        and size == key.shape[3] and size % 8 == 0 and size <= 128
        and rows * columns >= _LONG and (rows == columns or not is_causal)
        and attn_mask is None and dropout_factor is None
    ):
        return False
    try:
        jax.eval_shape(functools.partial(_by_cudnn, is_causal=is_causal, scale=scale), query, key, value)
    except (NotImplementedError, RuntimeError, ValueError):
        return False
    return True


@scaled_dot_product_attention.backend("cuda")
def _(query, key, value, attn_mask, dropout_factor, is_causal, scale, enable_gqa):
    scale = _scale(query, scale)
    if _attends_with_cudnn(query, key, value, attn_mask, dropout_factor, is_causal, scale, enable_gqa):
        return _by_cudnn(query, key, value, is_causal=is_causal, scale=scale)
    return scaled_dot_product_attention(query, key, value, attn_mask, dropout_factor, is_causal, scale, enable_gqa)


@scaled_dot_product_attention.backend_derivative("cuda")
def _(grad, *, query, key, value, attn_mask, dropout_factor, is_causal, scale, enable_gqa):
    how = dict(is_causal=is_causal, scale=_scale(query, scale))
    if _attends_with_cudnn(query, key, value, attn_mask, dropout_factor, enable_gqa=enable_gqa, **how):
        return *jax.vjp(functools.partial(_by_cudnn, **how), query, key, value)[1](grad), None, None
    given = query, key, value, attn_mask, dropout_factor, is_causal, scale, enable_gqa
    names = scaled_dot_product_attention.backward_saves
    return scaled_dot_product_attention.backward(grad, **dict(zip(names, given, strict=True)))


def _check_mask(scores, mask):
    for i in range(1, min(scores.ndim, mask.ndim) + 1):
        if mask.shape[-i] not in (1, scores.shape[-i]):
            raise RuntimeError(size_mismatch(scores.shape[-i], mask.shape[-i], max(scores.ndim, mask.ndim) - i))
