"""Advanced indexing: reading by index tensors, and views of basic indices in one step."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ...core.registry import Shape, op, view


def _follow(g, items):
    """The geometry of ``x[items]``: ints, (start, step, count) triples and None."""
    size, stride, offset, dim = [], [], 0, 0
    for item in items:
        if item is None:
            size.append(1)
            stride.append(g.shape[dim] * g.stride[dim] if dim < g.ndim else 1)
            continue
        if item.__class__ is tuple:
            start, step, count = item
            size.append(count)
            stride.append(g.stride[dim] * step)
            offset += start * g.stride[dim]
        else:
            offset += item * g.stride[dim]
        dim += 1
    return [*size, *g.shape[dim:]], [*stride, *g.stride[dim:]], offset


# Indexing with several basic items is one view; its node is named after the last of them.
@view("_index_select(Tensor(a) self, int[] items) -> Tensor(a)", forms="")
def index_select_view(g, items):
    return _follow(g, items)


@view("_index_slice(Tensor(a) self, int[] items) -> Tensor(a)", forms="")
def index_slice_view(g, items):
    return _follow(g, items)


@view("_index_newaxis(Tensor(a) self, int[] items) -> Tensor(a)", forms="")
def index_newaxis_view(g, items):
    return _follow(g, items)


@op("index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", forms="")
def index(self, indices):
    where = tuple(
        slice(None) if i is None else _wrapped(i, self.shape[d]) for d, i in enumerate(indices)
    )
    given = [i.shape for i in indices if i is not None]
    try:
        shape = np.broadcast_shapes(*given)
    except ValueError:
        raise IndexError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes "
            + ", ".join(str(list(s)) for s in given)
        ) from None
    if 0 not in shape and any(self.shape[d] == 0 for d, i in enumerate(indices) if i is not None):
        raise IndexError("index is out of bounds for dimension with size 0")
    return self.at[where].get(mode="clip", wrap_negative_indices=False)


index.of_any_device("indices")


def _wrapped(i, size):
    i = i.astype(jnp.int64)
    return jnp.where(i < 0, i + size, i)


def _within(self, indices):
    if any(i is not None and i.dtype.category != 1 for i in indices):
        return None
    return [(("indices", d), -self.shape[d], self.shape[d]) for d, i in enumerate(indices) if i is not None]


@index.check(passes=_within)
def _(self: Shape, indices):
    for d, i in enumerate(indices):
        if i is not None and i.size and i.dtype.kind == "i":
            size = self.shape[d]
            low, high = int(i.min()), int(i.max())
            if low < -size or high >= size:
                bad = high if high >= size else low
                raise IndexError(
                    f"index {bad} is out of bounds for dimension {d} with size {size}"
                )
