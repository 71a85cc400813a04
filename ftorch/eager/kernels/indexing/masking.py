"""Elements chosen by masks or by several index tensors, and values written into views."""

from __future__ import annotations

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np

from ...core.registry import Shape, op
from ...core.user_warnings import BYTES_AS_MASKS, warn_user
from .._common import broadcast_shapes, dtype_name, up, wrap_dim
from .advanced import check_inside
from .scatter import UNCHECKED, number

_FORMS = "function method inplace"
_MASKS = (np.bool_, np.uint8)


# --- masks ---------------------------------------------------------------------------


# C++'s names of dtypes, as the error text has them.
_MASK_NAMES = {"int64": "long int", "int32": "int", "int16": "short int", "int8": "signed char",
               "uint8": "unsigned char", "float32": "float", "float64": "double"}


def _require_bool(mask):
    if mask.dtype != np.bool_:
        raise RuntimeError(
            "masked_fill_ only supports boolean masks, but got mask with dtype "
            f"{_MASK_NAMES.get(mask.dtype.name, mask.dtype.name)}"
        )


def _masked_fill(self, mask, value):
    _require_bool(mask)
    broadcast_shapes(mask.shape, self.shape)
    return jnp.where(mask, value, self)


# The Tensor overload comes first: a 0-d tensor would do as a number, without its gradient.
@op("masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", forms=_FORMS)
def masked_fill(self, mask, value):
    """A copy with a number where a mask is true (``torch.masked_fill``).

    Raises:
        RuntimeError: for masks that are not bool, or shapes that do not broadcast.

    >>> import ftorch as torch
    >>> torch.ones(3).masked_fill(torch.tensor([True, False, True]), 0)
    tensor([0., 1., 0.])
    """
    if value.ndim:
        raise RuntimeError(
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    return _masked_fill(self, mask, number(value, self))


@op("masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", forms=_FORMS)
def masked_fill_scalar(self, mask, value):
    return _masked_fill(self, mask, number(value, self))


masked_fill_scalar.fits("value")
# The number in a tensor is read before.
masked_fill.overlap(expanded="tensor[mask] = scalar", compared=2)
masked_fill_scalar.overlap(expanded="tensor[mask] = scalar")


def _ranks(mask):
    """For each true element how many came before it: where its value stands in a source."""
    return (jnp.cumsum(mask.reshape(-1)) - 1).reshape(mask.shape)


def _from_source(mask, source):
    return source.reshape(-1).at[_ranks(mask)].get(mode="clip")


@op("masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", forms=_FORMS)
def masked_scatter(self, mask, source):
    """A copy with the source's elements, in order, where a mask is true.

    Raises:
        RuntimeError: for a source with too few elements or of another dtype.

    >>> import ftorch as torch
    >>> x, mask = torch.zeros(3), torch.tensor([True, False, True])
    >>> torch.masked_scatter(x, mask, torch.tensor([1., 2.]))
    tensor([1., 0., 2.])
    """
    if source.dtype != self.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f"{dtype_name(self.dtype)} and {dtype_name(source.dtype)}"
        )
    if mask.dtype != np.bool_:
        raise RuntimeError(
            "masked_scatter_ only supports boolean masks, but got mask with dtype "
            f"{dtype_name(mask.dtype)}"
        )
    shape = broadcast_shapes(mask.shape, self.shape)
    x, mask = jnp.broadcast_to(self, shape), jnp.broadcast_to(mask, shape)
    if not source.size or not x.size:
        return x
    return jnp.where(mask, _from_source(mask, source), x)


masked_scatter.overlap(compared=2)


@masked_scatter.check
def _(self: Shape, mask, source: Shape):
    shape = np.broadcast_shapes(mask.shape, self.shape)
    if np.broadcast_to(mask, shape).sum() > math.prod(source.shape):
        raise RuntimeError("Number of elements of source < number of ones in mask")


@op("masked_select(Tensor self, Tensor mask) -> Tensor", forms="function method out", host=True)
def masked_select(self, mask):
    """The elements where a mask is true, as a vector (``torch.masked_select``).

    Raises:
        RuntimeError: for masks that are not bool, or shapes that do not broadcast.

    >>> import ftorch as torch
    >>> torch.masked_select(torch.tensor([1, 2, 3]), torch.tensor([True, False, True]))
    tensor([1, 3])
    """
    if mask.dtype != np.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shapes(mask.shape, self.shape)
    return np.broadcast_to(self, shape)[np.broadcast_to(mask, shape)].reshape(-1)


@masked_select.derivative
def _(grad, *, self, mask):
    mask = jnp.broadcast_to(mask, broadcast_shapes(mask.shape, self.shape))
    if not grad.size:
        return jnp.zeros(mask.shape, grad.dtype), None
    return jnp.where(mask, _from_source(mask, grad), jnp.zeros((), grad.dtype)), None


masked_select.saving_operands()


def _a_column_each(inputs, static, shapes):
    """A dimension's indices lie beside each other, as in PyTorch."""
    return [(1, shape[0]) for shape in shapes]


@op("argwhere(Tensor self) -> Tensor", forms="function method", host=True, differentiable=False, layout=_a_column_each)
def argwhere(self):
    """The indices of the elements that are not zero, a row for each (``torch.argwhere``).

    >>> import ftorch as torch
    >>> torch.argwhere(torch.tensor([0, 5, 6]))
    tensor([[1],
            [2]])
    """
    return np.argwhere(self).astype(np.int64)


@op("nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor",
    forms="function method out", differentiable=False)
def nonzero_static(self, size, fill_value):
    """Like `argwhere` with a given number of rows, cut off or filled up.

    >>> import ftorch as torch
    >>> torch.nonzero_static(torch.tensor([0, 5]), size=2)
    tensor([[ 1],
            [-1]])
    """
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    if not self.size or not self.ndim:
        return jnp.full((size, self.ndim), fill_value, np.int64)
    found = jnp.nonzero(self, size=size, fill_value=fill_value)
    return jnp.stack(found, axis=1).astype(np.int64)


# --- several index tensors -----------------------------------------------------------


def _expand_masks(x, indices, values):
    """Index tensors with masks replaced by the positions of their true elements.

    How many there are must be known from the shapes: from the index tensors next to the mask, or from the values. Where
    neither says, there are as many as the mask has elements; those that are not true point out of bounds.
    """
    lengths = [i.shape[-1] for i in indices if i is not None and i.dtype not in _MASKS and i.ndim]
    count = max([*lengths, _values_along(x, indices, values)])
    masks = [i for i in indices if i is not None and i.dtype in _MASKS]
    if count <= 1:
        count = max(mask.size for mask in masks) if masks else 1
    true = (
        functools.reduce(jnp.maximum, [jnp.count_nonzero(mask) for mask in masks])
        if masks
        else None
    )
    counts = true if max(lengths, default=1) <= 1 else count
    expanded = []
    for index in indices:
        if index is None or index.dtype not in _MASKS:
            expanded.append(index)
            continue
        _check_mask(x, index, len(expanded))
        beyond = max(x.shape)  # out of bounds everywhere: dropped
        is_one = (jnp.count_nonzero(index) == 1) & (
            jnp.arange(count) < counts
        )  # a single position is broadcast
        positions = jnp.nonzero(index, size=count, fill_value=beyond)
        expanded.extend(jnp.where(is_one, p[:1], p) for p in positions)
    return expanded


def _values_along(x, indices, values):
    """How many values there are along the dimension that the indices make, 1 where the values do not say."""
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    used = sum(i.ndim if i.dtype in _MASKS else 1 for _, i in given)
    made = max([i.ndim for _, i in given if i.dtype not in _MASKS], default=0) or 1
    apart = any(b - a > 1 for (a, _), (b, _) in itertools.pairwise(given))
    place = (
        values.ndim - (x.ndim - used + made) + (0 if apart or not given else given[0][0]) + made - 1
    )
    return values.shape[place] if 0 <= place < values.ndim else 1


def _too_many(x, count):
    return IndexError(f"too many indices for tensor of dimension {x.ndim} (got {count})")


def _check_mask(x, mask, dim):
    if dim >= x.ndim:
        raise _too_many(x, dim + 1)
    for d in range(mask.ndim):
        if dim + d >= x.ndim or x.shape[dim + d] != mask.shape[d]:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {d} does not match the shape "
                f"of the indexed tensor {list(x.shape)} at index {dim + d}"
            )


def _mismatch(values, shape):
    return RuntimeError(
        f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
        f"indexing result of shape {list(shape)}"
    )


def _put_by_mask(x, mask, dim, values, accumulate):
    """``x[:, ..., mask] = values``, with as many values as there are true elements (or one)."""
    lead, tail = x.shape[:dim], x.shape[dim + mask.ndim :]
    flat = x.reshape(*lead, mask.size, *tail)
    values = values.reshape((1,) * (flat.ndim - values.ndim) + values.shape)
    if values.shape[dim] > 1:
        values = jnp.take(values, _ranks(mask).reshape(-1), axis=dim, mode="clip")
    elif values.shape[dim] == 0:
        return x
    try:
        values = jnp.broadcast_to(values, flat.shape)
    except ValueError:
        raise _mismatch(values, flat.shape) from None
    where = mask.reshape(-1, *(1,) * len(tail)) != 0
    new = jnp.where(where, flat + values if accumulate else values, flat)
    return new.reshape(x.shape)


def _put(x, indices, values, accumulate):
    given = [i for i in indices if i is not None]
    for i in given:
        if i.dtype not in (np.int32, np.int64, *_MASKS):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if len(given) == 1 and given[0].dtype in _MASKS:
        dim = next(d for d, i in enumerate(indices) if i is not None)
        _check_mask(x, given[0], dim)
        if values.size == 1 and not accumulate:
            _require_bool(given[0])  # PyTorch fills
        return _put_by_mask(x, given[0], dim, values, accumulate)
    indices = _expand_masks(x, indices, values)
    if len(indices) > x.ndim:
        raise _too_many(x, len(indices))
    where = tuple(
        slice(None) if i is None else jnp.where(i < 0, i + x.shape[d], i)
        for d, i in enumerate(indices)
    )
    shape = _indexed_shape(x, where)
    try:
        np.broadcast_to(np.empty(values.shape, np.bool_), shape)
    except ValueError:
        raise _mismatch(values, shape) from None
    method = "set"
    if accumulate:
        method = "max" if x.dtype == np.bool_ else "add"
    return getattr(x.at[where], method)(values, mode="drop", wrap_negative_indices=False)


def _indexed_shape(x, where):
    try:
        return jax.eval_shape(lambda: x[where]).shape
    except (ValueError, TypeError, IndexError):
        shapes = ", ".join(str(list(i.shape)) for i in where if not isinstance(i, slice))
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None


@op("index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
    forms=_FORMS)
def index_put(self, indices, values, accumulate):
    """A copy with values written, or added, where index tensors point (``torch.index_put``).

    Args:
        indices: a tensor for each of the first dimensions, or masks. ``torch.ops.aten.index_put`` takes None for all of one.

    Raises:
        IndexError: for indices out of range. RuntimeError: for values that do not fit.

    >>> import ftorch as torch
    >>> torch.zeros(3).index_put((torch.tensor([0, 0]),), torch.tensor([1., 2.]), accumulate=True)
    tensor([3., 0., 0.])
    """
    if values.dtype != self.dtype:
        if not any(i is not None and i.dtype in _MASKS for i in indices):
            _put(self, indices, values.astype(self.dtype), accumulate)  # a wrong shape is told first
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{dtype_name(self.dtype)} for the destination and {dtype_name(values.dtype)} for the "
            "source."
        )
    if not accumulate:
        return _put(self, indices, values, False)
    return _put(up(self), indices, up(values), True).astype(self.dtype)


index_put.changing("places")
index_put.overlap(exclusive=True, expanded="tensor[indices] = tensor").of_any_device("indices")


@index_put.derivative
def _(grad, *, indices, values, accumulate):
    to_self = grad
    if not accumulate:
        to_self = _put(grad, indices, jnp.zeros((), grad.dtype), False)
    # What is written is linear in the values, so its adjoint is that of adding them to zeros.
    wide = up(grad)
    struct = jax.ShapeDtypeStruct(values.shape, wide.dtype)
    write = jax.linear_transpose(lambda v: _put(jnp.zeros_like(wide), indices, v, True), struct)
    return to_self, None, write(wide)[0].astype(grad.dtype)


@index_put.check
def _(self: Shape, indices, values: Shape):
    check_inside(self, indices)
    for i in indices:
        if i is not None and i.dtype == np.uint8:
            warn_user(BYTES_AS_MASKS)
    masks = [i for i in indices if i is not None and i.dtype in _MASKS]
    if len(masks) == 1 and len(indices) == 1:
        shape = (int(np.count_nonzero(masks[0])), *self.shape[masks[0].ndim :])
    elif masks:
        parts = [
            np.nonzero(i)
            if i is not None and i.dtype in _MASKS
            else (slice(None) if i is None else i,)
            for i in indices
        ]
        where = tuple(itertools.chain(*parts))
        if len(where) > len(self.shape):
            return
        shape = _indexed_shape(np.broadcast_to(np.empty((), bool), self.shape), where)
    else:
        return
    try:
        np.broadcast_to(np.empty(values.shape, bool), shape)
    except ValueError:
        raise _mismatch(values, shape) from None


# --- values written into views -------------------------------------------------------


def _check_fits(src, shape):
    if src.shape != tuple(shape):
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(shape)}"
        )


@op("select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor",
    forms="function method")
def select_scatter(self, src, dim, index):
    """A copy with the slice at one index replaced (``torch.select_scatter``).

    >>> import ftorch as torch
    >>> torch.zeros(2, 2).select_scatter(torch.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    if self.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, self.ndim)
    size = self.shape[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.shape)} at "
            f"dimension {dim}"
        )
    _check_fits(src, self.shape[:dim] + self.shape[dim + 1 :])
    return self.at[(slice(None),) * dim + (index % size,)].set(src.astype(self.dtype))


@op("slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, "
    "int step=1) -> Tensor", forms="function method out")
def slice_scatter(self, src, dim, start, end, step):
    """A copy with a range of slices replaced (``torch.slice_scatter``).

    >>> import ftorch as torch
    >>> torch.zeros(4).slice_scatter(torch.ones(2), 0, 0, 4, 2)
    tensor([1., 0., 1., 0.])
    """
    if self.ndim == 0:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    dim = wrap_dim(dim, self.ndim)
    start, end, step = slice(start, end, step).indices(self.shape[dim])
    count = len(range(start, end, step))
    _check_fits(src, (*self.shape[:dim], count, *self.shape[dim + 1 :]))
    return self.at[(slice(None),) * dim + (slice(start, end, step),)].set(src.astype(self.dtype))


@op("diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    forms="function method")
def diagonal_scatter(self, src, offset, dim1, dim2):
    """A copy with a diagonal replaced (``torch.diagonal_scatter``).

    >>> import ftorch as torch
    >>> torch.zeros(2, 2).diagonal_scatter(torch.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    a, b = wrap_dim(dim1, self.ndim), wrap_dim(dim2, self.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    x = jnp.moveaxis(self, (a, b), (-2, -1))
    rows, columns = x.shape[-2:]
    first = (max(-offset, 0), max(offset, 0))
    count = max(min(rows - first[0], columns - first[1]), 0)
    _check_fits(src, (*x.shape[:-2], count))
    along = np.arange(count)
    x = x.at[..., along + first[0], along + first[1]].set(
        src.astype(self.dtype), unique_indices=True, mode=UNCHECKED
    )
    return jnp.moveaxis(x, (-2, -1), (a, b))


@op("as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, "
    "int? storage_offset=None) -> Tensor", forms="function method")
def as_strided_scatter(self, src, size, stride, storage_offset):
    """A copy with the elements of an `as_strided` view replaced (``torch.as_strided_scatter``).

    >>> import ftorch as torch
    >>> torch.zeros(2, 2).as_strided_scatter(torch.ones(2), (2,), (2,))
    tensor([[1., 0.],
            [1., 0.]])
    """
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in stride):
        raise RuntimeError(
            "as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(stride)}"
        )
    offset = storage_offset or 0
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    reach = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1
    item = self.dtype.itemsize
    if math.prod(size) and reach > self.size:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and "
            f"itemsize {item} requiring a storage size of {reach * item} are out of bounds for "
            f"storage of size {self.size * item}"
        )
    _check_fits(src, size)
    if any(n > 1 and s == 0 for n, s in zip(size, stride, strict=True)):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    # The gradient is this function's adjoint; PyTorch's own (a known bug) is not.
    positions = offset + sum(
        (jnp.arange(n) * s).reshape([-1 if d == i else 1 for i in range(len(size))])
        for d, (n, s) in enumerate(zip(size, stride, strict=True))
    )
    flat = self.reshape(-1).at[positions].set(src.astype(self.dtype), mode=UNCHECKED)
    return flat.reshape(self.shape)
