"""Selecting by rank: the largest elements, quantiles of whole numbers of elements, the most frequent."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from ... import native
from ...core.registry import op
from .._common import is_complex, is_floating, wrap_dim
from .._primitives import primitive
from .reductions import (
    at_least_1d,
    indices_along,
    not_implemented,
    positions,
    require_elements,
    select_gradient,
    spread_gradient_to_nan,
    take_along,
)
from .sorting import scatter_gradient, sort_key, stable_argsort

# --- PyTorch's choice among equal elements -----------------------------------------------


def first_of_lines(x, *, descending, count, rank, in_order):
    """Positions of the first ``count`` elements of (batch, n, m) along the middle, or of that of a ``rank``.

    Here equal elements are taken in order of appearance, on the CPU as PyTorch's algorithms take them.
    """
    del in_order
    order = stable_argsort(x, 1, descending)
    return order[:, :count] if rank is None else order[:, rank : rank + 1]


_lines_first = primitive("select", first_of_lines)


def _chooses_like_pytorch(x, dim):
    return native.available and x.size and x.shape[dim] < 2**31


def _chosen(x, dim, descending=False, count=1, rank=None, in_order=True):
    """`first_of_lines` along a dimension of any array."""
    if is_floating(x) and x.dtype.itemsize <= 4:
        ordered = x.astype(np.float32)
    else:
        ordered = sort_key(x)
        narrow = x.dtype.itemsize <= (2 if x.dtype.kind == "u" else 4)
        ordered = ordered.astype(np.int32 if narrow else np.int64)
    shape = x.shape
    lines = ordered.reshape(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))
    (place,) = _lines_first.bind(
        lines, descending=descending, count=count, rank=rank, in_order=in_order
    )
    return place.reshape(*shape[:dim], -1, *shape[dim + 1 :])


# --- the largest elements ----------------------------------------------------------------


def _topk(self, k, dim, largest, sorted, on_cpu=False, by_turns=False):
    dim = wrap_dim(dim, self.ndim)
    if not 0 <= k <= (self.shape[dim] if self.ndim else 1):
        raise RuntimeError("selected index k out of range")
    if is_complex(self):
        raise RuntimeError(" topk does not support complex dtypes on CPU")
    if self.dtype == np.bool_:
        raise RuntimeError("topk does not support bool dtypes on CPU")
    if self.ndim == 0:
        return self, jnp.zeros((), np.int64)
    size = self.shape[dim]
    if on_cpu and k and _chooses_like_pytorch(self, dim):
        order = _chosen(self, dim, largest, count=k, in_order=sorted)
    elif by_turns and 0 < k <= _MOST_TURNS and size >= _LONG and self.dtype.itemsize <= (2 if self.dtype.kind == "u" else 4):
        order = _by_turns(self, k, dim, largest)
    elif self.dtype.itemsize <= (4 if is_floating(self) else 2) and k * 8 <= size:
        order = _few_largest(self, k, dim, largest)
    else:
        order = lax.slice_in_dim(stable_argsort(self, dim, descending=largest), 0, k, axis=dim)
    return take_along(self, order, dim), order


def _few_largest(x, k, dim, largest):
    """XLA's float32 top-k, which compares bits: NaN and zero get the bits that fit the order."""
    x = x.astype(jnp.float32)
    x = jnp.where(x == 0, jnp.zeros((), x.dtype), x)
    x = jnp.where(jnp.isnan(x), jnp.full((), np.nan, x.dtype), x)
    x = jnp.moveaxis(x if largest else -x, dim, -1)
    return jnp.moveaxis(lax.top_k(x, k)[1], -1, dim).astype(np.int64)


_MOST_TURNS, _LONG = 50, 1024


def _by_turns(x, k, dim, largest):
    """One after the other: the largest of those below the last.

    On one H200 10 of each of 1,024 rows of 4,096 take .11 ms instead of .39 by XLA's top-k, of one row of a million .05
    instead of 1.6; 50 of each of 32 rows of 50,304 .20 instead of .33.
    """
    key = sort_key(x)
    low = np.int64(0xFFFFFFFF)
    # Of equal elements the first has the largest low half.
    packed = ((key if largest else ~key).astype(np.int64) << 32) | (low - lax.broadcasted_iota(np.int64, x.shape, dim))
    found = [packed.max(dim, keepdims=True)]
    while len(found) < k:
        found.append(jnp.where(packed < found[-1], packed, np.iinfo(np.int64).min).max(dim, keepdims=True))
    return low - (jnp.concatenate(found, dim) & low)


@op("topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True)"
    " -> (Tensor values, Tensor indices)", forms="function method out")
def topk(self, k, dim=-1, largest=True, sorted=True):
    return _topk(self, k, dim, largest, sorted)


@topk.backend("cpu")
def _(self, k, dim=-1, largest=True, sorted=True):
    return _topk(self, k, dim, largest, sorted, on_cpu=True)


@topk.backend("cuda")
def _(self, k, dim=-1, largest=True, sorted=True):
    return _topk(self, k, dim, largest, sorted, by_turns=True)


topk.bound(indices_along)


@topk.derivative
def _(grad, *, self, dim, result):
    return scatter_gradient(grad[0], self, dim, result[1])


# --- selection by rank ---------------------------------------------------------------


def _choose(self, dim, keepdim, order, rank):
    """Value and index of the element of a rank along each line."""
    x = at_least_1d(self)
    index = take_along(order, rank, dim)
    value = take_along(x, index, dim)
    if self.ndim == 0 or not keepdim:
        value, index = jnp.squeeze(value, dim), jnp.squeeze(index, dim)
    return value, index


def _line_rank(x, dim, rank):
    """The same rank for every line."""
    return jnp.full([1 if d == dim else n for d, n in enumerate(x.shape)], rank, np.int64)


def _kthvalue(self, k, dim, keepdim, on_cpu=False):
    dim = wrap_dim(dim, self.ndim)
    require_elements("kthvalue", self, dim)
    if not 1 <= k <= (self.shape[dim] if self.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}")
    if is_complex(self) or self.dtype == np.bool_:
        raise not_implemented("kthvalue_cpu", self)
    x = at_least_1d(self)
    if on_cpu and _chooses_like_pytorch(x, dim):
        return _choose(self, dim, keepdim, _chosen(x, dim, rank=k - 1), _line_rank(x, dim, 0))
    return _choose(self, dim, keepdim, stable_argsort(x, dim), _line_rank(x, dim, k - 1))


@op("kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False)"
    " -> (Tensor values, Tensor indices)", forms="function method out")
def kthvalue(self, k, dim=-1, keepdim=False):
    return _kthvalue(self, k, dim, keepdim)


kthvalue.bound(indices_along)


@kthvalue.backend("cpu")
def _(self, k, dim=-1, keepdim=False):
    return _kthvalue(self, k, dim, keepdim, on_cpu=True)


def _median_rank(x, dim, ignore_nan):
    """The lower middle; NaN, sorted last, is the median where it counts."""
    size = x.shape[dim]
    if not is_floating(x):
        return _line_rank(x, dim, (size - 1) // 2)
    numbers = jnp.sum(~jnp.isnan(x), dim, keepdims=True, dtype=np.int64)
    if ignore_nan:
        return jnp.maximum((numbers - 1) // 2, 0)
    return jnp.where(numbers < size, numbers, (size - 1) // 2)


def _declare_median(name, ignore_nan):
    @op(f"{name}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        forms="function method out")
    def along(self, dim, keepdim=False):
        dim = wrap_dim(dim, self.ndim)
        require_elements("median", self, dim)
        if is_complex(self) or self.dtype == np.bool_:
            raise not_implemented("median_out", self)
        x = at_least_1d(self)
        order = stable_argsort(x, dim)
        return _choose(self, dim, keepdim, order, _median_rank(x, dim, ignore_nan))

    along.bound(indices_along)

    @op(f"{name}(Tensor self) -> Tensor", forms="function method")
    def full(self):
        if is_complex(self) or self.dtype == np.bool_:
            raise not_implemented("median_cpu", self)
        if self.size == 0:
            nothing = np.nan if is_floating(self) else jnp.iinfo(self.dtype).min
            return jnp.full((), nothing, self.dtype)
        return along.kernel(self.reshape(-1), 0)[0]

    @full.derivative
    def _(grad, *, self, result):
        return spread_gradient_to_nan(grad, self, result)

    return along


_median_dim = _declare_median("median", ignore_nan=False)
_nanmedian_dim = _declare_median("nanmedian", ignore_nan=True)


@op("mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    forms="function method out")
def mode(self, dim=-1, keepdim=False):
    dim = wrap_dim(dim, self.ndim)
    require_elements("mode", self, dim)
    if is_complex(self):
        raise not_implemented("mode_cpu", self)
    x = at_least_1d(self)
    order = stable_argsort(x, dim)
    key = take_along(sort_key(x), order, dim)
    place = positions(x.shape, dim)
    first = lax.slice_in_dim(jnp.ones_like(key, bool), 0, 1, axis=dim)
    new = lax.slice_in_dim(key, 1, None, axis=dim) != lax.slice_in_dim(key, 0, -1, axis=dim)
    starts = jnp.where(jnp.concatenate([first, new], dim), place, 0)
    # A run is longest where its last element lies furthest from its start; argmax takes the
    # smallest value among equally long ones.
    run = place - lax.cummax(starts, dim)
    return _choose(self, dim, keepdim, order, jnp.argmax(run, dim, keepdims=True))


mode.bound(indices_along)


for _definition in (kthvalue, _median_dim, _nanmedian_dim, mode):

    @_definition.derivative
    def _(grad, *, self, dim, keepdim, result):
        return select_gradient(grad[0], self, dim, keepdim, result[1])
