"""Stacking and broadcasting functions that are made of views and ``cat``."""

from __future__ import annotations

import functools
import math
import warnings

import numpy as np

from ..call.op import at_hand, hooks
from ..core import api
from ..core import dtype as dtypes
from ..core.composite import composite
from ..core.geometry import Size
from ..kernels._common import wrap_dim
from ..tensor import PLAIN, TensorBase, from_array
from .splitting import unbind


def _tensors(given):
    """The tensors of ``f(a, b)`` or ``f((a, b))``."""
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        return tuple(given[0])
    return given


def _check_tensors(name, tensors):
    if isinstance(tensors, TensorBase) or not isinstance(tensors, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            f"{type(tensors).__name__}"
        )
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")


# --- at least so many dimensions -----------------------------------------------------


def _to_1d(x):
    return x.reshape(1) if x.ndim == 0 else x


def _to_2d(x):
    return x.reshape(1, 1) if x.ndim == 0 else x.unsqueeze(0) if x.ndim == 1 else x


def _to_3d(x):
    if x.ndim == 2:
        return x.unsqueeze(-1)
    return _to_2d(x).unsqueeze(-1) if x.ndim < 2 else x


def _at_least(name, widen, tensors):
    if len(tensors) == 1 and isinstance(tensors[0], TensorBase):
        return widen(tensors[0])
    tensors = _tensors(tensors)
    for x in tensors:
        if not isinstance(x, TensorBase):
            raise TypeError(
                f"{name}() received an invalid combination of arguments - got "
                f"({type(x).__name__}), but expected one of:\n * (Tensor input)\n"
                " * (tuple of Tensors tensors)\n"
            )
    return tuple(map(widen, tensors))


@composite()
def atleast_1d(*tensors):
    """Each tensor with at least one dimension (``torch.atleast_1d``).

    Several tensors, or a sequence of them, give a tuple.

    >>> import ftorch as torch
    >>> torch.atleast_1d(torch.tensor(3))
    tensor([3])
    """
    return _at_least("atleast_1d", _to_1d, tensors)


@composite()
def atleast_2d(*tensors):
    """Each tensor with at least two dimensions, new ones in front: see `atleast_1d`."""
    return _at_least("atleast_2d", _to_2d, tensors)


@composite()
def atleast_3d(*tensors):
    """Each tensor with at least three dimensions, the third one behind: see `atleast_1d`."""
    return _at_least("atleast_3d", _to_3d, tensors)


# --- stacking ------------------------------------------------------------------------


@composite()
def hstack(tensors, *, out=None):
    """Tensors side by side: along dimension 1, vectors along 0 (``torch.hstack``).

    >>> import ftorch as torch
    >>> torch.hstack((torch.tensor([1, 2]), torch.tensor([3])))
    tensor([1, 2, 3])
    """
    _check_tensors("hstack", tensors)
    wide = [_to_1d(x) for x in tensors]
    return api.cat(wide, 0 if wide[0].ndim == 1 else 1, out=out)


@composite(aliases="row_stack")
def vstack(tensors, *, out=None):
    """Tensors on top of each other, vectors as rows (``torch.vstack``)."""
    _check_tensors("vstack", tensors)
    return api.cat([_to_2d(x) for x in tensors], 0, out=out)


@composite()
def dstack(tensors, *, out=None):
    """Tensors behind each other, along dimension 2 (``torch.dstack``)."""
    _check_tensors("dstack", tensors)
    return api.cat([_to_3d(x) for x in tensors], 2, out=out)


@composite()
def column_stack(tensors, *, out=None):
    """Tensors side by side, vectors and numbers as columns (``torch.column_stack``).

    >>> import ftorch as torch
    >>> torch.column_stack((torch.tensor([1, 2]), torch.tensor([3, 4])))
    tensor([[1, 3],
            [2, 4]])
    """
    _check_tensors("column_stack", tensors)
    columns = [x.reshape(x.numel(), 1) if x.ndim <= 1 else x for x in tensors]
    return api.cat(columns, 1, out=out)


@composite()
def block_diag(*tensors):
    """A matrix with the given matrices on its diagonal (``torch.block_diag``).

    >>> import ftorch as torch
    >>> torch.block_diag(torch.tensor([[1, 2]]), torch.tensor(3))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    if not tensors:
        return api.empty(1, 0)
    return api._C._nn.block_diag(tensors)


# --- broadcasting --------------------------------------------------------------------


@composite()
def broadcast_shapes(*shapes):
    """The shape that shapes (or sizes of vectors) broadcast to (``torch.broadcast_shapes``).

    Raises:
        RuntimeError: if they do not fit. ValueError: for negative sizes.

    >>> import ftorch as torch
    >>> torch.broadcast_shapes((2, 1), 3)
    torch.Size([2, 3])
    """
    shapes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    result = [1] * max(map(len, shapes), default=0)
    for position, shape in enumerate(shapes):
        for i in range(-1, -1 - len(shape), -1):
            n = shape[i]
            if n < 0:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
            if n == 1 or n == result[i]:
                continue
            if result[i] != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {n} at {i}! Mismatching "
                    f"argument at index {position} had {shape}; but expected shape should be "
                    f"broadcastable to {result}"
                )
            result[i] = n
    return Size(result)


@composite()
def broadcast_tensors(*tensors):
    """Views of the tensors, expanded to one shape; those that have it themselves (``torch.broadcast_tensors``).

    Raises:
        RuntimeError: if they do not fit.
    """
    from ..call.promotion import broadcast_shape

    for i, x in enumerate(tensors):
        if not isinstance(x, TensorBase):
            raise TypeError(
                f"expected Tensor as element {i} in argument 0, but got {type(x).__name__}"
            )
    shape = broadcast_shape([x.shape for x in tensors])
    return tuple(x if x.shape == shape else x.expand(shape) for x in tensors)


@composite()
def meshgrid(*tensors, indexing=None):
    """Grids of coordinates: each vector expanded along all others (``torch.meshgrid``).

    Args:
        indexing: "ij" (the first vector along dimension 0) or "xy" (along dimension 1).

    Raises:
        RuntimeError: for tensors of several dimensions or dtypes.

    >>> import ftorch as torch
    >>> torch.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4, 5]), indexing="ij")[1]
    tensor([[3, 4, 5],
            [3, 4, 5]])
    """
    if indexing is None:
        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
            "argument.", stacklevel=2,
        )
        indexing = "ij"
    tensors = _tensors(tensors)
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    for x in tensors:
        if x.ndim > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x}"
            )
        if x.dtype is not tensors[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
        if x.device != tensors[0].device:
            raise RuntimeError("meshgrid expects all tensors to have the same device")
    swapped = indexing == "xy" and len(tensors) >= 2
    if swapped:
        tensors = (tensors[1], tensors[0], *tensors[2:])
    shape = [x.numel() for x in tensors]
    grids = [
        x.reshape([-1 if d == i else 1 for d in range(len(shape))]).expand(shape)
        for i, x in enumerate(tensors)
    ]
    if swapped:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@composite()
def cartesian_prod(*tensors):
    """All combinations of the vectors' elements, one per row (``torch.cartesian_prod``).

    >>> import ftorch as torch
    >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    tensors = _tensors(tensors)
    for x in tensors:
        if x.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    grids = meshgrid(*tensors, indexing="ij")
    return api.stack([grid.reshape(-1) for grid in grids], 1)


# --- positions -----------------------------------------------------------------------


@composite("function method")
def nonzero(input, *, as_tuple=False, out=None):
    """The indices of the elements that are not zero (``torch.nonzero``).

    Args:
        as_tuple: give one vector per dimension instead of a matrix with a row per element.

    >>> import ftorch as torch
    >>> torch.nonzero(torch.tensor([3, 0, 5]))
    tensor([[0],
            [2]])
    """
    if as_tuple:
        if out is not None:
            raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
        return unbind(api.argwhere(_to_1d(input)), 1)
    values = at_hand(input) if input.__class__ in PLAIN and input.ndim else None
    if values is None:
        found = api.argwhere(input)
    else:
        rows = np.transpose(values.nonzero())
        found = from_array(rows, stride=(1, len(rows)))  # a dimension's indices lie beside each other
    if out is None:
        return found
    if out.dtype is not found.dtype:
        raise RuntimeError(
            f"nonzero: Expected out tensor to have scalar type Long but got scalar type"
            f"{out.dtype.scalar_name}"
        )
    hooks.write_out(None, found, out)
    return out


@composite(public="nn.functional")
def one_hot(tensor, num_classes=-1):
    """Rows with a single one, at the index given for each (``torch.nn.functional.one_hot``).

    Args:
        tensor: int64, of any shape; the result has one more dimension.
        num_classes: -1 takes one more than the largest index.

    Raises:
        RuntimeError: for other dtypes and for indices out of range.

    >>> import ftorch as torch
    >>> torch.nn.functional.one_hot(torch.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if num_classes == -1 and tensor.dtype.name == "int64" and tensor.numel():
        if int(tensor.min()) < 0:
            raise RuntimeError("Class values must be non-negative.")
        num_classes = int(tensor.max()) + 1
    return api._C._nn.one_hot(tensor, num_classes)


# --- sliding blocks ------------------------------------------------------------------


@composite(public="nn.functional")
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Sliding blocks of images as columns (``torch.nn.functional.unfold``).

    Args:
        input: (batch, channels, height, width), the batch may be missing.

    Returns:
        Tensor: (batch, channels x block size, number of blocks).

    >>> import ftorch as torch
    >>> torch.nn.functional.unfold(torch.ones(1, 3, 4, 4), 2).shape
    torch.Size([1, 12, 9])
    """
    return api._C._nn.im2col(input, kernel_size, dilation, padding, stride)


@composite(public="nn.functional")
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Adds up sliding blocks given as columns (``torch.nn.functional.fold``): see `unfold`.

    >>> import ftorch as torch
    >>> torch.nn.functional.fold(torch.ones(1, 12, 9), 4, 2).shape
    torch.Size([1, 3, 4, 4])
    """
    return api._C._nn.col2im(input, output_size, kernel_size, dilation, padding, stride)


@composite(forms="function method")
def flatten(input, start_dim=0, end_dim=-1):
    """The dimensions ``start_dim`` to ``end_dim`` made one: a view where the strides allow it.

    Raises:
        IndexError: a dimension out of range.
        RuntimeError: ``start_dim`` after ``end_dim``.

    >>> import ftorch as torch
    >>> torch.flatten(torch.zeros(2, 3, 4), 1).shape
    torch.Size([2, 12])
    """
    flat = _flattened(input.shape, start_dim, end_dim)
    return input if flat is None else input.reshape(flat)


@functools.lru_cache(4096)
def _flattened(shape, start_dim, end_dim):
    start, end = (wrap_dim(d, len(shape)) for d in (start_dim, end_dim))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not shape:
        return (1,)
    if start == end:
        return None
    return (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])


@composite(forms="function method")
def ravel(input):
    """All elements in one dimension: a view of a contiguous tensor, otherwise a copy.

    >>> import ftorch as torch
    >>> torch.ravel(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    return input.contiguous().view(-1)


# --- transposing and summing to a shape ----------------------------------------------


@composite(forms="function method")
def adjoint(input):
    """The conjugate of the tensor with its last two dimensions transposed.

    >>> import ftorch as torch
    >>> torch.adjoint(torch.tensor([[1j, 2.0]]))
    tensor([[0.-1.j],
            [2.-0.j]])
    """
    return input.mH


@composite(forms="method")
def sum_to_size(self, *size):
    """The sum over what broadcasting to this shape has added.

    Raises:
        RuntimeError: if a tensor of shape ``size`` does not broadcast to this one's.

    >>> import ftorch as torch
    >>> torch.ones(2, 3).sum_to_size(3)
    tensor([2., 2., 2.])
    """
    if not size:
        raise TypeError  # which says more once it is explained
    size = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    gap = self.ndim - len(size)
    if gap < 0 or any(n not in (1, m) for n, m in zip(size, self.shape[max(gap, 0):])):
        raise RuntimeError(
            f"size {{{list(size)}}} is not expandable to size {{{list(self.shape)}}}."
        )
    dims = [d for d, m in enumerate(self.shape) if d < gap or (size[d - gap] == 1 != m)]
    if not size:
        return self.sum()
    result = self.sum(dims, keepdim=True) if dims else self
    return result if len(size) == self.ndim else result.reshape(size)


@composite()
def unravel_index(indices, shape):
    """The coordinates, in a tensor of a shape, of indices into its flattened elements.

    Raises:
        TypeError: for indices that are no integers.
        ValueError: for a negative size.

    >>> import ftorch as torch
    >>> torch.unravel_index(torch.tensor([3, 5]), (2, 3))
    (tensor([1, 1]), tensor([0, 2]))
    """
    if indices.is_complex() or indices.is_floating_point() or indices.dtype is dtypes.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, tuple, list)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in shape:
        if not isinstance(n, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(n)}")
    if any(n < 0 for n in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    steps, sizes = (
        api.tensor(v, dtype=dtypes.int64, device=indices.device) for v in (steps, shape)
    )
    return (indices.unsqueeze(-1).div(steps, rounding_mode="floor") % sizes).unbind(-1)


# --- concatenating chunks ------------------------------------------------------------


@composite()
def _chunk_cat(tensors, dim, num_chunks, *, out=None):
    """The tensors cut into chunks along ``dim`` (the last ones padded by zeros); chunk ``i`` of all
    of them, flattened, stands in row ``i``."""
    wrapped = _check_chunks(tensors, dim, num_chunks)
    rows = []
    for x in tensors:
        rest = -x.shape[wrapped] % num_chunks
        if rest:
            x = api.nn.functional.pad(x, [0, 0] * (x.ndim - 1 - wrapped) + [0, rest])
        shape = (*x.shape[:wrapped], num_chunks, -1)
        rows.append(x.reshape(shape))
    return api.cat(rows, wrapped + 1, out=out)


def _check_chunks(tensors, dim, num_chunks):
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    if num_chunks < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    first = tensors[0]
    if dim < 0:
        if any(x.ndim != first.ndim for x in tensors):
            raise RuntimeError(
                "_chunk_cat expects non-negative dim when input tensors have different ndims"
            )
        dim += first.ndim
    for x in tensors:
        if dim >= x.ndim:
            raise RuntimeError("_chunk_cat expects dim < ndim for all input tensors")
        if not x.numel():
            raise RuntimeError("_chunk_cat expects non-empty tensor")
        if x.dtype is not first.dtype:
            raise RuntimeError("_chunk_cat expects all input tensors with the same dtype")
        if x.shape[:dim] != first.shape[:dim]:
            raise RuntimeError(
                "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors"
            )
    return dim
