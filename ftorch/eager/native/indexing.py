"""Reads and writes by an index that is the same for whole rows.

Who picks or sums rows with `gather` and `scatter_add` expands the index to every element of the rows. XLA
would look up each; here it gets the rows.
"""

from __future__ import annotations

from jax import lax


def take(eqn, inputs, origins):
    """`gather` with an index that repeats."""
    x, indices = inputs
    numbers, sizes = eqn.params["dimension_numbers"], list(eqn.params["slice_sizes"])
    found = _rows(
        indices, origins, numbers.start_indices_batching_dims, numbers.operand_batching_dims,
        numbers.offset_dims, (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims),
        eqn.outvars[0].aval.ndim, x.ndim,
    )  # fmt: skip
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


def put(eqn, inputs, origins):
    """The scatters with an index that repeats."""
    x, indices, updates = inputs
    numbers = eqn.params["dimension_numbers"]
    found = _rows(
        indices, origins, numbers.scatter_indices_batching_dims, numbers.operand_batching_dims,
        numbers.update_window_dims, (*numbers.inserted_window_dims, *numbers.operand_batching_dims),
        updates.ndim, x.ndim,
    )  # fmt: skip
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
