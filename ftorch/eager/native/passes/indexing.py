"""Gather and scatter-add along one dimension (``rows.cpp``), and what else goes by an index that repeats.

Who picks or sums rows with `gather` and `scatter_add` expands the index to every element of the rows. XLA
would look up each; it is read where it lies, or XLA gets the rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jax import lax

from .. import NUMBERS, call
from .views import merged, strides

_FEW = 1024  # elements that XLA moves sooner, by what else it computes with them
_INDICES = (np.dtype(np.int32), np.dtype(np.int64))


def take(eqn, inputs, origins):
    """`gather` along one dimension, or with an index that repeats."""
    return take_along(eqn, inputs, origins) or _taken_by_rows(eqn, inputs, origins)


def put(eqn, inputs, origins):
    """The scatters along one dimension that add, or with an index that repeats."""
    return add_along(eqn, inputs, origins) or _put_by_rows(eqn, inputs, origins)


def bags(eqn, inputs, origins):
    """Sums and means of an embedding table's rows (``bags.cpp``)."""
    weight, index = inputs
    if origins.is_few(index.size * weight.shape[2], _FEW) or 0 in weight.shape or weight.dtype != np.float32:
        return None
    sizes = (*index.shape, *weight.shape[1:], eqn.params["mode"] == "mean")
    return [call("ftorch_bags", eqn.outvars[0].aval, weight, index, sizes=sizes)]


# --- along one dimension -----------------------------------------------------------------


class _Loop(NamedTuple):
    """A dimension of what is moved: its size, the steps between its elements in the array and in the index."""

    size: int
    step: int
    place: int


def take_along(eqn, inputs, origins):
    """`gather` along one dimension."""
    (x, indices), out, numbers = inputs, eqn.outvars[0].aval, eqn.params["dimension_numbers"]
    if eqn.params["mode"] == lax.GatherScatterMode.FILL_OR_DROP or origins.is_few(out.size, _FEW):
        return None
    if not origins.is_stored(x) and x.size > 4 * out.size:
        return None  # XLA computes no more of it than is taken
    dims = numbers.collapsed_slice_dims, numbers.operand_batching_dims, numbers.start_indices_batching_dims
    if any(n != x.shape[d] for d, n in enumerate(eqn.params["slice_sizes"]) if d not in (*dims[0], *dims[1])):
        return None
    found = _loops(x, indices, out, numbers.start_index_map, *dims, numbers.offset_dims, origins)
    return found and [call("ftorch_take", out, x, found[0], **found[1])]


def add_along(eqn, inputs, origins):
    """`scatter-add` along one dimension."""
    (x, indices, updates), numbers = inputs, eqn.params["dimension_numbers"]
    if eqn.primitive.name not in ("scatter-add", "scatter_add") or eqn.params["mode"] == lax.GatherScatterMode.CLIP:
        return None
    if x.dtype not in NUMBERS or origins.is_few(updates.size, _FEW):
        return None
    dims = numbers.inserted_window_dims, numbers.operand_batching_dims, numbers.scatter_indices_batching_dims
    windows = [d for d in range(x.ndim) if d not in (*dims[0], *dims[1])]
    if any(x.shape[d] != updates.shape[w] for d, w in zip(windows, numbers.update_window_dims, strict=True)):
        return None
    found = _loops(
        x, indices, updates, numbers.scatter_dims_to_operand_dims, *dims, numbers.update_window_dims, origins
    )
    if found is None:
        return None
    out, (index, how) = eqn.outvars[0].aval, found
    if origins.is_zeros(x):
        return [call("ftorch_add_to_zeros", out, index, updates, **how)]
    return [call("ftorch_add", out, x, index, updates, over=0, **how)]


def _loops(x, indices, moved, along, collapsed, of, batching, windows, origins):
    """(the index, how to go along it), or None.

    Args:
        moved: what has the shape of the elements taken or put.
        along: the dimensions of ``x`` that the index is for.
        collapsed, of: dimensions that slices of ``x`` do not have; of them ``of`` go with ``batching``, the index's.
        windows: dimensions of ``moved`` that are those of slices.
    """
    if len(along) != 1 or tuple(collapsed) != tuple(along) or 0 in x.shape or indices.dtype not in _INDICES:
        return None
    index, places = origins.where(indices)
    steps, own = strides(x.shape), dict(zip(batching, of, strict=True))
    rows = iter(d for d in range(x.ndim) if d not in (*collapsed, *of))
    outside = iter(range(indices.ndim - 1))
    loops = []
    for d, size in enumerate(moved.shape):
        if d in windows:
            loops.append(_Loop(size, steps[next(rows)], 0))
        else:
            k = next(outside)
            loops.append(_Loop(size, steps[own[k]] if k in own else 0, places[k]))
    loops = merged([loop for loop in loops if loop.size != 1])
    if len(loops) > 4:
        return None
    loops = [_Loop(1, 0, 0)] * (4 - len(loops)) + loops
    return index, {
        "sizes": [n.size for n in loops], "steps": [*(n.step for n in loops), steps[along[0]]],
        "places": [n.place for n in loops], "limit": [x.shape[along[0]]],
    }


# --- by an index that repeats ------------------------------------------------------------


def _taken_by_rows(eqn, inputs, origins):
    x, indices = inputs
    numbers, sizes = eqn.params["dimension_numbers"], list(eqn.params["slice_sizes"])
    found = _rows(
        indices, origins, numbers.start_indices_batching_dims, numbers.operand_batching_dims,
        numbers.offset_dims, (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims),
        eqn.outvars[0].aval.ndim, x.ndim,
    )
    if found is None:
        return None
    index, windows, batching, of = found
    for d in numbers.operand_batching_dims:
        if d not in of:
            sizes[d] = x.shape[d]
    numbers = numbers._replace(
        offset_dims=windows, start_indices_batching_dims=batching, operand_batching_dims=of
    )
    params = {**eqn.params, "dimension_numbers": numbers, "slice_sizes": tuple(sizes)}
    return [eqn.primitive.bind(x, index, **params)]


def _put_by_rows(eqn, inputs, origins):
    x, indices, updates = inputs
    numbers = eqn.params["dimension_numbers"]
    found = _rows(
        indices, origins, numbers.scatter_indices_batching_dims, numbers.operand_batching_dims,
        numbers.update_window_dims, (*numbers.inserted_window_dims, *numbers.operand_batching_dims),
        updates.ndim, x.ndim,
    )
    if found is None:
        return None
    index, windows, batching, of = found
    numbers = numbers._replace(
        update_window_dims=windows, scatter_indices_batching_dims=batching, operand_batching_dims=of
    )
    return [eqn.primitive.bind(x, index, updates, **{**eqn.params, "dimension_numbers": numbers})]


def _rows(indices, origins, batching, of, windows, gone, rank, whole):
    """The index without the dimensions in which it repeats, which become parts of the rows; or None.

    Args:
        batching, of: dimensions of the index that go along with ones of the array.
        windows: dimensions of the ``rank`` ones outside that are those of the array's slices.
        gone: dimensions of the array (of ``whole``) that its slices do not have.

    Returns:
        The index, and ``windows``, ``batching`` and ``of`` as they are then.
    """
    repeats = sorted(set(batching).intersection(origins.repeats(indices)))
    if not repeats:
        return None
    outside = [d for d in range(rank) if d not in windows]  # of each of the index's dimensions
    rows = dict(zip((d for d in range(whole) if d not in gone), windows, strict=True))
    rows |= {d: outside[b] for b, d in zip(batching, of, strict=True) if b in repeats}
    windows = tuple(place for _, place in sorted(rows.items()))
    if windows != tuple(sorted(windows)):
        return None
    left = [(b, d) for b, d in zip(batching, of, strict=True) if b not in repeats]
    batching = tuple(b - sum(r < b for r in repeats) for b, _ in left)
    for b in reversed(repeats):
        indices = lax.index_in_dim(indices, 0, b, keepdims=False)
    return indices, windows, batching, tuple(d for _, d in left)
