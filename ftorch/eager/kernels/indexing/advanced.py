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
    check_inside(self, indices)


def check_inside(self: Shape, indices):
    """Raises PyTorch's IndexError for the first element that points outside; it counts the indices, not the dimensions."""
    given, dim, at = [], 0, 0
    for index in indices:
        if index is None:
            dim += 1
            continue
        if index.dtype.kind == "i":
            given.append((index, self.shape[dim], at))
        width = 1 if index.dtype.kind == "i" else index.ndim  # a mask stands for an index in each of its dimensions
        dim, at = dim + width, at + width
    outside = [(i, size, at) for i, size, at in given if i.size and not -size <= i.min() <= i.max() < size]
    if not outside:
        return
    joint = np.broadcast_shapes(*(i.shape for i, _, _ in given))
    if 0 in joint:  # nothing is read
        return
    firsts = []
    for i, size, at in outside:
        everywhere = np.broadcast_to(i, joint).reshape(-1)
        first = int(np.argmax((everywhere < -size) | (everywhere >= size)))
        firsts.append((first, at, int(everywhere[first]), size))
    _, at, index, size = min(firsts)
    raise IndexError(f"index {index} is out of bounds for dimension {at} with size {size}")
