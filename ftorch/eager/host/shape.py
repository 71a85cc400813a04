"""Rules that move elements or name them anew: views wherever NumPy can."""

from __future__ import annotations

import numpy as np

from ..._arrays import strided_view
from .rules import is_extended, rule

_ndarray, _empty = np.ndarray, np.empty


@rule("broadcast_in_dim", sizes=("shape",))
def _(params, inputs, outputs):
    x, dimensions, rank = inputs[0], tuple(params["broadcast_dimensions"]), outputs[0].ndim
    dtype = x.dtype
    if is_extended(dtype):  # these arrays are no buffers
        bits = np.dtype(f"V{dtype.itemsize}") if dtype.itemsize not in (1, 2) else np.dtype(f"u{dtype.itemsize}")
        inner = _broadcast(dtype, x.ndim, dimensions, rank)
        return lambda x, shape, *sizes: inner(x.view(bits), shape)
    return _broadcast(dtype, x.ndim, dimensions, rank)


def _broadcast(dtype, own, dimensions, rank):
    nothing = (0,) * rank
    if own == 0:
        if rank == 0:
            return lambda x, shape, *sizes: x

        def fill(x, shape, *sizes):
            return _ndarray(shape, dtype, x, 0, nothing)

        return fill
    pairs = tuple(zip(range(own), dimensions, strict=True))

    def broadcast(x, shape, *sizes):
        strides = [0] * rank
        given, steps = x.shape, x.strides
        for i, d in pairs:
            if given[i] != 1:
                strides[d] = steps[i]
        try:
            return _ndarray(shape, dtype, x, 0, strides)
        except (ValueError, TypeError):  # neither contiguous nor a buffer
            return strided_view(x, shape, strides, writeable=False).view(dtype)

    return broadcast


@rule("reshape", sizes=("new_sizes",))
def _(params, inputs, outputs):
    order = params.get("dimensions")
    if order is not None:
        return lambda x, shape, *sizes: x.transpose(order).reshape(shape)
    return lambda x, shape, *sizes: x.reshape(shape)


@rule("squeeze")
def _(params, inputs, outputs):
    gone = {d % inputs[0].ndim for d in params["dimensions"]}
    index = tuple([0 if d in gone else slice(None) for d in range(inputs[0].ndim)])
    if not gone:
        return lambda x: x
    if len(gone) == inputs[0].ndim:
        return lambda x: x.reshape(())
    return lambda x: x[index]


@rule("expand_dims")
def _(params, inputs, outputs):
    axes = tuple(params["dimensions"])
    return lambda x: np.expand_dims(x, axes)


@rule("transpose")
def _(params, inputs, outputs):
    order = tuple(params["permutation"])
    return lambda x: x.transpose(order)


@rule("rev")
def _(params, inputs, outputs):
    back, all_ = slice(None, None, -1), slice(None)
    index = tuple([back if d in params["dimensions"] else all_ for d in range(inputs[0].ndim)])
    return (lambda x: x[index]) if params["dimensions"] else (lambda x: x)


@rule("slice", sizes=("start_indices", "limit_indices"))
def _(params, inputs, outputs):
    steps, rank = params.get("strides"), inputs[0].ndim
    if rank == 0:
        return lambda x, starts, limits: x
    if steps is None or all(step == 1 for step in steps):
        return lambda x, starts, limits: x[tuple(map(slice, starts, limits))]
    return lambda x, starts, limits: x[tuple(map(slice, starts, limits, steps))]


@rule("dynamic_slice", sizes=("slice_sizes",))
def _(params, inputs, outputs):
    rank = inputs[0].ndim

    def dynamic_slice(x, *rest):
        index = []
        for start, size, extent in zip(rest[:rank], rest[-1], x.shape):
            start = min(max(int(start), 0), extent - size)
            index.append(slice(start, start + size))
        return x[tuple(index)]

    return dynamic_slice


@rule("dynamic_update_slice")
def _(params, inputs, outputs):
    def update(x, part, *starts):
        found = x.copy()
        index = []
        for start, size, extent in zip(starts, part.shape, x.shape):
            start = min(max(int(start), 0), extent - size)
            index.append(slice(start, start + size))
        found[tuple(index)] = part
        return found

    return update


@rule("concatenate")
def _(params, inputs, outputs):
    axis = params["dimension"]
    join = np.concatenate
    return lambda *operands: join(operands, axis)


@rule("stack")
def _(params, inputs, outputs):
    axis = params["axis"]
    index = tuple([slice(None)] * axis + [None])
    join = np.concatenate
    return lambda *operands: join([x[index] for x in operands], axis)


@rule("unstack")
def _(params, inputs, outputs):
    before = (slice(None),) * params["axis"]
    axis = params["axis"]
    return lambda x: tuple([x[(*before, i, ...)] for i in range(x.shape[axis])])


@rule("split", sizes=("sizes",))
def _(params, inputs, outputs):
    before = (slice(None),) * params["axis"]

    def split(x, sizes):
        found, start = [], 0
        for size in sizes:
            found.append(x[(*before, slice(start, start + size))])
            start += size
        return tuple(found)

    return split


@rule("tile", sizes=("reps",))
def _(params, inputs, outputs):
    return lambda x, repeats: np.tile(x, repeats)


@rule("pad", sizes=("padding_config",))
def _(params, inputs, outputs):
    dtype = outputs[0].dtype

    def pad(x, value, edges):
        found = _outside(x, value, edges)
        return general(x, value, edges) if found is None else found

    def _outside(x, value, edges):
        """Elements around the array only; None where there is more to it."""
        shape, index = [], []
        for n, (low, high, inner) in zip(x.shape, edges):
            if low < 0 or high < 0 or inner:
                return None
            shape.append(n + low + high)
            index.append(slice(low, low + n))
        found = _empty(shape, dtype)
        if found.size != x.size:
            found.fill(value[()])
        found[tuple(index)] = x
        return found

    def general(x, value, edges):
        shape, index, source, covered = [], [], [], True
        for n, (low, high, inner) in zip(x.shape, edges):
            step = inner + 1
            spread = (n - 1) * step + 1 if n else 0
            extent = low + spread + high
            shape.append(extent)
            # The elements whose place lies inside.
            first = -(low // step) if low < 0 else 0
            last = min(n, (extent - low - 1) // step + 1) if extent > low else 0
            last = max(last, first)
            source.append(slice(first, last))
            begin = low + first * step
            covered = covered and last - first == extent
            index.append(slice(begin, begin + (last - first - 1) * step + 1 if last > first else begin, step))
        found = _empty(shape, dtype)
        if not covered:
            found.fill(value[()])
        found[tuple(index)] = x[tuple(source)]
        return found

    return pad


@rule("iota", sizes=("shape",))
def _(params, inputs, outputs):
    dtype, axis, rank = outputs[0].dtype, params["dimension"], outputs[0].ndim
    make = np.arange
    if is_extended(dtype):
        make = lambda n, dtype: np.arange(n).astype(dtype)  # noqa: E731
    if rank == 1:
        return lambda shape, *sizes: make(shape[0], dtype=dtype)
    if is_extended(dtype):
        index = tuple([slice(None) if d == axis else None for d in range(rank)])
        return lambda shape, *sizes: np.broadcast_to(make(shape[axis], dtype)[index], shape)
    spread = _broadcast(dtype, 1, (axis,), rank)
    return lambda shape, *sizes: spread(make(shape[axis], dtype=dtype), shape)


@rule("empty2", "empty", sizes=("out_shape",))
def _(params, inputs, outputs):
    dtype = outputs[0].dtype
    return lambda shape: np.zeros(shape, dtype)
