"""Vector norms and the distances and normalisations built on them."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.registry import op
from .._common import (
    Array,
    broadcast_shapes,
    default_float,
    dtype_name,
    is_complex,
    is_floating,
    is_integral,
    product,
    refuse_bool_difference,
    up,
    wrap_dim,
    wrap_dims,
)
from .._primitives import table_of
from .reductions import not_implemented, restore_dims

# --- the norm and its direction ------------------------------------------------------


def _power(x, p):
    return x if p == 1 else x ** (int(p) if float(p).is_integer() else p)


def _ratio(x, y):
    """x / y, 0 where y is, in every derivative too."""
    zero = y == 0
    ratio = x / jnp.where(zero, jnp.ones((), y.dtype), y)
    return jnp.where(zero, jnp.zeros((), ratio.dtype), ratio)


def direction(x: Array, norm: Array, p: float, dims, *, share: bool = True) -> Array:
    """The gradient of the p-norm, with PyTorch's subgradient 0 where there is none.

    Args:
        norm: the norm, its reduced dimensions kept.
        share: whether elements that tie for the largest share its gradient (PyTorch's norms) or
            each get all of it (its distances).
    """
    if p == 0:
        return jnp.zeros_like(x)
    size = jnp.abs(x)
    if p == 2:
        return _ratio(x, norm)
    sign = _ratio(x, size) if is_complex(x) else jnp.sign(x)
    if p == 1:
        return sign
    if math.isinf(p):
        hit = (size == norm) | (jnp.isnan(size) & jnp.isnan(norm))
        count = jnp.sum(hit, dims, keepdims=True, dtype=norm.dtype) if share else 1
        return sign * (hit / count).astype(norm.dtype)
    if p < 1:
        nonzero = jnp.where(size == 0, jnp.ones((), size.dtype), size)
        return sign * nonzero ** (p - 1) * norm ** (1 - p)
    along = sign * size ** (p - 1) if p < 2 else x * _power(size, p - 2)
    return _ratio(along, _power(norm, p - 1))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3))
def p_norm(x: Array, p: float, dims: tuple[int, ...], share: bool = True) -> Array:
    """The p-norm over ``dims``, which are kept, with PyTorch's derivative (see `direction`)."""
    size = jnp.abs(x)
    if p == 0:
        return jnp.sum(x != 0, dims, keepdims=True, dtype=size.dtype)
    if math.isinf(p):
        return (jnp.max if p > 0 else jnp.min)(size, dims, keepdims=True)
    if p == 1:
        return jnp.sum(size, dims, keepdims=True)
    if p == 2:
        squares = x.real**2 + x.imag**2 if is_complex(x) else x**2
        return jnp.sqrt(jnp.sum(squares, dims, keepdims=True))
    return jnp.sum(_power(size, p), dims, keepdims=True) ** (1 / p)


@p_norm.defjvp
def _(p, dims, share, primals, tangents):
    (x,), (tangent,) = primals, tangents
    norm = p_norm(x, p, dims, share)
    along = direction(x, norm, p, dims, share=share)
    return norm, jnp.sum((along.conj() * tangent).real, dims, keepdims=True)


def _require_identity(self, p, dim, dims):
    """Raises PyTorch's error for norms of nothing that are not 0."""
    if self.size or not (p < 0 or p == math.inf):
        return
    what = f"linalg.vector_norm cannot compute the {p:g} norm on"
    why = "the operation does not have an identity"
    if dim is None or dim == ():
        raise RuntimeError(f"{what} an empty tensor because {why}")
    for d in dims:
        if self.shape[d] == 0:
            raise RuntimeError(
                f"{what} the dimension {d}because this dimension is empty and {why}"
            )


def check_norm_dtype(self, dtype, name="linalg.vector_norm"):
    name = f"{name}:"
    if is_integral(self):
        raise RuntimeError(
            f"{name} Expected a floating point or complex tensor as input. Got "
            f"{dtype_name(self.dtype)}"
        )
    if dtype is None or dtype == self.dtype:
        return
    given = dtype_name(dtype)
    if not jnp.issubdtype(dtype, jnp.inexact):
        raise RuntimeError(f"{name} dtype should be floating point or complex, but got {given}")
    kind = "complex" if is_complex(self) else "real"
    if (dtype.kind == "c") != is_complex(self):
        raise RuntimeError(f"{name} dtype should be {kind} for {kind} inputs, but got {given}")
    if dtype.itemsize <= self.dtype.itemsize:
        raise RuntimeError(
            f"{name} the dtype of the input ({dtype_name(self.dtype)}) should be convertible "
            f"without narrowing to the specified dtype ({given})"
        )


@op("linalg_vector_norm(Tensor self, float ord=2, int[1]? dim=None, bool keepdim=False, *,"
    " ScalarType? dtype=None) -> Tensor", forms="function out")
def linalg_vector_norm(self, ord=2, dim=None, keepdim=False, dtype=None):
    check_norm_dtype(self, dtype)
    x = self if dtype is None else self.astype(dtype)
    dims = wrap_dims(dim, x.ndim)
    _require_identity(x, ord, dim, dims)
    norm = p_norm(up(x), ord, dims).astype(x.real.dtype)
    return norm if keepdim else jnp.squeeze(norm, dims)


@linalg_vector_norm.derivative
def _(grad, *, self, ord, dim, keepdim, result):
    dims = wrap_dims(dim, self.ndim)
    grad, norm = (restore_dims(v, self.ndim, dims, keepdim) for v in (grad, result))
    x = self.astype(jnp.promote_types(up(self).dtype, norm.dtype))
    return grad * direction(x, up(norm), ord, dims)


# --- norms of slices and differences -------------------------------------------------


@op("renorm(Tensor self, float p, int dim, float maxnorm) -> Tensor",
    forms="function method inplace out")
def renorm(self, p, dim, maxnorm):
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if self.ndim < 2:
        raise RuntimeError(
            f"renorm: input needs at least 2 dimensions, got {self.ndim} dimensions"
        )
    dim = wrap_dim(dim, self.ndim)
    check_norm_dtype(self, None)
    norm = p_norm(up(self), p, tuple(d for d in range(self.ndim) if d != dim))
    factor = jnp.where(norm > maxnorm, maxnorm / (norm + 1e-7), jnp.ones((), norm.dtype))
    return (up(self) * factor).astype(self.dtype)


@op("dist(Tensor self, Tensor other, float p=2) -> Tensor", promote="common",
    forms="function method")
def dist(self, other, p=2):
    if self.dtype == np.bool_:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator "
            "instead."
        )
    difference = self - other
    if is_integral(difference):
        raise RuntimeError(
            "norm(): input dtype should be either floating point or complex. Got "
            f"{dtype_name(difference.dtype)} instead."
        )
    return linalg_vector_norm(difference, p)


@op("normalize(Tensor input, float p=2.0, int[1]? dim=1, float eps=1e-12) -> Tensor",
    public="nn.functional", forms="function out", layout="preserve")
def normalize(input, p=2.0, dim=1, eps=1e-12):
    norm = linalg_vector_norm(input, p, dim, True)
    return input / jnp.where(norm < eps, jnp.full((), eps, norm.dtype), norm)


@op("cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
    promote="common", public=". nn.functional")
def cosine_similarity(x1, x2, dim=1, eps=1e-08):
    if not is_floating(x1):
        raise RuntimeError(
            "expected common dtype to be floating point, yet common dtype is "
            f"{dtype_name(x1.dtype)}"
        )
    x1, x2 = jnp.broadcast_arrays(x1, x2)
    dims = (wrap_dim(dim, x1.ndim),) if x1.ndim else wrap_dims((dim,), 0)

    def unit(x):
        norm = linalg_vector_norm(x, 2, dims, True)
        # PyTorch clamps the norm's value only: below eps the gradient still goes through it.
        return x / jnp.where(norm < eps, eps + (norm - lax.stop_gradient(norm)), norm)

    products = up(unit(x1) * unit(x2))
    return jnp.sum(products, dims).astype(x1.dtype)


@op("pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=1e-06, bool keepdim=False)"
    " -> Tensor", promote="common", public=". nn.functional")
def pairwise_distance(x1, x2, p=2.0, eps=1e-06, keepdim=False):
    refuse_bool_difference(x1.dtype == np.bool_)
    difference = x1 - x2  # of integers: as integers
    if is_integral(difference):
        difference = difference.astype(default_float())
    dims = (difference.ndim - 1,) if difference.ndim else ()
    return linalg_vector_norm(difference + np.asarray(eps, difference.dtype), p, dims, keepdim)


# --- distance matrices ---------------------------------------------------------------

_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": True,
    "donot_use_mm_for_euclid_dist": False,
}


_FEW_ROWS = 25  # so many are not worth a product


def _differences(x1, x2):
    return x1[..., :, None, :] - x2[..., None, :, :]


def _distances(x1, x2, p):
    """All pairs' distances, ``[..., P, R]``."""
    if x1.shape[-1] == 0:
        batch = jnp.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        return jnp.zeros((*batch, x1.shape[-2], x2.shape[-2]), x1.dtype)
    difference = up(_differences(x1, x2))
    return p_norm(difference, p, (difference.ndim - 1,), False)[..., 0].astype(x1.dtype)


@jax.custom_jvp
def _root(x):
    return jnp.sqrt(jnp.maximum(x, jnp.zeros((), x.dtype)))


@_root.defjvp
def _(primals, tangents):
    root = _root(primals[0])
    return root, tangents[0] * _ratio(jnp.full((), 0.5, root.dtype), root)


def _euclidean_by_products(x1, x2):
    """sqrt(a² + b² - 2ab): one matrix product instead of P x R x M differences."""
    squares1 = jnp.sum(x1**2, -1)[..., :, None]
    squares2 = jnp.sum(x2**2, -1)[..., None, :]
    return _root(squares1 + squares2 - 2 * product(x1, jnp.swapaxes(x2, -1, -2)))


@op("cdist(Tensor x1, Tensor x2, float p=2.,"
    " str? compute_mode='use_mm_for_euclid_dist_if_necessary') -> Tensor")
def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: "
            f"{x2.shape[-1]}"
        )
    for name, x in (("X1", x1), ("X2", x2)):
        if not is_floating(x):
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {name} got: {dtype_name(x.dtype)}"
            )
    if x1.dtype != x2.dtype:
        raise RuntimeError(
            f"expected scalar type {dtype_name(x1.dtype)} but found {dtype_name(x2.dtype)}"
        )
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    _check_batches(x1, x2)
    products = _MODES[compute_mode]
    if products is None:
        products = x1.shape[-2] > _FEW_ROWS or x2.shape[-2] > _FEW_ROWS
    if p == 2 and products and x1.shape[-1]:
        return _euclidean_by_products(up(x1), up(x2)).astype(x1.dtype)
    return _distances(x1, x2, p)


@cdist.by_regime
def _(x1, x2):
    return any(n > _FEW_ROWS for x in (x1, x2) for n in x.shape[-2:-1])


def _check_batches(x1, x2):
    broadcast_shapes(x1.shape[:-2], x2.shape[:-2])


@cdist.derivative
def _(grad, *, x1, x2, p, result):
    difference = _differences(x1, x2)
    along = direction(difference, result[..., None], p, (difference.ndim - 1,), share=False)
    each = grad[..., None] * along
    return jnp.sum(each, -2), -jnp.sum(each, -3)


@op("pdist(Tensor input, float p=2.) -> Tensor", public=". nn.functional")
def pdist(input, p=2.0):
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not is_floating(input):
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    if input.dtype.itemsize < 4:
        raise not_implemented("pdist", input)
    size = input.shape[0]
    # Half of the work is thrown away, but it is dense work: gathered pairs would be slower still.
    return _distances(input, input, p).reshape(-1)[table_of(_above_diagonal, size)]


def _above_diagonal(size):
    """Where in a square matrix, flat, the elements above its diagonal are."""
    rows, columns = np.triu_indices(size, 1)
    return np.asarray(rows * size + columns, np.int64)
