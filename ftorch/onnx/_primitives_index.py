"""ONNX forms of JAX's primitives that sort, and that read and write by indices.

Indices of gathers and scatters become those of the flattened operand.
"""

from __future__ import annotations

import math

import numpy as np

from ..eager.core import dtype as dtypes
from ._builder import Value
from ._primitives import dtype_of, flat, rule, value, where

# --- sorting --------------------------------------------------------------------------


@rule("sort")
def _sort(g, eqn, *operands):
    axis = eqn.params["dimension"]
    values = list(operands)
    for key in reversed(range(eqn.params["num_keys"])):  # each sort keeps the order of equals
        size = g.ints([values[key].shape[axis]])
        _, order = g.raw("TopK", values[key].name, size, outputs=2, axis=axis, largest=0, sorted=1)
        index = Value(order, values[key].shape, dtypes.int64)
        values = [g.op("GatherElements", v, index, axis=axis) for v in values]
    return values


@rule("top_k")
def _top_k(g, eqn, x):
    names = g.raw("TopK", x.name, g.ints([eqn.params["k"]]), outputs=2, axis=-1, largest=1, sorted=1)
    indices = Value(names[1], (), dtypes.int64)
    return [Value(names[0], (), x.dtype), g.cast(indices, dtype_of(eqn.outvars[1].aval))]


# --- indices --------------------------------------------------------------------------


def _strides(shape):
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def _starts(g, x, indices, dims, rows_of, window, clipped):
    """(linear index of each window's first element; which windows lie inside).

    Args:
        dims: the dimensions of ``x`` that the columns of ``indices`` are of.
        rows_of: (dimension of ``x``, dimension of ``indices``) that run side by side.
        window: the window's size in each dimension of ``x``.
        clipped: whether windows are moved inside.
    """
    strides = _strides(x.shape)
    indices = g.cast(indices, dtypes.int64)
    shape = indices.shape[:-1]
    last = np.array([x.shape[d] - window[d] for d in dims], np.int64)
    zero, top = g.number(0, dtypes.int64), value(g, last)
    inside = None
    if clipped:
        indices = g.op("Min", g.op("Max", indices, zero), top)
    else:
        fits = [g.op("GreaterOrEqual", indices, zero, dtype=dtypes.bool),
                g.op("LessOrEqual", indices, top, dtype=dtypes.bool)]
        numbers = g.cast(g.op("And", *fits), dtypes.int32)
        axes = g.ints([len(shape)])
        if g.opset >= 18:
            all_fit = g.op("ReduceMin", numbers, axes, shape=shape, keepdims=0)
        else:
            all_fit = g.op("ReduceMin", numbers, shape=shape, axes=[len(shape)], keepdims=0)
        inside = g.cast(all_fit, dtypes.bool)
    scaled = g.op("Mul", indices, value(g, np.array([strides[d] for d in dims], np.int64)))
    linear = g.op("ReduceSum", scaled, g.ints([len(shape)]), shape=shape, keepdims=0)
    for d, at in rows_of:
        along = np.arange(shape[at]).reshape([-1 if i == at else 1 for i in range(len(shape))])
        linear = g.op("Add", linear, value(g, along.astype(np.int64) * strides[d]))
    return linear, inside


def _offsets(x_shape, window, kept):
    """The linear offsets of a window's elements from its first one, in the kept dimensions."""
    strides = _strides(x_shape)
    total = np.zeros([window[d] for d in kept], np.int64)
    for i, d in enumerate(kept):
        total += (np.arange(window[d]) * strides[d]).reshape([-1 if j == i else 1 for j in range(len(kept))])
    return total


def _spread_windows(g, linear, offsets, shape, window_dims):
    """The linear index of each element: of windows' starts and of offsets in them."""
    batch = [d for d in range(len(shape)) if d not in window_dims]
    wide = [1] * len(shape)
    for d, n in zip(batch, linear.shape):
        wide[d] = n
    apart = np.ones(len(shape), int)
    for d, n in zip(window_dims, offsets.shape):
        apart[d] = n
    starts = g.reshape(linear, wide)
    return g.op("Add", starts, value(g, offsets.reshape(apart)), shape=shape), wide


@rule("gather")
def _gather(g, eqn, x, indices):
    p = eqn.params
    numbers, window, mode = p["dimension_numbers"], p["slice_sizes"], str(p["mode"])
    shape = eqn.outvars[0].aval.shape
    fills = "FILL" in mode
    rows = tuple(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims))
    linear, inside = _starts(g, x, indices, numbers.start_index_map, rows, window, not fills)
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    kept = [d for d in range(x.rank) if d not in gone]
    at, wide = _spread_windows(g, linear, _offsets(x.shape, window, kept), shape, numbers.offset_dims)
    if fills:
        inside = g.op("Expand", g.reshape(inside, wide), g.ints(shape), shape=shape)
        at = where(g, inside, at, g.number(0, dtypes.int64), shape)
    out = g.op("Gather", flat(g, x), at, shape=shape, axis=0)
    if fills:
        empty = p["fill_value"]
        if empty is None:
            empty = np.nan if x.dtype.is_floating_point else (
                np.iinfo(x.dtype.numpy).min if x.dtype is not dtypes.bool else True)
        out = where(g, inside, out, g.number(empty, x.dtype), shape)
    return out


_SCATTERS = {"scatter": None, "scatter-add": "add", "scatter_add": "add", "scatter-mul": "mul",
             "scatter_mul": "mul", "scatter_max": "max", "scatter_min": "min", "scatter-max": "max",
             "scatter-min": "min"}


@rule(" ".join(_SCATTERS))
def _scatter(g, eqn, x, indices, updates):
    p = eqn.params
    numbers = p["dimension_numbers"]
    window_dims = numbers.update_window_dims
    gone = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    kept = [d for d in range(x.rank) if d not in gone]
    window = [1] * x.rank
    for d, w in zip(kept, window_dims):
        window[d] = updates.shape[w]
    clips = "CLIP" in str(p["mode"])
    rows = tuple(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims))
    linear, inside = _starts(
        g, x, indices, numbers.scatter_dims_to_operand_dims, rows, window, clips
    )
    offsets = _offsets(x.shape, window, kept)
    at, wide = _spread_windows(g, linear, offsets, updates.shape, window_dims)
    count = math.prod(x.shape)
    if inside is not None:  # what lies outside goes to one more element, which is dropped
        inside = g.reshape(inside, wide)
        at = where(g, inside, at, g.number(count, dtypes.int64), updates.shape)
    longer = g.concat([flat(g, x), value(g, np.zeros(1, x.dtype.numpy))], 0)
    out = g.op("ScatterElements", longer, flat(g, at), flat(g, updates), axis=0,
               reduction=_SCATTERS[eqn.primitive.name])
    return g.reshape(g.slice(out, 0, 0, count), x.shape)


@rule("dynamic_slice")
def _dynamic_slice(g, eqn, x, *starts):
    for d, (start, size) in enumerate(zip(starts, eqn.params["slice_sizes"])):
        if size != x.shape[d]:
            x = _part(g, x, d, _inside(g, start, x.shape[d] - size), size)
    return x


def _inside(g, start, last):
    start = g.cast(start, dtypes.int64)
    return g.op("Min", g.op("Max", start, g.number(0, dtypes.int64)), g.number(last, dtypes.int64))


def _part(g, x, d, start, size):
    index = g.op("Add", g.reshape(start, (1,)), value(g, np.arange(size, dtype=np.int64)), shape=(size,))
    shape = [size if i == d else n for i, n in enumerate(x.shape)]
    return g.op("Gather", x, index, shape=shape, axis=d)


@rule("dynamic_update_slice")
def _dynamic_update_slice(g, eqn, x, update, *starts):
    strides = _strides(x.shape)
    first = g.number(0, dtypes.int64)
    for d, start in enumerate(starts):
        start = _inside(g, start, x.shape[d] - update.shape[d])
        first = g.op("Add", first, g.op("Mul", g.reshape(start, ()), g.number(strides[d], dtypes.int64)))
    offsets = _offsets(x.shape, update.shape, range(x.rank)).reshape(-1)
    at = g.op("Add", value(g, offsets), first)
    out = g.op("ScatterElements", flat(g, x), at, flat(g, update), axis=0)
    return g.reshape(out, x.shape)
