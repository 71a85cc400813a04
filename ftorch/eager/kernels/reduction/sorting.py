"""Sorting, selecting by rank, and what is built on sorted data: search, membership, uniqueness."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.geometry import pointwise_stride
from ...core.registry import op
from .._common import Array, as_common, dtype_name, is_complex, is_floating, wrap_dim
from .reductions import (
    at_least_1d,
    indices_along,
    not_implemented,
    put_along,
    take_along,
)

# --- order ---------------------------------------------------------------------------

_LOW = np.int64(0xFFFFFFFF)  # the half of a packed key that holds the position
_SIGN = np.int64(np.iinfo(np.int64).min)


def sort_key(x: Array) -> Array:
    """Signed integers ordered as ``x`` is: NaN above everything, -0.0 equal to 0.0."""
    if is_floating(x):
        bits = {2: jnp.int16, 4: jnp.int32, 8: jnp.int64}[x.dtype.itemsize]
        x = jnp.where(x == 0, jnp.zeros((), x.dtype), x)
        x = jnp.where(jnp.isnan(x), jnp.full((), np.nan, x.dtype), x)
        key = lax.bitcast_convert_type(x, bits)
        # Negative floats count downwards in their magnitude bits.
        return jnp.where(key < 0, key ^ jnp.iinfo(bits).max, key)
    if x.dtype == np.uint64:
        return lax.bitcast_convert_type(x, jnp.int64) ^ _SIGN
    return x if jnp.issubdtype(x.dtype, jnp.signedinteger) else x.astype(jnp.int64)


def stable_argsort(x: Array, dim: int, descending: bool = False) -> Array:
    """The stable sorting permutation (int64), equal elements in order of appearance.

    Key and position are packed into one int64: XLA sorts single integers about five times faster
    than it sorts (key, index) pairs by a comparator. 64-bit keys take two passes, low half first.
    """
    key = sort_key(x)
    if descending:
        key = ~key
    index = lax.broadcasted_iota(jnp.int64, x.shape, dim)

    def order(high_half):
        packed = (high_half.astype(jnp.int64) << 32) | index
        return lax.sort(packed, dimension=dim, is_stable=False) & _LOW

    if x.dtype.itemsize <= 4:
        return order(key)
    # Its sign bit flipped, the unsigned low half sorts as a signed number.
    by_low = order((key ^ 0x80000000) & _LOW)
    return take_along(by_low, order(take_along(key >> 32, by_low, dim)), dim)


def scatter_gradient(grad: Array, self: Array, dim: int, indices: Array, *, unique=True) -> Array:
    """The gradient of gathering ``indices`` along ``dim``."""
    if self.ndim == 0:
        return grad
    dim = wrap_dim(dim, self.ndim)
    zeros = jnp.zeros(self.shape, grad.dtype)
    return put_along("add", zeros, indices, grad, dim, unique_indices=unique)


def _sort(self, dim, descending):
    if is_complex(self):
        raise RuntimeError(" Sort does not support complex dtypes on CPU")
    dim = wrap_dim(dim, self.ndim)
    x = at_least_1d(self)
    order = stable_argsort(x, dim, descending)
    return take_along(x, order, dim).reshape(self.shape), order.reshape(self.shape)


def _sorted_strides(inputs, static, shapes):
    """Those of a dense copy of what is sorted."""
    g = inputs[0]
    return [g.stride if g.is_dense else pointwise_stride(g.shape, (g,))] * 2


_sorted_strides.is_basic = True  # type: ignore[attr-defined]


@op("sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False)"
    " -> (Tensor values, Tensor indices)", forms="function method out", layout=_sorted_strides)
def sort_stable(self, stable, dim=-1, descending=False):
    return _sort(self, dim, descending)


@op("sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    forms="function method out", layout=_sorted_strides)
def sort(self, dim=-1, descending=False):
    return _sort(self, dim, descending)


@op("argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
    forms="function method out", differentiable=False)
def argsort_stable(self, stable, dim=-1, descending=False):
    return _sort(self, dim, descending)[1]


@op("argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor", forms="function method",
    differentiable=False)
def argsort(self, dim=-1, descending=False):
    return _sort(self, dim, descending)[1]


for _definition in (sort_stable, sort, argsort_stable, argsort):
    _definition.bound(indices_along)


@op("msort(Tensor self) -> Tensor", forms="function method out")
def msort(self):
    return _sort(self, 0, False)[0]


for _definition in (sort_stable, sort):

    @_definition.derivative
    def _(grad, *, self, dim, result):
        return scatter_gradient(grad[0], self, dim, result[1])


# --- search and membership -----------------------------------------------------------


def bisect(sequence: Array, values: Array, right: bool) -> Array:
    """Insertion points (int64) into the sorted last dimension of ``sequence``.

    The search is the textbook one, with PyTorch's comparisons, so that NaN ends up where it does.
    """
    size = sequence.shape[-1]
    shape = jnp.shape(values)
    if size == 0:
        return jnp.zeros(shape, np.int64)

    def halve(_, bounds):
        low, high = bounds
        middle = (low + high) // 2
        at = jnp.minimum(middle, size - 1)
        found = sequence[at] if sequence.ndim == 1 else take_along(sequence, at, -1)
        beyond = ~(found > values if right else found >= values) & (low < high)
        stays = beyond | (low >= high)
        return jnp.where(beyond, middle + 1, low), jnp.where(stays, high, middle)

    bounds = jnp.zeros(shape, np.int64), jnp.full(shape, size, np.int64)
    return lax.fori_loop(0, size.bit_length(), halve, bounds)[0]


def _sizes(x):
    return str(list(x.shape))


def _check_search(sequence, values_shape, right, side, sorter):
    """Raises what PyTorch raises for arguments that do not fit each other."""
    name = "torch.searchsorted():"
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(f"{name} side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise RuntimeError(
            f"{name} side and right can't be set to opposites, got side of left while right was "
            "True"
        )
    if sequence.ndim == 0:
        raise RuntimeError(
            f"{name} boundaries tensor should have positive dimension, but got 0 dimension"
        )
    if not values_shape and sequence.ndim != 1:
        raise RuntimeError(
            f"{name} input value can be a scalar only when boundaries tensor dimension is 1, but "
            f"we got boundaries tensor dim({sequence.ndim}) and input value's dim(0) numel(1)"
        )
    if sequence.ndim != 1 and sequence.shape[:-1] != values_shape[:-1]:
        raise RuntimeError(
            f"{name} boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            f"boundaries tensor and input value tensor must match, but we got boundaries tensor "
            f"{_sizes(sequence)} and input value tensor {list(values_shape)}"
        )
    if sorter is not None:
        if sorter.shape != sequence.shape:
            raise RuntimeError(
                f"{name} boundary and sorter must have the same size, but got boundary tensor "
                f"{_sizes(sequence)}and got sorter tensor {_sizes(sorter)}"
            )
        if sorter.dtype != np.int64:
            raise RuntimeError(
                f"{name} sorter must be a tensor of long dtype but got dtype "
                f"{dtype_name(sorter.dtype)}"
            )
    if is_complex(sequence) or sequence.dtype == np.bool_:
        raise not_implemented("searchsorted_out_cpu", sequence)


def _search(sequence, values, out_int32, right, side=None, sorter=None):
    _check_search(sequence, jnp.shape(values), right, side, sorter)
    if sorter is not None:
        sequence = take_along(sequence, sorter, -1)
    found = bisect(sequence, values, right or side == "right")
    return found.astype(np.int32) if out_int32 else found


def _check_sorter(sorter, sorted_sequence):
    size = sorted_sequence.shape[-1] if sorted_sequence.ndim else 1
    if sorter is not None and sorter.size and (sorter.min() < 0 or sorter.max() >= size):
        raise RuntimeError("torch.searchsorted(): sorter index out of range")


@op("searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False,"
    " bool right=False, str? side=None, Tensor? sorter=None) -> Tensor", forms="function out",
    differentiable=False)
def searchsorted(sorted_sequence, self, out_int32=False, right=False, side=None, sorter=None):
    return _search(*as_common(sorted_sequence, self), out_int32, right, side, sorter)


@op("searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False,"
    " bool right=False, str? side=None, Tensor? sorter=None) -> Tensor", forms="function out",
    differentiable=False)
def searchsorted_scalar(sorted_sequence, self, out_int32=False, right=False, side=None,
                        sorter=None):
    return _search(sorted_sequence, self, out_int32, right, side, sorter)


for _definition in (searchsorted, searchsorted_scalar):
    _definition.check(_check_sorter)


def _check_boundaries(boundaries):
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")


@op("bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False)"
    " -> Tensor", forms="function out", differentiable=False)
def bucketize(self, boundaries, out_int32=False, right=False):
    _check_boundaries(boundaries)
    return searchsorted(boundaries, self, out_int32=out_int32, right=right)


@op("bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False)"
    " -> Tensor", differentiable=False)
def bucketize_scalar(self, boundaries, out_int32=False, right=False):
    _check_boundaries(boundaries)
    return searchsorted_scalar(boundaries, self, out_int32=out_int32, right=right)


def _require_ordered(*tensors):
    for x in tensors:
        if is_complex(x) or x.dtype == np.bool_:
            raise RuntimeError(f"Unsupported input type encountered for isin(): {dtype_name(x.dtype)}")


def _is_member(elements, tests, invert):
    _require_ordered(elements, tests)
    elements, tests = as_common(elements, tests.reshape(-1))
    if tests.size < 10 * max(elements.size, 1) ** 0.145:  # NumPy's rule, and PyTorch's
        found = jnp.any(elements[..., None] == tests, -1)
    else:
        ordered = take_along(tests, stable_argsort(tests, 0), 0)
        at = jnp.minimum(bisect(ordered, elements, right=False), tests.size - 1)
        found = ordered[at] == elements
    return ~found if invert else found


@op("isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False,"
    " bool invert=False) -> Tensor", forms="function out", differentiable=False)
def isin(elements, test_elements, assume_unique=False, invert=False):
    return _is_member(elements, test_elements, invert)


@op("isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False,"
    " bool invert=False) -> Tensor", forms="function out", differentiable=False)
def isin_scalar(elements, test_element, assume_unique=False, invert=False):
    _require_ordered(elements)
    return (elements != test_element) if invert else (elements == test_element)


@op("isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False,"
    " bool invert=False) -> Tensor", forms="function out", differentiable=False)
def isin_of_scalar(element, test_elements, assume_unique=False, invert=False):
    _require_ordered(test_elements)
    found = jnp.any(test_elements == element)
    return ~found if invert else found


# --- uniqueness (host: the result's size depends on the values) ----------------------


def _comparable(x):
    """A NumPy array that NumPy sorts and compares (ml_dtypes' floats it does not)."""
    if x.dtype.kind == "c":
        raise not_implemented("unique", x)
    return x.astype(np.float32) if x.dtype.itemsize == 2 and is_floating(x) else x


def _groups(new):
    """(number of the group, size of each group) of elements in order, given where groups start."""
    starts = np.flatnonzero(new)
    return np.cumsum(new) - 1, np.diff(np.append(starts, new.size))


def _changes(lines):
    """Where a line differs from the one before it; NaN differs from everything."""
    new = np.ones(len(lines), bool)
    if len(lines) > 1:
        new[1:] = (lines[1:] != lines[:-1]).any(tuple(range(1, lines.ndim)))
    return new


def _unique_lines(lines, order, return_inverse, return_counts):
    """Which lines to keep, each line's group, and the groups' sizes, for lines in an order."""
    nothing = np.zeros(0, np.int64)
    new = _changes(_comparable(lines)[order])
    group, counts = _groups(new)
    inverse = nothing
    if return_inverse:
        inverse = np.empty(len(order), np.int64)
        inverse[order] = group
    return order[new], inverse, counts if return_counts else nothing


def _as_lines(name, x, dim):
    """The dimension in front; refuses lines without elements."""
    if x.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = wrap_dim(dim, x.ndim)
    empty = x.shape.count(0)
    if x.shape[dim] == 0:
        if empty != 1:
            raise RuntimeError(
                f"Number of zero sized dimensions is more than one, so {name} cannot be applied "
            )
    elif empty:
        raise RuntimeError(
            f"There are 0 sized dimensions, and they aren't selected, so {name} cannot be applied"
        )
    return np.moveaxis(x, dim, 0), dim


@op("_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False)"
    " -> (Tensor, Tensor, Tensor)", host=True)
def _unique2(self, sorted=True, return_inverse=False, return_counts=False):
    flat = self.reshape(-1)
    if flat.dtype.kind in "iu" and not return_inverse:
        ordered = np.sort(flat)
        new = _changes(ordered)
        return ordered[new], np.zeros(0, np.int64), _groups(new)[1] if return_counts else np.zeros(0, np.int64)
    # The first of zeros of both signs is kept; of integers any.
    order = np.argsort(_comparable(flat), kind=None if flat.dtype.kind in "iu" else "stable")
    kept, inverse, counts = _unique_lines(flat, order, return_inverse, return_counts)
    return flat[kept], inverse.reshape(self.shape) if return_inverse else inverse, counts


_INSERTED = 16  # how many lines at most the C++ library sorts by insertion


def _insertion_order(lines):
    """The order of lines sorted by insertion, where an element that is NaN decides nothing: then the way of sorting shows."""
    def is_before(i, j):
        decisive = (lines[i] < lines[j]) | (lines[i] > lines[j])
        return decisive.any() and lines[i][decisive.argmax()] < lines[j][decisive.argmax()]

    order: list[int] = []
    for i in range(len(lines)):
        at = len(order)
        if order and is_before(i, order[0]):
            at = 0
        while at and is_before(i, order[at - 1]):
            at -= 1
        order.insert(at, i)
    return np.array(order)


@op("unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False,"
    " bool return_counts=False) -> (Tensor, Tensor, Tensor)", host=True, forms="")
def unique_dim(self, dim, sorted=True, return_inverse=False, return_counts=False):
    lines, dim = _as_lines("unique", self, dim)
    order = np.arange(len(lines))
    if lines.size:
        keys = _comparable(lines).reshape(len(lines), -1)
        has_nan = keys.dtype.kind == "f" and len(keys) <= _INSERTED and np.isnan(keys).any()
        order = _insertion_order(keys) if has_nan else np.lexsort(keys.T[::-1])
    kept, inverse, counts = _unique_lines(lines, order, return_inverse, return_counts)
    return np.moveaxis(lines[kept], 0, dim), inverse, counts


@op("unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False,"
    " int? dim=None) -> (Tensor, Tensor, Tensor)", host=True, forms="")
def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    lines, at = (self.reshape(-1), 0) if dim is None else _as_lines("unique_consecutive", self, dim)
    order = np.arange(len(lines))
    kept, inverse, counts = _unique_lines(lines, order, return_inverse, return_counts)
    if return_inverse and dim is None:
        inverse = inverse.reshape(self.shape)
    return np.moveaxis(lines[kept], 0, at), inverse, counts


def _without_derivative(definition):
    name = definition.schema.name

    @definition.derivative
    def _(grad):
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")


for _definition in (_unique2, unique_dim, unique_consecutive):
    _without_derivative(_definition)
