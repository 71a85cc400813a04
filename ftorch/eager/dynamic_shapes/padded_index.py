"""Rules for parts of arrays: slices, gathers and scatters (`ftorch.eager.dynamic_shapes.padded`)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from .padded import Unknown, Value, fixed, varies
from .padded_rules import rule


@rule("slice")
def _slice(p, pair, given):
    v, rank = p.settled(given[0]), len(given[0].dims)
    starts, limits = pair.both("start_indices"), pair.both("limit_indices")
    strides = pair.unchanging("strides") or (1,) * rank
    array, dims = v.array, list(v.dims)
    for i, lengths in enumerate(zip(*pair.shapes())):
        if pair.is_whole(i, lengths) and strides[i] == 1:
            continue
        start = p.number((starts[0][i], starts[1][i]))
        length = p.factors(lengths)
        if varies(dims[i]) or varies(length) or not isinstance(start, int):
            array, dims[i] = _part(p, array, i, dims[i], start, length, strides[i]), length
        else:
            array = lax.slice_in_dim(array, start, limits[0][i], strides[i], i)
            dims[i] = length
    return [Value(array, tuple(dims))]


def _part(p, array, axis, dim, start, length, stride=1):
    """What begins at a true index of one dimension of an array, as long as ``length``."""
    if len(dim) == len(length) == 1 and stride == 1 and p.padded(length) <= p.padded(dim) and (
        isinstance(start, int) and start == 0
    ):
        return lax.slice_in_dim(array, 0, p.padded(length), axis=axis)
    if not varies(length) and len(dim) == 1 and stride == 1:
        return lax.dynamic_slice_in_dim(array, start, p.padded(length), axis)
    places = p.index(jnp.arange(p.padded(length)), length) * stride + start
    return jnp.take(array, p.place(places, dim), axis=axis, mode="clip")


@rule("dynamic_slice")
def _dynamic_slice(p, pair, given):
    v, starts = p.settled(given[0]), [s.array for s in given[1:]]
    array, dims = v.array, list(v.dims)
    for i, lengths in enumerate(zip(*pair.both("slice_sizes"))):
        if pair.is_whole(i, lengths):
            continue
        length = p.factors(lengths)
        start = jnp.clip(starts[i], 0, p.true(dims[i]) - p.true(length))
        array, dims[i] = _part(p, array, i, dims[i], start, length), length
    return [Value(array, tuple(dims))]


@rule("dynamic_update_slice")
def _dynamic_update_slice(p, pair, given):
    v, new = p.settled(given[0]), p.settled(given[1])
    if not any(varies(d) and d != own for d, own in zip(v.dims, new.dims)) and not any(
        varies(own) and d != own for d, own in zip(v.dims, new.dims)
    ):
        return [Value(lax.dynamic_update_slice(v.array, new.array, [s.array for s in given[2:]]), v.dims)]
    array, inside = new.array, jnp.ones((1,) * len(v.dims), bool)
    lengths = zip(*(x.invars[1].aval.shape for x in (pair.one, pair.other)))
    for i, (dim, own, length) in enumerate(zip(v.dims, new.dims, lengths)):
        if pair.is_whole(i, length) and dim == own:
            continue
        start = jnp.clip(given[2 + i].array, 0, p.true(dim) - p.true(own))
        places = p.index(jnp.arange(p.padded(dim)), dim) - start
        array = jnp.take(array, p.place(places, own), axis=i, mode="clip")
        own_inside = (places >= 0) & (places < p.true(own))
        shape = [own_inside.size if j == i else 1 for j in range(len(v.dims))]
        inside = inside & own_inside.reshape(shape)
    return [Value(jnp.where(inside, array, v.array), v.dims)]


def _column(indices, k, change):
    """Indices with one of their components changed."""
    own = change(indices[..., k])
    return own[..., None] if indices.shape[-1] == 1 else indices.at[..., k].set(own)


def _in_range(p, indices, columns, dims, sizes, mode):
    """Indices for padded dimensions: what is out of the true range is out of the padded one, or moved.

    Args:
        columns: which dimension each component is of; ``sizes`` how much is taken of each.
    """
    outside = np.iinfo(np.int32).max
    for k, d in enumerate(columns):
        if not varies(dims[d]):
            continue
        if sizes[d] != 1 and len(dims[d]) > 1:
            raise Unknown("parts of a product of dimensions by index")
        last = (p.true(dims[d]) - sizes[d]).astype(indices.dtype)
        if mode == lax.GatherScatterMode.CLIP:
            indices = _column(indices, k, lambda i: p.place(jnp.clip(i, 0, last), dims[d]))
        elif mode == lax.GatherScatterMode.FILL_OR_DROP:
            indices = _column(indices, k, lambda i: jnp.where(
                (i >= 0) & (i <= last), p.place(i, dims[d]), jnp.asarray(outside, i.dtype)))
        else:
            indices = _column(indices, k, lambda i: p.place(i, dims[d]))
    return indices


def _in_batches(p, v, at, batching):
    """An array and indices into it, of the same dimensions where they go together."""
    v = p.settled(v)
    wanted = {j: v.dims[i] for i, j in batching.items()}
    at = p.settled(p.spread(at, [wanted.get(j, d) for j, d in enumerate(at.dims)]))
    return v, at


@rule("gather")
def _gather(p, pair, given):
    numbers = pair.unchanging("dimension_numbers")
    sizes, others = pair.both("slice_sizes")
    taken, new_sizes, window = list(sizes), list(sizes), []
    batching = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims))
    v, at = _in_batches(p, given[0], given[1], batching)
    for d, dim in enumerate(v.dims):
        whole = pair.is_whole(d, (sizes[d], others[d]))
        if whole and d not in numbers.start_index_map:
            new_sizes[d] = p.padded(dim)
        elif sizes[d] != others[d]:
            raise Unknown("a gather of parts that vary")
        if d not in numbers.collapsed_slice_dims and d not in batching:
            window.append(dim if whole else fixed(sizes[d]))
    mode = lax.GatherScatterMode.from_any(pair.params["mode"])
    indices = _in_range(p, at.array, numbers.start_index_map, v.dims, taken, mode)
    (array,) = pair.bind(v.array, indices, slice_sizes=tuple(new_sizes))
    rows, parts = iter(at.dims[:-1]), iter(window)
    dims = [next(parts) if i in numbers.offset_dims else next(rows) for i in range(array.ndim)]
    return [Value(array, tuple(dims))]


@rule("scatter", "scatter-add", "scatter_add", "scatter-mul", "scatter_mul", "scatter_min",
      "scatter_max", "scatter-min", "scatter-max", "scatter-sub", "scatter_sub")
def _scatter(p, pair, given):
    numbers = pair.unchanging("dimension_numbers")
    batching = dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims))
    v, at = _in_batches(p, given[0], given[1], batching)
    rows, parts = iter(at.dims[:-1]), iter(
        d for i, d in enumerate(v.dims) if i not in batching and i not in numbers.inserted_window_dims
    )
    new = p.settled(given[2])
    wanted = [next(parts if i in numbers.update_window_dims else rows) for i in range(len(new.dims))]
    new = p.spread(new, [w if varies(d) else d for d, w in zip(new.dims, wanted)])
    window = iter(numbers.update_window_dims)
    sizes = []
    for d, dim in enumerate(v.dims):
        if d in batching or d in numbers.inserted_window_dims:
            sizes.append(1)
        else:
            own = new.dims[next(window)]
            if (varies(own) or varies(dim)) and own != dim:
                raise Unknown("a scatter of parts that vary")
            if varies(own) and d in numbers.scatter_dims_to_operand_dims:
                raise Unknown("a scatter of parts that vary")
            sizes.append(p.padded(own))
    mode = lax.GatherScatterMode.from_any(pair.params["mode"])
    indices, params = at.array, {}
    columns = numbers.scatter_dims_to_operand_dims
    rows = [i for i, d in enumerate(at.dims[:-1]) if varies(d)]
    if any(varies(d) for d in at.dims[:-1]) or any(varies(v.dims[d]) for d in columns):
        if mode == lax.GatherScatterMode.CLIP:
            for k, d in enumerate(columns):
                if not varies(v.dims[d]):
                    last = v.array.shape[d] - sizes[d]
                    indices = _column(indices, k, lambda i: jnp.clip(i, 0, last))
        indices = _in_range(p, indices, columns, v.dims, sizes, mode)
        outside = jnp.asarray(np.iinfo(np.int32).max, indices.dtype)
        indices = jnp.where(p.mask(at.dims, rows), indices, outside)
        params = {"mode": lax.GatherScatterMode.FILL_OR_DROP, "unique_indices": False,
                  "indices_are_sorted": False}
    (array,) = pair.bind(v.array, indices, new.array, **params)
    return [Value(array, v.dims)]
