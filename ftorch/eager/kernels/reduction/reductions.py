"""Reductions: sums, products, extrema, logical reductions."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.dtype import get_default_dtype
from ...core.registry import op
from ...native import computed_once
from .._common import (
    Array,
    as_count,
    cast,
    dtype_name,
    is_complex,
    is_floating,
    is_integral,
    up,
    wrap_dim,
    wrap_dims,
)

# --- what reductions share -----------------------------------------------------------


def not_implemented(kernel: str, x: Array) -> NotImplementedError:
    """The exception for a dtype that a PyTorch kernel does not take."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{dtype_name(x.dtype)}'")


def require_elements(name: str, self: Array, dim: int | None) -> None:
    """Refuses to choose from nothing.

    Raises:
        IndexError: if the dimension has no elements.
        RuntimeError: if there is no dimension given and no element.
    """
    if dim is None:
        if self.size == 0:
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify "
                "the reduction dim with the 'dim' argument."
            )
    elif self.ndim and self.shape[dim] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")


def at_least_1d(x: Array) -> Array:
    return x.reshape(1) if x.ndim == 0 else x


def restore_dims(x: Array, ndim: int, dims: tuple[int, ...], keepdim: bool) -> Array:
    """A reduction's result, with the reduced dimensions back in place (of size 1)."""
    return x if keepdim or not ndim else jnp.expand_dims(x, dims)


def take_along(x: Array, index: Array, dim: int) -> Array:
    """``gather`` for indices known to be valid."""
    dim %= x.ndim
    others = tuple(d for d in range(x.ndim) if d != dim)
    if any(x.shape[d] != index.shape[d] for d in others):
        return jnp.take_along_axis(x, index, dim, mode="promise_in_bounds")
    numbers = lax.GatherDimensionNumbers((), (dim,), (dim,), others, others)
    where = lax.expand_dims(index, (index.ndim,))
    return lax.gather(x, where, numbers, (1,) * x.ndim, mode="promise_in_bounds")


_PUTS = {
    "set": lax.scatter, "add": lax.scatter_add, "multiply": lax.scatter_mul, "max": lax.scatter_max,
    "min": lax.scatter_min,
}


def put_along(method: str, x: Array, index: Array, src: Array, dim: int, **how) -> Array:
    """``scatter`` of as many elements as ``x`` has along all other dimensions; invalid indices are left out."""
    others = tuple(d for d in range(x.ndim) if d != dim)
    numbers = lax.ScatterDimensionNumbers((), (dim,), (dim,), others, others)
    return _PUTS[method](x, index[..., None], src, numbers, mode="drop", **how)


def positions(shape: tuple[int, ...], dim: int) -> Array:
    """Each element's index along ``dim``; 32 bits where they do, as XLA is faster with them."""
    dtype = jnp.int32 if shape[dim] < 2**31 else jnp.int64
    return lax.broadcasted_iota(dtype, shape, dim)


def select_gradient(grad: Array, self: Array, dim: int, keepdim: bool, indices: Array) -> Array:
    """The gradient of choosing one element per line: it goes to the chosen one."""
    if self.ndim == 0:
        return grad
    dim = wrap_dim(dim, self.ndim)
    grad = restore_dims(grad, self.ndim, (dim,), keepdim)
    indices = restore_dims(indices, self.ndim, (dim,), keepdim)
    chosen = positions(self.shape, dim) == indices
    return jnp.where(chosen, grad, jnp.zeros((), grad.dtype))


def spread_gradient(grad: Array, self: Array, dims, keepdim: bool, result: Array) -> Array:
    """The gradient of an extremum without index: shared evenly among the elements that tie."""
    dims = wrap_dims(dims, self.ndim)
    hit = self == restore_dims(result, self.ndim, dims, keepdim)
    count = jnp.sum(hit, dims, keepdims=True, dtype=grad.dtype)
    return hit * restore_dims(grad, self.ndim, dims, keepdim) / count


def spread_gradient_to_nan(grad: Array, self: Array, result: Array) -> Array:
    """The gradient of an extremum over everything; a NaN result stems from the NaN elements."""
    hit = (self == result) | (jnp.isnan(self) & jnp.isnan(result))
    return hit * (grad / jnp.sum(hit, dtype=grad.dtype))


def elements(shape, dims) -> int:
    """How many elements are reduced to one."""
    return math.prod(shape[d] for d in dims)


# --- sums and products ---------------------------------------------------------------


def _accumulate(reduce, self, dims, keepdim, dtype):
    """A sum or product: integers are counted in int64 unless a dtype is asked for."""
    if dtype is None:
        dtype = np.dtype(np.int64) if is_integral(self) else self.dtype
    x = cast(self, dtype)
    if dtype == np.bool_:
        logical = jnp.any if reduce is jnp.sum else jnp.all
        return logical(x, dims, keepdims=keepdim)
    x = up(x)
    return reduce(x, dims, keepdims=keepdim, dtype=x.dtype).astype(dtype)


@op("sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None)"
    " -> Tensor", forms="function method out")
def sum_dim(self, dim, keepdim=False, dtype=None):
    return _accumulate(jnp.sum, self, wrap_dims(dim, self.ndim), keepdim, dtype)


@op("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", forms="function method")
def sum(self, dtype=None):
    return sum_dim(self, None, dtype=dtype)


@op("prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    forms="function method out")
def prod_dim(self, dim, keepdim=False, dtype=None):
    return _accumulate(jnp.prod, self, wrap_dims(dim, self.ndim), keepdim, dtype)


@op("prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", forms="function method")
def prod(self, dtype=None):
    return _accumulate(jnp.prod, self, wrap_dims(None, self.ndim), False, dtype)


def _product_gradient(grad, self, dim, keepdim):
    """Each element's gradient is the product of the others: no division, so zeros are welcome."""
    x = up(self.astype(grad.dtype)).conj()
    if self.ndim == 0:
        return grad
    if dim is None:
        line, dim = x.reshape(-1), 0
    else:
        line, dim = x, wrap_dim(dim, self.ndim)
        grad = restore_dims(grad, self.ndim, (dim,), keepdim)
    one, edges = jnp.ones((), x.dtype), [(0, 0, 0)] * line.ndim

    def others(at, reverse):
        shifted = lax.pad(line, one, [*edges[:dim], at, *edges[dim + 1 :]])
        return lax.cumprod(shifted, dim, reverse=reverse)

    return (grad * (others((1, -1, 0), False) * others((-1, 1, 0), True)).reshape(self.shape))


@prod.derivative
def _(grad, *, self):
    return _product_gradient(grad, self, None, False)


@prod_dim.derivative
def _(grad, *, self, dim, keepdim):
    return _product_gradient(grad, self, dim, keepdim)


@op("nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    forms="function method out")
def nansum(self, dim=None, keepdim=False, dtype=None):
    if is_complex(self):
        raise RuntimeError("nansum on CPU does not support complex inputs")
    if is_floating(self):
        self = jnp.where(jnp.isnan(self), jnp.zeros((), self.dtype), self)
    return sum_dim(self, dim, keepdim, dtype=dtype)


@op("mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    forms="function method out")
def mean_dim(self, dim, keepdim=False, dtype=None):
    given, which = (self.dtype, "Input") if dtype is None else (dtype, "Optional")
    if not jnp.issubdtype(given, jnp.inexact):
        raise RuntimeError(
            f"mean(): could not infer output dtype. {which} dtype must be either a floating point "
            f"or complex dtype. Got: {dtype_name(given)}"
        )
    dims = wrap_dims(dim, self.ndim)
    x = up(cast(self, given))
    total = jnp.sum(x, dims, keepdims=keepdim)
    count = elements(self.shape, dims)
    return (total / as_count(count, x.dtype)).astype(given)


@op("mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", forms="function method out")
def mean(self, dtype=None):
    return mean_dim(self, None, dtype=dtype)


@op("nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)"
    " -> Tensor", forms="function method out")
def nanmean(self, dim=None, keepdim=False, dtype=None):
    if is_integral(self):
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{dtype_name(self.dtype)}"
        )
    total = nansum(self, dim, keepdim, dtype=dtype)
    dims = wrap_dims(dim, self.ndim)
    count = jnp.sum(~jnp.isnan(self), dims, keepdims=keepdim, dtype=np.int64)
    return (up(total) / count.astype(up(total).dtype)).astype(total.dtype)


@op("count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", forms="function method",
    differentiable=False)
def count_nonzero_dims(self, dim):
    return jnp.sum(self != 0, wrap_dims(dim, self.ndim), dtype=np.int64)


@op("count_nonzero(Tensor self, int? dim=None) -> Tensor", forms="function method",
    differentiable=False)
def count_nonzero(self, dim=None):
    return count_nonzero_dims(self, dim)


@op("logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", public=". special",
    forms="function method out")
def logsumexp(self, dim, keepdim=False):
    dims = wrap_dims(dim, self.ndim)
    if is_integral(self):
        self = self.astype(get_default_dtype().numpy)
    x = up(self)
    if elements(x.shape, dims) == 0:
        return jnp.log(jnp.sum(jnp.exp(x), dims, keepdims=keepdim)).astype(self.dtype)
    top = jnp.max(x.real, dims, keepdims=True)
    top = lax.stop_gradient(jnp.where(jnp.isinf(top), jnp.zeros((), top.dtype), top))
    result = jnp.log(jnp.sum(jnp.exp(x - top), dims, keepdims=True)) + top
    return (result if keepdim else jnp.squeeze(result, dims)).astype(self.dtype)


@logsumexp.derivative
def _(grad, *, self, dim, keepdim, result):
    dims = wrap_dims(dim, self.ndim)
    grad, result = (restore_dims(v, self.ndim, dims, keepdim) for v in (grad, result))
    return grad * jnp.exp(self - result).conj()


# --- logical reductions --------------------------------------------------------------


def _declare_logical(name, reduce):
    properties = {"forms": "function method out", "differentiable": False}

    def apply(self, dims, keepdim):
        found = reduce(self != 0, dims, keepdims=keepdim)
        # PyTorch keeps uint8 masks what they were before bool existed.
        return found.astype(np.uint8) if self.dtype == np.uint8 else found

    @op(f"{name}(Tensor self) -> Tensor", **properties)
    def full(self):
        return apply(self, None, False)

    @op(f"{name}.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", **properties)
    def one_dim(self, dim, keepdim=False):
        return apply(self, wrap_dims(dim, self.ndim), keepdim)

    @op(f"{name}.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", **properties)
    def dims(self, dim=None, keepdim=False):
        # Unlike everywhere else, no dimensions means none, not all.
        return apply(self, wrap_dims(dim, self.ndim, empty_is_all=False), keepdim)


_declare_logical("all", jnp.all)
_declare_logical("any", jnp.any)


# --- extrema -------------------------------------------------------------------------


def extremum(self: Array, dim: int, reduce) -> tuple[Array, Array]:
    """The extremum along ``dim`` (kept) and the index of the first, NaN counting as extreme.

    Two vectorised passes: XLA's reduction over (value, index) pairs is four times slower on CPUs. The host tier finds
    it in jaxprs by its name: it is a call where others are written out, too.
    """
    with jax.disable_jit(False):
        return _named_extremum(self, dim, reduce)


def _extremum(self, dim, reduce):
    best = computed_once(reduce(self, dim, keepdims=True))
    hit = self == best
    if is_floating(self):
        hit |= jnp.isnan(self)
    size = self.shape[dim]
    # The largest distance from the end: a maximum is found faster than a minimum.
    first = size - jnp.max(jnp.where(hit, size - positions(self.shape, dim), 0), dim, keepdims=True)
    return best, first.astype(np.int64)


_extremum.__name__ = "extremum"
_named_extremum = jax.jit(_extremum, static_argnums=(1, 2))


def _extremum_of_pairs(self, dim, reduce):
    """`extremum` in one pass. A GPU's programs may compute an element twice, with other bits, so that none equals the
    extremum."""
    index = (jnp.argmax if reduce is jnp.max else jnp.argmin)(self, dim, keepdims=True).astype(np.int64)
    return take_along(self, index, dim), index


def indices_along(self, dim):
    """`OpDef.bound` of indices along a dimension, or of all elements."""
    return 0, self.numel if dim is None else self.shape[dim] if self.ndim else 1


def _declare_extremum(name, reduce):
    @op(f"{name}(Tensor self) -> Tensor", forms="function method out")
    def full(self):
        if is_complex(self):
            raise not_implemented(f"{name}_all", self)
        require_elements(name, self, None)
        return reduce(self)

    @full.derivative
    def _(grad, *, self, result):
        return spread_gradient_to_nan(grad, self, result)

    def values_and_indices(self, dim, keepdim, find):
        dim = wrap_dim(dim, self.ndim)
        if is_complex(self):
            raise RuntimeError(f"{name}(): does not support complex input")
        require_elements(name, self, dim)
        x = at_least_1d(self)
        value, index = find(x, dim, reduce)
        if self.ndim == 0 or not keepdim:
            value, index = jnp.squeeze(value, dim), jnp.squeeze(index, dim)
        return value, index

    @op(f"{name}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        forms="function method out")
    def along(self, dim, keepdim=False):
        return values_and_indices(self, dim, keepdim, extremum)

    along.bound(indices_along)

    @along.backend("cuda")
    def _(self, dim, keepdim=False):
        return values_and_indices(self, dim, keepdim, _extremum_of_pairs)

    @along.derivative
    def _(grad, *, self, dim, keepdim, result):
        return select_gradient(grad[0], self, dim, keepdim, result[1])

    def indices(self, dim, keepdim, find):
        for bad, kind in ((is_complex(self), "complex"), (self.dtype == np.bool_, "bool")):
            if bad:
                raise RuntimeError(f"arg{name}(): does not support {kind} input")
        if dim is None:
            if self.size == 0:
                raise IndexError(
                    f"arg{name}(): Expected reduction dim to be specified for input.numel() == 0."
                )
            index = find(self.reshape(-1), 0, reduce)[1]
            return index.reshape((1,) * self.ndim if keepdim else ())
        dim = wrap_dim(dim, self.ndim)
        require_elements(f"arg{name}", self, dim)
        index = find(at_least_1d(self), dim, reduce)[1]
        return index if keepdim and self.ndim else jnp.squeeze(index, dim)

    @op(f"arg{name}(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
        forms="function method out", differentiable=False)
    def arg(self, dim=None, keepdim=False):
        return indices(self, dim, keepdim, extremum)

    arg.bound(indices_along)

    @arg.backend("cuda")
    def _(self, dim=None, keepdim=False):
        return indices(self, dim, keepdim, _extremum_of_pairs)

    @op(f"a{name}(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
        forms="function method out")
    def plain(self, dim=(), keepdim=False):
        dims = wrap_dims(dim, self.ndim)
        if is_complex(self):
            raise not_implemented(f"{name}_values_cpu", self)
        if dim is None or dim == ():
            require_elements(f"a{name}", self, None)
        for d in dims:
            require_elements(f"a{name}", self, d)
        return reduce(self, dims, keepdims=keepdim)

    @plain.derivative
    def _(grad, *, self, dim, keepdim, result):
        return spread_gradient(grad, self, dim, keepdim, result)


_declare_extremum("max", jnp.max)
_declare_extremum("min", jnp.min)


def _declare_binary_extremum(name, choose, loses):
    @op(f"{name}.other(Tensor self, Tensor other) -> Tensor", promote="common",
        forms="function method out", layout="pointwise")
    def of_two(self, other):
        if is_complex(self):
            raise RuntimeError(f"{name}imum not implemented for complex tensors.")
        return choose(self, other)

    @of_two.derivative
    def _(grad, *, self, other):
        # Neither loses to a NaN, so both get the whole gradient then.
        half = jnp.where(self == other, grad / 2, grad)
        zero = jnp.zeros((), grad.dtype)
        return jnp.where(loses(self, other), zero, half), jnp.where(loses(other, self), zero, half)


_declare_binary_extremum("max", jnp.maximum, jnp.less)
_declare_binary_extremum("min", jnp.minimum, jnp.greater)


@op("aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    forms="function method out")
def aminmax(self, dim=None, keepdim=False):
    if dim is None:
        if self.size == 0:
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has "
                "no identity."
            )
    else:
        dim = wrap_dim(dim, self.ndim)
        if self.ndim and self.shape[dim] == 0:
            raise IndexError(f"aminmax: Expected reduction dim {dim} to have non-zero size.")
    if is_complex(self):
        raise not_implemented("aminmax_cpu", self)
    dims = wrap_dims(dim, self.ndim)
    return jnp.min(self, dims, keepdims=keepdim), jnp.max(self, dims, keepdims=keepdim)


@aminmax.derivative
def _(grad, *, self, dim, keepdim, result):
    low, high = (spread_gradient(g, self, dim, keepdim, r) for g, r in zip(grad, result))
    return low + high
