"""Cumulative operators, differences and the trapezoidal rule."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ... import native
from ...core.dtype import from_numpy, get_default_dtype, promote_types
from ...core.registry import op
from .._common import (
    broadcast_shapes,
    cast,
    in_order,
    is_complex,
    is_floating,
    is_integral,
    up,
    wrap_dim,
)
from .._primitives import primitive
from ..shape.joining import joined
from .reductions import at_least_1d, not_implemented, positions, take_along
from .sorting import scatter_gradient

# --- cumulative operators ------------------------------------------------------------


def _along(self, dim, dtype, name, scan):
    dim = wrap_dim(dim, self.ndim)
    if dtype is None:
        dtype = np.dtype(np.int64) if is_integral(self) else self.dtype
    x = at_least_1d(up(cast(self, dtype)))
    if x.dtype == np.bool_:
        if self.ndim and self.size:  # PyTorch asks no kernel about nothing, nor about one element
            raise not_implemented(f"{name}_out_cpu", x)
        return x.reshape(self.shape)
    return scan(x, dim).reshape(self.shape).astype(dtype)


def _one_by_one(whole, step, start, dtypes):
    """A cumulative function in PyTorch's order and, for floating point numbers, double precision.

    Programs for the CPU have a kernel of this package for ``whole`` of ``dtypes``. Without it a loop is several times
    faster than XLA's own scans, which are made for many cores.
    """

    def scan(x, dim):
        if native.available and x.dtype in dtypes:
            return whole(x, dim)
        wide = {"f": np.float64, "c": np.complex128}.get(x.dtype.kind, x.dtype)
        rows = jnp.moveaxis(x, dim, 0)

        def add(total, row):
            total = step(total, row.astype(wide))
            return total, total.astype(x.dtype)

        _, scanned = lax.scan(add, jnp.full(rows.shape[1:], start, wide), rows)
        return jnp.moveaxis(scanned, 0, dim)

    return scan


def _declare_cumulative(name, scan, on_cpu):
    @op(f"{name}(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        forms="function method inplace out")
    def cumulate(self, dim, dtype=None):
        return _along(self, dim, dtype, name, scan)

    @cumulate.backend("cpu")
    def _(self, dim, dtype=None):
        return _along(self, dim, dtype, name, on_cpu)

    return cumulate


_declare_cumulative("cumsum", lax.cumsum, _one_by_one(lax.cumsum, jnp.add, 0, native.SUMMED))
_cumprod = _declare_cumulative(
    "cumprod", lax.cumprod, _one_by_one(lax.cumprod, jnp.multiply, 1, native.NUMBERS)
)


def _reverse_recurrence(factor, term, dim):
    """``s[i] = term[i] + factor[i] * s[i + 1]`` along ``dim``, from the end."""

    def compose(later, own):
        return later[0] * own[0], own[1] + own[0] * later[1]

    return lax.associative_scan(compose, (factor, term), reverse=True, axis=dim)[1]


def _shift(x, dim, by, fill):
    """``x`` moved by one place along ``dim``, ``fill`` entering at the end left open."""
    low, high = (1, -1) if by > 0 else (-1, 1)
    edges = [(0, 0, 0)] * x.ndim
    edges[dim] = (low, high, 0)
    return lax.pad(x, jnp.asarray(fill, x.dtype), edges)


@_cumprod.derivative
def _(grad, *, self, dim, result):
    # Without a division: zeros need no special case, in this derivative and in the next.
    if self.ndim == 0:
        return grad
    dim = wrap_dim(dim, self.ndim)
    x, before = up(self.astype(result.dtype)).conj(), up(result).conj()
    return _shift(before, dim, 1, 1) * _reverse_recurrence(_shift(x, dim, -1, 0), up(grad), dim)


def _located(scan, x, dim):
    """The extrema so far along a dimension, and where they are."""
    # An element is the extremum so far if it equals it: ties go to the last, as in PyTorch.
    hit = x == scan(x, dim)
    if is_floating(x):
        hit |= jnp.isnan(x)
    index = lax.cummax(jnp.where(hit, positions(x.shape, dim), 0), dim).astype(np.int64)
    return take_along(x, index, dim), index


def _declare_cumulative_extremum(name, scan):
    native_lines = primitive(
        name, lambda x: _located(scan, x, 1), lambda x: [x, jax.ShapeDtypeStruct(x.shape, np.int64)]
    )

    def extrema(self, dim, on_cpu=False):
        if self.ndim == 0 and dim not in (-1, 0):
            raise IndexError(f"{name}(): Expected reduction dim -1 or 0 for scalar but got {dim}")
        dim = wrap_dim(dim, self.ndim)
        if is_complex(self):
            raise not_implemented(f"{name}_cpu", self)
        x = at_least_1d(self)
        if x.size == 0:
            return self, jnp.zeros(self.shape, np.int64)
        if on_cpu and native.available and x.dtype in native.NUMBERS:
            lines = x.reshape(math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))
            value, index = native_lines.bind(lines)
        else:
            value, index = _located(scan, x.astype(np.uint8) if x.dtype == np.bool_ else x, dim)
        return value.reshape(self.shape).astype(self.dtype), index.reshape(self.shape)

    @op(f"{name}(Tensor self, int dim) -> (Tensor values, Tensor indices)",
        forms="function method out")
    def cumulate(self, dim):
        return extrema(self, dim)

    @cumulate.backend("cpu")
    def _(self, dim):
        return extrema(self, dim, on_cpu=True)

    @cumulate.derivative
    def _(grad, *, self, dim, result):
        return scatter_gradient(grad[0], self, dim, result[1], unique=False)


_declare_cumulative_extremum("cummax", lax.cummax)
_declare_cumulative_extremum("cummin", lax.cummin)


@op("logcumsumexp(Tensor self, int dim) -> Tensor", forms="function method out")
def logcumsumexp(self, dim):
    dim = wrap_dim(dim, self.ndim)
    if is_integral(self):
        raise not_implemented("logcumsumexp_out_cpu", self)
    x = at_least_1d(up(self))
    scanned = (_complex_logcumsumexp if is_complex(x) else lax.cumlogsumexp)(x, dim)
    return scanned.reshape(self.shape).astype(self.dtype)


@logcumsumexp.derivative
def _(grad, *, self, dim, result):
    # The sum of grad[j] * exp(self[i] - result[j]) over j >= i, in steps whose exponents (for real
    # numbers) are never positive.
    if self.ndim == 0:
        return grad
    dim = wrap_dim(dim, self.ndim)
    x, total = up(self), up(result)
    decay = jnp.exp(total - _shift(total, dim, -1, np.inf)).conj()
    return jnp.exp(x - total).conj() * _reverse_recurrence(decay, up(grad), dim)


def _complex_logcumsumexp(x, dim):
    """In PyTorch's order of summation: it decides which branch of the logarithm comes out."""

    def add(total, item):
        smaller = item.real < total.real
        low, high = jnp.where(smaller, item, total), jnp.where(smaller, total, item)
        added = jnp.log1p(jnp.exp(low - high)) + high
        ends = (low.real == high.real) & jnp.isinf(high.real)  # both infinite: their difference says nothing
        added = jnp.where(ends, jnp.where(low.real < 0, low, jnp.log(jnp.exp(low) + jnp.exp(high))), added)
        unknown = jnp.isnan(total.real) | jnp.isnan(total.imag) | jnp.isnan(item.real) | jnp.isnan(item.imag)
        total = jnp.where(unknown, jnp.asarray(complex(jnp.nan, jnp.nan), x.dtype), added)
        return total, total

    lines = jnp.moveaxis(x, dim, 0)
    _, sums = lax.scan(add, jnp.full(lines.shape[1:], -jnp.inf, x.dtype), lines)
    return jnp.moveaxis(sums, 0, dim)


# --- differences ---------------------------------------------------------------------


def _parts(x, dim):
    """All but the first, and all but the last elements."""
    size = x.shape[dim]
    after = lax.slice_in_dim(x, min(1, size), size, axis=dim)
    return after, lax.slice_in_dim(x, 0, max(size - 1, 0), axis=dim)


def _common(*arrays):
    common = from_numpy(arrays[0].dtype)
    for x in arrays[1:]:
        common = promote_types(common, from_numpy(x.dtype))
    return [x.astype(common.numpy) for x in arrays]


def _check_joined(self, dim, extra):
    if extra.ndim != self.ndim:
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for d in range(self.ndim):
        if d != dim and extra.shape[d] != self.shape[d]:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input "
                f"except along the differencing dimension; input.size({d}) = {self.shape[d]}, but "
                f"got tensor.size({d}) = {extra.shape[d]}"
            )


def _differences(inputs, static, shapes):
    """Of what is joined the differences lie as it does: images' channels together, or all in order."""
    return in_order(inputs, static, shapes) if len(inputs) == 1 else joined(inputs, static, shapes)


_differences.is_basic = True  # type: ignore[attr-defined]


@op("diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
    forms="function method out", layout=_differences)
def diff(self, n=1, dim=-1, prepend=None, append=None):
    if self.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    dim = wrap_dim(dim, self.ndim)
    for extra in (prepend, append):
        if extra is not None:
            _check_joined(self, dim, extra)
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    if n == 0:
        return self
    x = jnp.concatenate(_common(*(p for p in (prepend, self, append) if p is not None)), dim)
    for _ in range(min(n, x.shape[dim])):
        after, before = _parts(x, dim)
        x = after ^ before if x.dtype == np.bool_ else after - before
    return x


# --- the trapezoidal rule ------------------------------------------------------------


def _not_real(name):
    return RuntimeError(f"{name}: Currently, we only support dx as a real number.")


def _check_trapezoid(name, y, dim, *, x=None, dx=None):
    given, which = ((y,), "`y`") if x is None else ((y, x), "`x` or `y`")
    if any(v.dtype == np.bool_ for v in given):
        raise RuntimeError(f"{name}: received a bool input for {which}, but bool is not supported")
    if dx is not None and jnp.issubdtype(dx.dtype, jnp.complexfloating):
        raise _not_real(name)
    if y.ndim == 0:
        raise IndexError(
            f"Dimension specified as {dim} but tensor has no dimensions"
            if name == "trapezoid"
            else "slice() cannot be applied to a 0-dim tensor."
        )


def _areas_between(name, y, x, dim):
    """The areas of the trapezoids over given sample points."""
    dim = wrap_dim(dim, y.ndim)
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        x = x.reshape([-1 if d == dim else 1 for d in range(y.ndim)])
    elif x.ndim < y.ndim:
        x = x.reshape((1,) * (y.ndim - x.ndim) + x.shape)
    y, x = _common(y, x)
    x_after, x_before = _parts(x, dim)
    y_after, y_before = _parts(y, dim)
    broadcast_shapes(y_after.shape, x_after.shape)
    return _halves((x_after - x_before) * (y_after + y_before)), dim


def _halves(x):
    if is_integral(x):
        x = x.astype(get_default_dtype().numpy)
    return x / 2


def _areas_spaced(y, dx, dim):
    """The areas of trapezoids of one width, given as a 0-d array."""
    dim = wrap_dim(dim, y.ndim)
    after, before = _parts(y, dim)
    if is_integral(y) and jnp.issubdtype(dx.dtype, jnp.floating):
        dx = dx.astype(get_default_dtype().numpy)
    return _halves((after + before) * dx), dim


def _cumulate(areas, dim):
    return lax.cumsum(up(areas), dim).astype(areas.dtype)


def _integrate(areas, dim):
    return jnp.sum(up(areas), dim).astype(areas.dtype)


def _declare_trapezoid(name, finish, public_name):
    @op(f"{public_name}.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor")
    def over_points(y, x, dim=-1):
        _check_trapezoid(name, y, dim, x=x)
        return finish(*_areas_between(name, y, x, dim))

    @op(f"{public_name}.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor")
    def over_steps(y, dx=1, dim=-1):
        dx = jnp.asarray(dx)
        _check_trapezoid(name, y, dim, dx=dx)
        return finish(*_areas_spaced(y, dx, dim))

    @over_steps.check
    def _(dx):
        if isinstance(dx, bool):
            raise _not_real(name)


_declare_trapezoid("trapezoid", _integrate, "trapezoid")
_declare_trapezoid("trapezoid", _integrate, "trapz")
_declare_trapezoid("cumulative_trapezoid", _cumulate, "cumulative_trapezoid")
