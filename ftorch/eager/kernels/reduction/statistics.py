"""Quantiles, histograms, covariance."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.dtype import from_numpy, get_default_dtype, promote_types
from ...core.registry import op
from .._common import dtype_name, is_complex, is_floating, is_integral, product, up, wrap_dim
from .reductions import not_implemented, take_along
from .sorting import bisect, stable_argsort

# --- quantiles -----------------------------------------------------------------------

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _check_quantile(self, q, interpolation):
    name = "quantile()"
    if self.size == 0:
        raise RuntimeError(f"{name} input tensor must be non-empty")
    if q.ndim > 1:
        raise RuntimeError(f"{name} q must be a scalar or 1D tensor")
    if self.dtype not in (np.float32, np.float64):
        raise RuntimeError(f"{name} input tensor must be either float or double dtype")
    if q.dtype != self.dtype:
        raise RuntimeError(f"{name} q tensor must be same dtype as the input tensor")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name} interpolation must be one of linear, lower, higher, midpoint or nearest, but "
            f"got {interpolation}"
        )


def _lerp(low, high, weight):
    # From the nearer end, so that a weight of 1 gives exactly `high`.
    step = high - low
    return jnp.where(weight < 0.5, low + weight * step, high - step * (1 - weight))


def _quantile(self, q, dim, keepdim, interpolation, ignore_nan):
    _check_quantile(self, q, interpolation)
    ndim = self.ndim
    if dim is None or ndim == 0:
        if dim is not None:
            wrap_dim(dim, 0)
        x, kept = self.reshape(-1), (1,) * ndim
    else:
        dim = wrap_dim(dim, ndim)
        x, kept = jnp.moveaxis(self, dim, -1), self.shape[:dim] + (1,) + self.shape[dim + 1 :]
    last = jnp.full((), x.shape[-1] - 1, x.dtype)
    numbers = jnp.sum(~jnp.isnan(x), -1, keepdims=True)
    if ignore_nan:
        rank = jnp.maximum(q.reshape(-1) * (numbers - 1).astype(x.dtype), jnp.zeros((), x.dtype))
    else:
        # NaN is sorted last: where there is one, it is every quantile.
        rank = jnp.where(numbers < x.shape[-1], last, q.reshape(-1) * last)
    order = stable_argsort(x, x.ndim - 1)

    def at(rank):
        return take_along(x, take_along(order, rank.astype(np.int64), -1), -1)

    low, high = jnp.floor(rank), jnp.ceil(rank)
    exact = {"lower": low, "higher": high, "nearest": jnp.round(rank)}.get(interpolation)
    if exact is not None:
        result = at(exact)
    else:
        weight = jnp.full_like(rank, 0.5) if interpolation == "midpoint" else rank - low
        result = _lerp(at(low), at(high), weight)
    return jnp.moveaxis(result, -1, 0).reshape(q.shape + (kept if keepdim else x.shape[:-1]))


def _declare_quantile(name, ignore_nan):
    options = "int? dim=None, bool keepdim=False, *, str interpolation='linear'"

    @op(f"{name}(Tensor self, Tensor q, {options}) -> Tensor", forms="function method out")
    def at_tensor(self, q, dim=None, keepdim=False, interpolation="linear"):
        return _quantile(self, q, dim, keepdim, interpolation, ignore_nan)

    @at_tensor.check
    def _(q):
        if not np.all((q >= 0) & (q <= 1)):
            raise RuntimeError("quantile() q values must be in the range [0, 1]")

    # A traced Scalar, unlike ATen's float: asking for another quantile compiles nothing.
    @op(f"{name}.scalar(Tensor self, Scalar q, {options}) -> Tensor",
        forms="function method out")
    def at_number(self, q, dim=None, keepdim=False, interpolation="linear"):
        q = jnp.asarray(q).astype(self.dtype)
        return _quantile(self, q, dim, keepdim, interpolation, ignore_nan)

    @at_number.check
    def _(q):
        if not 0 <= q <= 1:
            raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q:g}")


_declare_quantile("quantile", ignore_nan=False)
_declare_quantile("nanquantile", ignore_nan=True)


# --- counting ------------------------------------------------------------------------


@op("bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor",
    forms="function method", host=True, differentiable=False)
def bincount(self, weights=None, minlength=0):
    if self.dtype.kind not in "iu":
        raise not_implemented("bincount_cpu", self)
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if self.ndim == 1 and self.size == 0:
        return np.zeros(minlength, np.int64)
    if self.ndim != 1 or self.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        return np.bincount(self, minlength=minlength).astype(np.int64)
    if weights.shape != self.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    dtype = np.float32 if weights.dtype == np.float32 else np.float64
    return np.bincount(self, weights.real.astype(np.float64), minlength).astype(dtype)


# --- histograms ----------------------------------------------------------------------

def _c_name(x):
    return from_numpy(x.dtype).c_name


def _outer_edges(low, high, x):
    """The range of a histogram: as given, of the data, or made wide enough to have bins."""
    if x.size:
        low, high = (jnp.where(low == high, v, e) for v, e in ((x.min(), low), (x.max(), high)))
    else:
        low, high = jnp.where(low == high, 0, low), jnp.where(low == high, 1, high)
    flat = low == high
    return jnp.where(flat, low - 0.5, low), jnp.where(flat, high + 0.5, high)


def _linspace(low, high, steps):
    """Both ends exact, as torch.linspace: counted from the nearer one."""
    index = jnp.arange(steps, dtype=low.dtype)
    step = (high - low) / max(steps - 1, 1)
    return jnp.where(index < steps // 2, low + step * index, high - step * (steps - 1 - index))


def _require_bins(bins, dim):
    if bins <= 0:
        raise RuntimeError(
            f"torch.histogram(): bins must be > 0, but got {bins} for dimension {dim}"
        )


def _data_range(x):
    """The range of data, NaN if there is one."""
    return (np.min(x), np.max(x)) if x.size else (0.0, 1.0)


@op("histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
    forms="function method out", differentiable=False)
def histc(self, bins=100, min=0, max=0):
    if not is_floating(self):
        kind = "linspace_cpu" if self.dtype == np.bool_ else "aminmax_cpu" if is_complex(self) else "histogram_cpu"
        raise not_implemented(kind, self)
    _require_bins(bins, 0)
    x = up(self).reshape(-1)
    low, high = (jnp.asarray(v).astype(x.dtype) for v in (min, max))
    low, high = _outer_edges(low, high, x)
    inside = (x >= low) & (x <= high)
    limits = jnp.finfo(self.dtype)

    def rounded(v):
        # Which bin is a matter of rounding, and PyTorch rounds each step to the data's dtype.
        return lax.reduce_precision(v, limits.nexp, limits.nmant)

    place = rounded(rounded(rounded(x - low) * bins) / rounded(high - low))
    index = jnp.clip(place.astype(np.int64), 0, bins - 1)  # the last bin includes its right edge
    return jnp.zeros(bins, x.dtype).at[index].add(inside.astype(x.dtype)).astype(self.dtype)


@histc.check
def _(self, min, max):
    low, high = (min, max) if min != max else _data_range(self)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")


def _check_histogram(self, weight, bins):
    """Raises what PyTorch raises for ``[N, D]`` data; ``bins`` are numbers or arrays, one per D."""
    name = "torch.histogramdd:"
    if weight is not None:
        if weight.dtype != self.dtype:
            raise RuntimeError(
                f"{name} if weight tensor is provided, input tensor and weight tensor should have "
                f"the same dtype, but got input({_c_name(self)}), and weight({_c_name(weight)})"
            )
        if weight.shape != self.shape[:-1]:
            raise RuntimeError(
                f"{name} if weight tensor is provided it should have the same shape as the input "
                f"tensor excluding its innermost dimension, but got input with shape "
                f"{list(self.shape)} and weight with shape {list(weight.shape)}"
            )
    for dim, given in enumerate(bins):
        if isinstance(given, int):
            _require_bins(given, dim)
            continue
        tail = f"in the bins tensor for dimension {dim}"
        if given.dtype != self.dtype:
            raise RuntimeError(
                f"{name} input tensor and bins tensors should have the same dtype, but got input "
                f"with dtype {_c_name(self)} and bins for dimension {dim} with dtype "
                f"{_c_name(given)}"
            )
        if given.ndim != 1:
            raise RuntimeError(
                f"{name} bins tensor should have one dimension, but got {given.ndim} dimensions "
                f"{tail}"
            )
        if given.size == 0:
            raise RuntimeError(
                f"{name} bins tensor should have at least 1 element, but got 0 elements {tail}"
            )
        _require_bins(given.size - 1, dim)
    if self.dtype not in (np.float32, np.float64):
        raise not_implemented("histogramdd", self)


def _check_range(range, ndim):
    """Raises for a range that is not low and high for each dimension."""
    if range is None:
        return
    name = "torch.histogramdd:"
    if len(range) != 2 * ndim:
        raise RuntimeError(
            f"{name} for a {ndim}-dimensional histogram range should have {2 * ndim} elements, "
            f"but got {len(range)}"
        )
    for dim, (low, high) in enumerate(zip(range[::2], range[1::2])):
        if low > high:
            raise RuntimeError(
                f"{name} min should not exceed max, but got min {low:g} max {high:g} for "
                f"dimension {dim}"
            )


def _check_finite_data(self, range, ndim):
    if range is None and self.size:
        for dim, column in enumerate(self.reshape(-1, ndim).T):
            low, high = _data_range(column)
            if not (math.isfinite(low) and math.isfinite(high)):
                raise RuntimeError(
                    f"torch.histogramdd: dimension {dim}'s range [{low:g}, {high:g}] is not finite"
                )


def _bin_edges(points, bins, range):
    """Equally spaced edges for each column of ``points``."""
    edges = []
    for dim, count in enumerate(bins):
        low, high = (0.0, 0.0) if range is None else range[2 * dim : 2 * dim + 2]
        low, high = jnp.asarray(low, points.dtype), jnp.asarray(high, points.dtype)
        if range is None or low.size == 0:
            low, high = _outer_edges(low, high, points[:, dim])
        elif range[2 * dim] == range[2 * dim + 1]:
            low, high = low - 0.5, high + 0.5
        edges.append(_linspace(low, high, count + 1))
    return edges


def _count_into(points, edges, weight, density):
    """The histogram of points given the edges in each dimension."""
    counts = tuple(e.size - 1 for e in edges)
    inside, cells = True, []
    for x, edge in zip(points.T, edges):
        inside &= (x >= edge[0]) & (x <= edge[-1])
        # The last bin includes its right edge.
        cells.append(jnp.clip(bisect(edge, x, right=True) - 1, 0, edge.size - 2))
    amount = jnp.where(inside, 1 if weight is None else weight.reshape(-1), 0)
    hist = jnp.zeros(counts, points.dtype).at[tuple(cells)].add(amount.astype(points.dtype))
    if density:
        hist = hist / jnp.sum(hist)
        for dim, edge in enumerate(edges):
            widths = jnp.diff(edge)
            hist = hist / widths.reshape([-1 if d == dim else 1 for d in range(len(edges))])
    return hist


@op("histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False)"
    " -> (Tensor hist, Tensor bin_edges)", forms="function method out",
    differentiable=False)
def histogram_edges(self, bins, weight=None, density=False):
    points = self.reshape(-1, 1)
    _check_histogram(points, weight if weight is None else weight.reshape(-1), (bins,))
    return _count_into(points, [bins], weight, density), bins


@op("histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None,"
    " bool density=False) -> (Tensor hist, Tensor bin_edges)", forms="function method out",
    differentiable=False)
def histogram(self, bins=100, range=None, weight=None, density=False):
    points = self.reshape(-1, 1)
    _check_histogram(points, weight if weight is None else weight.reshape(-1), (bins,))
    _check_range(range, 1)
    edges = _bin_edges(points, (bins,), range)
    return _count_into(points, edges, weight, density), edges[0]


@histogram.check
def _(self, range):
    _check_finite_data(self, range, 1)


def _points(self):
    if self.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    return self.reshape(-1, self.shape[-1])


def _check_dimensions(self, bins):
    if len(bins) != self.shape[-1]:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )


@op("_histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None,"
    " bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    differentiable=False)
def _histogramdd(self, bins, range=None, weight=None, density=False):
    points = _points(self)
    _check_dimensions(self, bins)
    _check_histogram(self, weight, bins)
    _check_range(range, len(bins))
    edges = _bin_edges(points, bins, range)
    return _count_into(points, edges, weight, density), *edges


@_histogramdd.check
def _(self, range):
    _check_finite_data(self, range, self.shape[-1])


@op("_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None,"
    " bool density=False) -> Tensor", differentiable=False)
def _histogramdd_from_bin_tensors(self, bins, *, weight=None, density=False):
    points = _points(self)
    _check_dimensions(self, bins)
    _check_histogram(self, weight, bins)
    return _count_into(points, bins, weight, density)


# --- covariance ----------------------------------------------------------------------


def _check_weights(name, weights, observations, is_right_dtype, kind):
    if weights is None:
        return
    if weights.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
            f"{weights.ndim} dimensions"
        )
    if not is_right_dtype(weights):
        raise RuntimeError(
            f"cov(): expected {name} to have {kind} dtype but got {name} with "
            f"{dtype_name(weights.dtype)} dtype"
        )
    if weights.size != observations:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the "
            f"input but got {weights.size} != {observations}"
        )


def _as_variables(name, self):
    """Rows of observations, one row per variable."""
    if self.ndim > 2:
        raise RuntimeError(
            f"{name}(): expected input to have two or fewer dimensions but got an input with "
            f"{self.ndim} dimensions"
        )
    if self.dtype == np.bool_:
        raise RuntimeError(f"{name}(): bool dtype is not supported for input")
    x = self if self.ndim == 2 else self.reshape(1, -1)
    return x.astype(get_default_dtype().numpy) if is_integral(x) else x


@op("cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None)"
    " -> Tensor", forms="function method")
def cov(self, correction=1, fweights=None, aweights=None):
    x = _as_variables("cov", self)
    observations = x.shape[1]
    _check_weights("fweights", fweights, observations,
                   lambda w: is_integral(w) and w.dtype != np.bool_, "integral")
    _check_weights("aweights", aweights, observations, is_floating, "floating point")
    if aweights is not None:
        x = x.astype(promote_types(from_numpy(x.dtype), from_numpy(aweights.dtype)).numpy)
    result_dtype = x.dtype
    x = up(x)
    real = x.real.dtype
    weights = [w.reshape(-1).astype(real) for w in (fweights, aweights) if w is not None]
    if not weights:
        total = jnp.full((), observations, real)
        freedom = jnp.full((), max(observations - correction, 0), real)
        weighted = x
    else:
        weight = math.prod(weights)
        total = jnp.sum(weight)
        lost = correction
        if aweights is not None:
            lost = correction * jnp.sum(weight * weights[-1]) / total
        freedom = jnp.maximum(total - lost, jnp.zeros((), real))
        weighted = x * weight
    x = x - jnp.sum(weighted, 1, keepdims=True) / total
    found = product(x if not weights else x * weight, x.T.conj())
    return jnp.squeeze(found / freedom).astype(result_dtype)


@cov.notice
def _(self, correction, fweights, aweights):
    observations = self.shape[-1] if self.shape else 1
    if observations > correction or fweights is not None or aweights is not None or len(self.shape) > 2:
        return None
    return (
        "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations."
    )


@cov.check
def _(fweights, aweights):
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is not None and weights.size and weights.min() < 0:
            raise RuntimeError(f"cov(): {name} cannot be negative")
    given = [w.reshape(-1) for w in (fweights, aweights) if w is not None]
    if given and len({w.size for w in given}) == 1 and given[0].size and not math.prod(given).sum():
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")


def _clip(x):
    """To [-1, 1], the whole gradient passing at the ends as through torch.clamp."""
    one = jnp.ones((), x.dtype)
    return jnp.where(x > one, one, jnp.where(x < -one, -one, x))


@op("corrcoef(Tensor self) -> Tensor", forms="function method")
def corrcoef(self):
    c = cov(_as_variables("corrcoef", self))
    if c.ndim == 0:
        return c / c
    deviation = jnp.sqrt(jnp.diagonal(c).real).astype(c.real.dtype)
    c = c / deviation[:, None] / deviation[None, :]
    return lax.complex(_clip(c.real), _clip(c.imag)) if is_complex(c) else _clip(c)
