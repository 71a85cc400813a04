"""Rules of sorting and of selecting by rank."""

from __future__ import annotations

import numpy as np

from .pointwise import total_order
from .rules import is_extended, rule


def sortable(x):
    """What orders an array as XLA's comparison does where NumPy's would not: zeros equal, NaN last."""
    return x.astype(np.float32) if is_extended(x.dtype) else x


def order_of(key, axis, stable=True):
    """The permutation that sorts along a dimension; equal elements stay in their order."""
    key = sortable(key)
    if key.shape[axis] < _FEW or key.size == 0:
        return np.argsort(key, axis, kind="stable" if stable else None)
    packed = _packed(key, axis)
    if packed is None:
        return np.argsort(key, axis, kind="stable" if stable else None)
    packed.sort(axis)
    return np.bitwise_and(packed, (1 << _bits(key.shape[axis])) - 1, out=packed)


_FEW = 256  # elements that are sorted sooner as they are


def _bits(n):
    return max(int(n - 1).bit_length(), 1)


def _packed(key, axis):
    """Integers of a key and, below it, the place: NumPy sorts these by vectors. None where they do not fit."""
    bits = _bits(key.shape[axis])
    if key.dtype.kind in "biu":
        low, high = int(key.min()), int(key.max())
        if (high - low).bit_length() + bits > 63:
            return None
        whole = np.subtract(key, low, dtype=np.int64) if key.dtype != np.uint64 else (
            (key - np.uint64(low)).astype(np.int64)
        )
    elif key.dtype in (np.float32, np.float16):
        if bits > 31:
            return None
        key = np.where(np.isnan(key), key.dtype.type(np.nan), key + key.dtype.type(0))  # one zero, one NaN
        whole = total_order(key).astype(np.int64)
    else:
        return None
    np.left_shift(whole, bits, out=whole)
    places = np.arange(key.shape[axis]).reshape([-1 if d == axis % key.ndim else 1 for d in range(key.ndim)])
    return np.bitwise_or(whole, places, out=whole)


def sorted_values(x, axis, stable):
    """An array's elements in order. Zeros of both signs are equal, and stay in their order if ``stable``."""
    if x.dtype.kind in "biu" or not stable:
        return np.sort(x, axis)
    if x.dtype.kind == "f" and not (np.signbit(x) & (x == 0)).any():
        return np.sort(x, axis)
    return np.sort(x, axis, "stable")


def _taken(x, order, axis):
    if x.ndim == 1:
        return x[order]
    return np.take_along_axis(x, order, axis)


@rule("sort")
def _(params, inputs, outputs):
    axis, keys, stable = params["dimension"], params["num_keys"], params["is_stable"]
    if len(inputs) == 1:
        if is_extended(inputs[0].dtype):
            dtype = inputs[0].dtype
            return lambda x: (sorted_values(x.astype(np.float32), axis, stable).astype(dtype),)
        return lambda x: (sorted_values(x, axis, stable),)
    if keys == 1:

        def sort_by_one(*operands):
            order = order_of(operands[0], axis, stable)
            return tuple([_taken(x, order, axis) for x in operands])

        return sort_by_one

    def sort_by_several(*operands):
        given = []
        for key in operands[keys - 1 :: -1]:
            key = sortable(key)
            given.extend((key.imag, key.real) if key.dtype.kind == "c" else (key,))
        order = np.lexsort(given, axis)
        return tuple([_taken(x, order, axis) for x in operands])

    return sort_by_several


def descending_order(x, axis):
    """The stable permutation into falling order, NaN first, as XLA selects the largest."""
    if x.dtype.kind in "biu":
        key = ~x
    else:
        key = ~total_order(np.ascontiguousarray(x))
    return np.argsort(key, axis, kind="stable")


@rule("top_k", sizes=("k",))
def _(params, inputs, outputs):
    axis, dtype = params.get("axis", -1), outputs[1].dtype
    axis = axis % inputs[0].ndim
    before = (slice(None),) * axis

    def top_k(x, k):
        order = descending_order(x, axis)[(*before, slice(0, k))]
        return _taken(x, order, axis), order.astype(dtype)

    return top_k


@rule("approx_top_k", sizes=("k",))
def _(params, inputs, outputs):
    axis = params["reduction_dimension"] % inputs[0].ndim
    before, largest = (slice(None),) * axis, params["is_max_k"]
    dtype = outputs[1].dtype

    def approx_top_k(x, k):
        order = descending_order(x, axis) if largest else order_of(x, axis)
        order = order[(*before, slice(0, k))]
        return _taken(x, order, axis), order.astype(dtype)

    return approx_top_k
