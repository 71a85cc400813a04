"""Scaled dot product attention."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.geometry import permuted_stride
from ...core.registry import op
from .._common import broadcast_shapes, dtype_name, is_complex, is_floating, opmath
from .._primitives import primitive

_CPP = {"Float": "float", "Double": "double", "Half": "c10::Half", "BFloat16": "c10::BFloat16",
        "Long": "long int", "Int": "int", "Short": "short int", "Char": "signed char", "Byte": "unsigned char", "Bool": "bool"}
_OF_SIZE = {"Long": "int64_t", "Int": "int", "Short": "int16_t", "Char": "int8_t", "Byte": "uint8_t"}


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
        _refuse_integers(query, attn_mask)
    if enable_gqa and any(query.shape[-3] % x.shape[-3] for x in (key, value)):
        raise RuntimeError("Number of heads in key and value must divide the number of heads in ")
    if not enable_gqa:
        _check_batches(query, key)
        _check_batches(key, value)
    batch = math.prod(query.shape[:-2])
    _check_inner(query.shape[-2:], key.shape[-2:][::-1], query.ndim, batch)
    _check_inner((query.shape[-2], key.shape[-2]), value.shape[-2:], query.ndim, batch)


def _refuse_integers(query, attn_mask):
    """What fails of the formula: a mask's infinity, or the product of scaled queries, which are floating, with the keys."""
    name = dtype_name(query.dtype)
    if attn_mask is not None and attn_mask.dtype == jnp.bool_ and name in _OF_SIZE:
        raise RuntimeError(f"value cannot be converted to type {_OF_SIZE[name]} without overflow")
    if query.ndim == 2:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: float != {_cpp_name(query)}")
    raise RuntimeError(f"expected scalar type Float but found {name}")


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


def _attend(query, key, value, *more, scale, is_causal, counted=False):
    """(batch, heads, L, Ev) from (batch, heads, L, E), (batch, groups, S, E), (batch, groups, S, Ev).

    Args:
        more: a mask, broadcast to (batch, heads, L, S): floating, or False for what is left out; and, where they are
            ``counted``, how many of the keys and values there are: what lies behind them is never read.
    """
    mask = more[0] if len(more) > counted else None
    if counted:
        inside = jnp.arange(key.shape[-2]) < more[-1]
        key, value = (jnp.where(inside[:, None], x, jnp.zeros((), x.dtype)) for x in (key, value))
        left_out = jnp.where(inside, np.float32(0), -np.inf)
        mask = left_out if mask is None else jnp.where(mask, left_out, -np.inf) if mask.dtype == bool else mask + left_out
    precise = opmath(query.dtype)
    weights = _weights(query, _of_each_head(query, key), mask, scale, is_causal)
    out = jnp.matmul(weights.astype(query.dtype), _of_each_head(query, value), preferred_element_type=precise)
    return out.astype(query.dtype)


def _attend_gradient(grad, query, key, value, *mask, **how):
    """The gradients of query, key and value."""
    return tuple(jax.vjp(lambda *x: _attend(*x, *mask, **how), query, key, value)[1](grad))


def _attend_mask_gradient(grad, query, key, value, mask, *, scale, is_causal):
    """The gradient of what is added to the scores, (batch, heads, L, S)."""
    precise = opmath(query.dtype)
    weights = _weights(query, _of_each_head(query, key), mask, scale, is_causal)
    slopes = _products(grad, _of_each_head(query, value), precise)
    return weights * (slopes - (weights * slopes).sum(-1, keepdims=True, dtype=precise))


def _of_each_head(query, x):
    """What groups of query heads share, repeated."""
    heads = query.shape[-3] if query.ndim > 2 else 1
    return x if query.ndim < 3 or x.shape[-3] in (1, heads) else jnp.repeat(x, heads // x.shape[-3], axis=-3)


def _weights(query, key, mask, scale, is_causal):
    precise = opmath(query.dtype)
    scores = _products(query, key, precise) * np.asarray(scale, precise)
    if mask is not None and mask.dtype == jnp.bool_:
        scores = scores + jnp.where(mask, np.zeros((), precise), np.asarray(-np.inf, precise))
    elif mask is not None:
        scores = scores + mask.astype(precise)
    if is_causal:
        rows, columns = scores.shape[-2:]
        kept = jnp.arange(rows)[:, None] >= jnp.arange(columns)
        scores = jnp.where(kept, scores, -jnp.inf)
    return _safe_softmax(scores)


def _products(query, key, dtype):
    """Of all queries with all keys, which are read as they lie: a transpose of a cache would be a copy for each token."""
    batch = tuple(range(query.ndim - 2))
    if query.shape[:-2] != key.shape[:-2]:
        return jnp.matmul(query, key.swapaxes(-1, -2), preferred_element_type=dtype)
    dims = ((query.ndim - 1,), (key.ndim - 1,)), (batch, batch)
    return lax.dot_general(query, key, dims, preferred_element_type=dtype)


def _mapped(own, first):
    """A batching rule that leaves a mask of all batches as it is; ``first``: where the queries are among the operands."""

    def rule(operands, axes, **how):
        size = next(x.shape[a] for x, a in zip(operands, axes, strict=True) if a is not None)
        flat = []
        for i, (x, axis) in enumerate(zip(operands, axes, strict=True)):
            if i == first + 3 and axis is None and x.shape[0] == 1:
                flat.append(x)
                continue
            x = jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
            if i == first + 3:
                x = jnp.broadcast_to(x, (size, flat[first].shape[0] // size, *x.shape[2:]))
            flat.append(x.reshape(-1, *x.shape[2:]))
        results = own().bind(*flat, **how)
        return [r.reshape(size, -1, *r.shape[1:]) for r in results], [0] * len(results)

    return rule


def _like(x, shape=None):
    return jax.ShapeDtypeStruct(shape or x.shape, x.dtype)


_attention = primitive(
    "attention", _attend, lambda q, k, v, *mask: [_like(q, (*q.shape[:3], v.shape[3]))], _mapped(lambda: _attention, 0)
)
_attention_gradient = primitive(
    "attention_gradient", _attend_gradient, lambda grad, *operands: [_like(x) for x in operands[:3]],
    _mapped(lambda: _attention_gradient, 1),
)
_attention_mask_gradient = primitive(
    "attention_mask_gradient", _attend_mask_gradient, lambda grad, q, k, *rest: [(*q.shape[:3], k.shape[2])],
    _mapped(lambda: _attention_mask_gradient, 1),
)
_OF_KERNELS = tuple(map(np.dtype, (np.float32, np.float16, jnp.bfloat16)))


def _operands(query, key, value, attn_mask, dropout_factor, enable_gqa):
    """What the primitives take, or None for what they do not have."""
    lead = query.shape[:-2]
    if dropout_factor is not None or query.dtype not in _OF_KERNELS or not all(x.size for x in (query, key, value)):
        return None
    if key.shape[:-2] != value.shape[:-2]:
        return None
    if key.shape[:-2] != lead and not (enable_gqa and key.ndim == query.ndim and key.shape[:-3] == lead[:-1]):
        return None
    found = [*map(_heads, (query, key, value))]
    if attn_mask is not None:
        mask = attn_mask.reshape(*(1,) * (query.ndim - attn_mask.ndim), *attn_mask.shape)
        if query.ndim > 4:
            mask = jnp.broadcast_to(mask, (*lead[:-1], *mask.shape[-3:]))
        found.append(_heads(mask))
    return found


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
    if attn_mask is not None:
        _check_mask(query, key, attn_mask)
    lead = query.shape[:-2]
    if not enable_gqa and not lead == key.shape[:-2] == value.shape[:-2]:
        lead = broadcast_shapes(broadcast_shapes(lead, key.shape[:-2]), value.shape[:-2])
        query, key, value = (jnp.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (query, key, value))
    operands = _operands(query, key, value, attn_mask, dropout_factor, enable_gqa)
    if operands is not None:
        (out,) = _attention.bind(*operands, scale=scale, is_causal=bool(is_causal))
        return out.reshape(*lead, query.shape[-2], value.shape[-1])
    if dropout_factor is None:
        return _attend(query, key, value, *[attn_mask] * (attn_mask is not None), scale=scale, is_causal=is_causal)
    precise = opmath(query.dtype)
    weights = _weights(query, _of_each_head(query, key), attn_mask, scale, is_causal) * dropout_factor.astype(precise)
    out = jnp.matmul(weights.astype(query.dtype), _of_each_head(query, value), preferred_element_type=precise)
    return out.astype(query.dtype)


def _scale(query, scale):
    return float(1.0 / np.sqrt(query.shape[-1] or 1) if scale is None else scale)


@scaled_dot_product_attention.derivative
def _(grad, *, query, key, value, attn_mask, dropout_factor, is_causal, scale, enable_gqa):
    operands = _operands(query, key, value, attn_mask, dropout_factor, enable_gqa)
    if operands is not None:
        operands, how = (_heads(grad), *operands), dict(scale=_scale(query, scale), is_causal=bool(is_causal))
        found = _attention_gradient.bind(*operands, **how)
        grads = [g.reshape(x.shape) for g, x in zip(found, (query, key, value), strict=True)]
        of_mask = None
        if attn_mask is not None and jnp.issubdtype(attn_mask.dtype, jnp.floating):
            (of_mask,) = _attention_mask_gradient.bind(*operands, **how)
            of_mask = _summed(of_mask.reshape(*query.shape[:-1], key.shape[-2]), attn_mask)
        return *grads, of_mask, None
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


def _summed(grad, like):
    """A gradient summed to the shape of what was broadcast."""
    extra = grad.ndim - like.ndim
    repeated = [d + extra for d, n in enumerate(like.shape) if n == 1 and grad.shape[d + extra] != 1]
    return grad.sum((*range(extra), *repeated), dtype=grad.dtype).reshape(like.shape).astype(like.dtype)


def _check_mask(query, key, mask):
    if query.ndim == 4 and mask.ndim < 2:
        raise IndexError(
            "Dimension out of range (expected to be in range of [-1, 0], but got -2)" if mask.ndim
            else "Dimension specified as -2 but tensor has no dimensions"
        )
    lead = query.shape[:-2]
    if query.ndim == key.ndim and lead != key.shape[:-2] and all(1 in pair for pair in zip(lead[-1:], key.shape[-3:-2])):
        lead = broadcast_shapes(lead, key.shape[:-2])
    shape = (*lead, query.shape[-2], key.shape[-2])
    found = broadcast_shapes(shape, mask.shape)
    if found != shape:
        raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(found)}")
