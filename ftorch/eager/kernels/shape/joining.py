"""Joining, reversing, repeating."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from ...core import dtype as dtypes
from ...core.geometry import (
    Size,
    channels_last_stride,
    geometry,
    is_channels_last,
    pointwise_stride,
    view_stride,
)
from ...core.registry import op
from .._common import as_images, up, wrap_dim, wrap_dims
from ..indexing.scatter import not_implemented


def joined_dtype(arrays) -> np.dtype:
    """The common dtype of tensors that are put side by side (dimensions carry no weight)."""
    common = dtypes.from_numpy(arrays[0].dtype)
    for array in arrays[1:]:
        common = dtypes.promote_types(common, dtypes.from_numpy(array.dtype))
    return common.numpy


# --- joining -------------------------------------------------------------------------


def _check_list(name, tensors):
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"
        )
    for i, x in enumerate(tensors):
        if x is None:
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got NoneType")


def joined(inputs, static, shapes):
    """Images whose channels all lie together give such an image."""
    return [channels_last_stride(shapes[0]) if inputs and all(map(is_channels_last, inputs)) else None]


def _stacked(inputs, static, shapes):
    """As of images that are joined and looked at with one dimension more."""
    [shape] = shapes
    dim = wrap_dim(static["dim"], len(shape))
    if dim == len(shape) - 1:
        inputs = [geometry(Size((*g.shape, 1)), g.dtype, g.device, (*g.stride, 1)) for g in inputs]
        return joined(inputs, static, shapes)
    if not all(map(is_channels_last, inputs)):
        return [None]
    whole = (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :])
    return [view_stride(whole, channels_last_stride(whole), shape)]


joined.is_basic = _stacked.is_basic = True  # type: ignore[attr-defined]  # contiguous of what is


@op("cat(Tensor[] tensors, int dim=0) -> Tensor", forms="function out",
    aliases="concat concatenate", layout=joined)
def cat(tensors, dim):
    """Tensors joined along a dimension in which alone their sizes may differ (``torch.cat``).

    The result has the dtype that all are promoted to; 1-D tensors without elements are skipped.

    Raises:
        ValueError: for no tensors. RuntimeError: for sizes that do not match.

    >>> import ftorch as torch
    >>> torch.cat((torch.ones(1, 2), torch.zeros(2, 2)))
    tensor([[1., 1.],
            [0., 0.],
            [0., 0.]])
    """
    _check_list("cat", tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for i, x in enumerate(tensors):
        if x.ndim == 0:
            raise RuntimeError(
                f"zero-dimensional tensor (at position {i}) cannot be concatenated"
            )
    dtype = joined_dtype(tensors)
    # A 1-D tensor without elements joins anything: the "empty tensor" of early PyTorch.
    joined = [(i, x) for i, x in enumerate(tensors) if x.shape != (0,)]
    if not joined:
        return tensors[0].astype(dtype)
    first = joined[0][1]
    dim = wrap_dim(dim, first.ndim)
    for i, x in joined[1:]:
        _check_joins(first, x, i, dim)
    return jnp.concatenate([x.astype(dtype) for _, x in joined], axis=dim)


def _check_joins(first, x, position, dim):
    if x.ndim != first.ndim:
        raise RuntimeError(
            f"Tensors must have same number of dimensions: got {first.ndim} and {x.ndim}"
        )
    for d, (expected, got) in enumerate(zip(first.shape, x.shape, strict=True)):
        if d != dim and expected != got:
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {dim}. Expected size {expected} "
                f"but got size {got} for tensor number {position} in the list."
            )


@op("stack(Tensor[] tensors, int dim=0) -> Tensor", forms="function out", layout=_stacked)
def stack(tensors, dim):
    """Tensors of one shape joined along a new dimension (``torch.stack``).

    Raises:
        RuntimeError: for no tensors, or different shapes.

    >>> import ftorch as torch
    >>> torch.stack((torch.tensor([1, 2]), torch.tensor([3, 4])), dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    _check_list("stack", tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0]
    dim = wrap_dim(dim, first.ndim + 1)
    for i, x in enumerate(tensors):
        if x.shape != first.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry "
                f"0 and {list(x.shape)} at entry {i}"
            )
    dtype = joined_dtype(tensors)
    return jnp.stack([x.astype(dtype) for x in tensors], axis=dim)


# --- reversing and rotating ----------------------------------------------------------


@op("flip(Tensor self, int[] dims) -> Tensor", forms="function method", layout="preserve")
def flip(self, dims):
    """A copy with the order of the elements reversed along dimensions (``torch.flip``).

    >>> import ftorch as torch
    >>> torch.flip(torch.tensor([[1, 2], [3, 4]]), (0, 1))
    tensor([[4, 3],
            [2, 1]])
    """
    return jnp.flip(self, wrap_dims(dims, self.ndim, empty_is_all=False))


@op("fliplr(Tensor self) -> Tensor", forms="function method", layout="preserve")
def fliplr(self):
    """`flip` along dimension 1 (``torch.fliplr``).

    Raises:
        RuntimeError: for fewer than two dimensions.
    """
    if self.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return jnp.flip(self, 1)


@op("flipud(Tensor self) -> Tensor", forms="function method", layout="preserve")
def flipud(self):
    """`flip` along dimension 0 (``torch.flipud``).

    Raises:
        RuntimeError: for 0-d tensors.
    """
    if self.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return jnp.flip(self, 0)


def _rolled(inputs, static, shapes):
    """Images stay images where dimensions are named; else the elements are one line."""
    return as_images(inputs, static, shapes) if static["dims"] not in ((), []) else [None]


@op("roll(Tensor self, int[1] shifts, int[1] dims=[]) -> Tensor", forms="function method", layout=_rolled)
def roll(self, shifts, dims):
    """Elements shifted along dimensions, those shifted out coming back in (``torch.roll``).

    Without ``dims`` the flattened tensor is shifted.

    Raises:
        RuntimeError: for different numbers of shifts and dimensions.

    >>> import ftorch as torch
    >>> torch.roll(torch.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    shifts, dims = ((v,) if isinstance(v, int) else v for v in (shifts, dims))
    if not shifts:
        raise RuntimeError("`shifts` required")
    if not dims and len(shifts) == 1:
        return jnp.roll(self, shifts[0])
    if len(shifts) != len(dims):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    if self.ndim == 0:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    return jnp.roll(self, shifts, tuple(wrap_dim(d, self.ndim) for d in dims))


@roll.by_regime
def _(self, shifts, dims):
    shifts, dims = ((v,) if isinstance(v, int) else v for v in (shifts, dims))
    rank = len(self.shape)
    if dims and any(not -rank <= d < rank for d in dims):
        return None
    sizes = [self.shape[d] for d in dims] or [math.prod(self.shape)]
    return tuple([shift // max(n, 1) for shift, n in zip(shifts, sizes)])  # what is left over is so many sizes less


def _rotated(inputs, static, shapes):
    """A turn is a mirror image, which lies as the tensor does, and a transpose of that."""
    g = inputs[0]
    stride = list(g.stride if g.is_dense else pointwise_stride(g.shape, (g,)))
    if static["k"] % 2:
        a, b = static["dims"]
        stride[a], stride[b] = stride[b], stride[a]
    return [tuple(stride) if static["k"] % 4 else None]


@op("rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor", forms="function method", layout=_rotated)
def rot90(self, k, dims):
    """Rotation by 90 degrees, ``k`` times, from the first of two dimensions to the second.

    Raises:
        RuntimeError: unless two different dimensions are given.

    >>> import ftorch as torch
    >>> torch.rot90(torch.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if self.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {self.ndim}")
    a, b = (wrap_dim(d, self.ndim) for d in dims)
    if a == b:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    return jnp.rot90(self, k, (a, b))


# --- repeating -----------------------------------------------------------------------


def _check_repeated(shape, repeats):
    sizes = [size * n for size, n in zip(shape, repeats, strict=True)]
    for size in sizes:
        if size < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {size}: {sizes}"
            )


@op("repeat(Tensor self, int[] repeats) -> Tensor", forms="method")
def repeat(self, repeats):
    """Copies of the tensor side by side, so many along each dimension (``Tensor.repeat``).

    More repeats than dimensions make new dimensions in front.

    Raises:
        RuntimeError: for fewer repeats than dimensions.

    >>> import ftorch as torch
    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    if len(repeats) < self.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    shape = (1,) * (len(repeats) - self.ndim) + self.shape
    _check_repeated(shape, repeats)
    # Widened so that the gradient, a sum over the copies, is added up in full precision.
    return jnp.tile(up(self).reshape(shape), repeats).astype(self.dtype)


@op("tile(Tensor self, int[] dims) -> Tensor", forms="function method")
def tile(self, dims):
    """Like `Tensor.repeat`, where missing repeats are 1 (``torch.tile``).

    >>> import ftorch as torch
    >>> torch.tile(torch.tensor([[1, 2]]), (2,))
    tensor([[1, 2, 1, 2]])
    """
    return repeat(self, (1,) * (self.ndim - len(dims)) + tuple(dims))


@op("repeat_interleave.self_int(Tensor self, int repeats, int? dim=None, *, "
    "int? output_size=None) -> Tensor", forms="function method")
def repeat_interleave_int(self, repeats, dim, output_size):
    """Each element several times in a row, along a dimension or flattened.

    ``repeats`` is a number, or a tensor with a number for each element.

    Raises:
        RuntimeError: for negative repeats, or not as many as there are elements.

    >>> import ftorch as torch
    >>> torch.repeat_interleave(torch.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    >>> torch.repeat_interleave(torch.tensor([1, 2]), torch.tensor([1, 3]))
    tensor([1, 2, 2, 2])
    """
    x = self.reshape(-1) if dim is None or self.ndim == 0 else self
    dim = 0 if dim is None else wrap_dim(dim, x.ndim)
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    expected = x.shape[dim] * repeats
    if output_size is not None and output_size != expected:
        raise RuntimeError(
            f"repeat_interleave: Invalid output_size, expected {expected} but got {output_size}"
        )
    return jnp.repeat(up(x), repeats, axis=dim).astype(x.dtype)


def _check_repeats(repeats, output_size):
    if repeats.dtype not in (np.int32, np.int64):
        raise not_implemented("repeat_interleave_cpu", repeats)
    if (repeats < 0).any():
        raise RuntimeError("repeats can not be negative")
    if output_size is not None and output_size != repeats.sum():
        raise RuntimeError("allocated size does not match required size")


@op("repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, "
    "int? output_size=None) -> Tensor", forms="function method", host=True)
def repeat_interleave_tensor(self, repeats, dim, output_size):
    if repeats.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    x = self.reshape(-1) if dim is None else self
    given = 0 if dim is None else dim
    if not x.ndim:
        raise IndexError(f"Dimension specified as {given} but tensor has no dimensions")
    dim = wrap_dim(given, x.ndim)
    if repeats.size == 1:
        repeats = np.broadcast_to(repeats.reshape(-1), (x.shape[dim],))
    if len(repeats) != x.shape[dim]:
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{len(repeats)} and input.size({given}) = {x.shape[dim]}"
        )
    _check_repeats(repeats, output_size)
    return np.repeat(x, repeats, axis=dim)


@op("repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor",
    forms="function method", host=True, differentiable=False)
def repeat_interleave(repeats, output_size):
    if repeats.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    _check_repeats(repeats, output_size)
    return np.repeat(np.arange(len(repeats), dtype=repeats.dtype), repeats)
