"""Splitting along a dimension: every piece is a view."""

from __future__ import annotations

import itertools

from ..autograd.views import of_one_call
from ..core import formats
from ..core.composite import composite
from ..kernels._common import wrap_dim
from ..tensor import TensorBase
from ._arguments import integer, mismatch


def _narrowed(x, sizes, dim, name="Split", guarded=True):
    """Consecutive pieces along a dimension, in the graph as outputs of an op of this name."""
    pieces, start = [], 0
    for n in sizes:
        pieces.append(x.narrow(dim, start, n))
        start += n
    return of_one_call(pieces, name, dim, guarded=guarded)


def _check_not_0d(name, x):
    if x.ndim == 0:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")


def _split_evenly(x, size, dim, name="Split", guarded=True):
    _check_not_0d("split", x)
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    dim = wrap_dim(dim, x.ndim)
    total = x.shape[dim]
    if size == 0:
        if total:
            raise RuntimeError(
                "split_size can only be 0 if dimension size is 0, but got dimension size of "
                f"{total}"
            )
        return _narrowed(x, [0], dim, name, guarded)
    count = max(-(-total // size), 1)
    sizes = [size] * (count - 1) + [total - size * (count - 1)]
    return _narrowed(x, sizes, dim, name, guarded)


@composite("function method")
def split_with_sizes(input, split_sizes, dim=0):
    """Views of consecutive pieces of given sizes (``torch.split_with_sizes``).

    Raises:
        RuntimeError: for sizes that are negative or do not add up to the dimension's.
    """
    return _split_by_sizes(input, split_sizes, dim, "SplitWithSizes", True)


def _split_by_sizes(input, split_sizes, dim, name, guarded):
    _check_not_0d("split_with_sizes", input)
    dim = wrap_dim(dim, input.ndim)
    total, sizes = input.shape[dim], [int(n) for n in split_sizes]
    if any(n < 0 for n in sizes):
        raise RuntimeError(
            "split_with_sizes expects split_sizes have only non-negative entries, but got "
            f"split_sizes={sizes}"
        )
    if sum(sizes) != total:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's size "
            f"at dimension {dim}), but got split_sizes={sizes}"
        )
    return _narrowed(input, sizes, dim, name, guarded)


def _split(x, size_or_sizes, dim):
    if isinstance(size_or_sizes, (tuple, list)):
        return split_with_sizes(x, size_or_sizes, dim)
    return _split_evenly(x, int(size_or_sizes), dim)


@composite()
def split(tensor, split_size_or_sections, dim=0):
    """Views of consecutive pieces of one size, or of several sizes (``torch.split``).

    Raises:
        RuntimeError: for sizes that do not fit.

    >>> import ftorch as torch
    >>> [piece.tolist() for piece in torch.split(torch.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    return _split(tensor, split_size_or_sections, dim)


@composite("method", name="split")
def _method_split(self, split_size, dim=0):
    """Views of consecutive pieces of one size, or of several sizes: see `torch.split`."""
    return _split(self, split_size, dim)


_method_split.__qualname__ = "Tensor.split"  # Python's method in PyTorch: what calls that do not fit are told


@composite("function method")
def chunk(input, chunks, dim=0):
    """Views of at most ``chunks`` pieces, all but the last of one size (``torch.chunk``).

    Raises:
        RuntimeError: unless ``chunks`` is positive.

    >>> import ftorch as torch
    >>> [piece.tolist() for piece in torch.chunk(torch.arange(5), 3)]
    [[0, 1], [2, 3], [4]]
    """
    return _chunk(input, chunks, dim, "Split", True)


def _chunk(input, chunks, dim, name, guarded):
    _check_not_0d("chunk", input)
    chunks = integer("chunk", "chunks", 2, chunks)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    dim = wrap_dim(dim, input.ndim)
    size = -(-input.shape[dim] // chunks)
    if size == 0:
        return _narrowed(input, [0] * chunks, dim, name, guarded)
    return _split_evenly(input, size, dim, name, guarded)


@composite("function method")
def unsafe_split(input, split_size, dim=0):
    """`split` into pieces of one size, which may be written to in place while graphs are recorded."""
    return _split_evenly(input, split_size, dim, "UnsafeSplit", False)


@composite("function method")
def unsafe_split_with_sizes(input, split_sizes, dim=0):
    """`split_with_sizes`, whose pieces may be written to in place while graphs are recorded."""
    return _split_by_sizes(input, split_sizes, dim, "UnsafeSplitWithSizes", False)


@composite("function method")
def unsafe_chunk(input, chunks, dim=0):
    """`chunk`, whose pieces may be written to in place while graphs are recorded."""
    return _chunk(input, chunks, dim, "UnsafeSplit", False)


@composite("function method")
def unbind(input, dim=0):
    """Views without a dimension, one for each of its indices (``torch.unbind``).

    >>> import ftorch as torch
    >>> torch.unbind(torch.tensor([[1, 2], [3, 4]]), 1)
    (tensor([1, 3]), tensor([2, 4]))
    """
    if input.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = wrap_dim(dim, input.ndim)
    views = [input.select(dim, i) for i in range(input.shape[dim])]
    return of_one_call(views, "Unbind", dim, "stack")


@composite("function method")
def tensor_split(input, indices_or_sections=None, dim=0, *, indices=None, sections=None,
                 tensor_indices_or_sections=None):
    """Views of so many nearly equal pieces, or of the pieces between indices.

    Args:
        indices_or_sections: a number of pieces, the indices to split at, or either as a tensor.

    Raises:
        RuntimeError: for 0-d tensors and numbers of pieces below 1.

    >>> import ftorch as torch
    >>> [piece.tolist() for piece in torch.tensor_split(torch.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    if input.ndim == 0:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    alternatives = (indices_or_sections, indices, sections, tensor_indices_or_sections)
    at = next((a for a in alternatives if a is not None), None)
    if isinstance(at, TensorBase):
        at = _indices_of(at)
    dim = wrap_dim(dim, input.ndim)
    total = input.shape[dim]
    if isinstance(at, (tuple, list)):
        bounds = [0, *(slice(None, int(i)).indices(total)[1] for i in at), total]
    else:
        count = integer("tensor_split", "sections", 2, at)
        if count <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {count}")
        size, larger = divmod(total, count)
        bounds = [size * i + min(i, larger) for i in range(count + 1)]
    return tuple(input.narrow(dim, a, max(b - a, 0)) for a, b in itertools.pairwise(bounds))


def _indices_of(tensor):
    if tensor.ndim > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
            f"one-dimensional tensor, but got a tensor with {tensor.ndim} dims"
        )
    if tensor.dtype.name != "int64":
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
            f"{tensor.dtype.scalar_name}"
        )
    return tensor.tolist()


def _split_along(name, x, at, dim, least):
    if x.ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor "
            f"with {x.ndim} dimensions!"
        )
    if not isinstance(at, (tuple, list)):
        try:
            at, size = integer(name, "sections", 2, at), x.shape[dim]
        except TypeError:
            raise mismatch(name, x, at) from None
        if at == 0 or size % at:
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the "
                f"dimension {size} is not divisible by the split_size {at}!"
            )
    return tensor_split(x, at, dim)


@composite("function method")
def hsplit(input, indices_or_sections=None, *, indices=None, sections=None):
    """`tensor_split` along dimension 1, of vectors along 0; into equal pieces only."""
    at = next(a for a in (indices_or_sections, indices, sections) if a is not None)
    return _split_along("hsplit", input, at, 0 if input.ndim == 1 else 1, 1)


@composite("function method")
def vsplit(input, indices_or_sections=None, *, indices=None, sections=None):
    """`tensor_split` along dimension 0; into equal pieces only."""
    at = next(a for a in (indices_or_sections, indices, sections) if a is not None)
    return _split_along("vsplit", input, at, 0, 2)


@composite("function method")
def dsplit(input, indices_or_sections=None, *, indices=None, sections=None):
    """`tensor_split` along dimension 2; into equal pieces only."""
    at = next(a for a in (indices_or_sections, indices, sections) if a is not None)
    return _split_along("dsplit", input, at, 2, 3)


# --- copies --------------------------------------------------------------------------


def _copies(pieces, out):
    if out is None:
        return tuple(piece.clone(memory_format=formats.contiguous_format) for piece in pieces)
    for target, piece in zip(out, pieces, strict=True):
        target.resize_(piece.shape).copy_(piece)
    return None


@composite()
def split_copy(input, split_size, dim=0, *, out=None):
    """`split` into pieces of one size that are tensors of their own."""
    return _copies(_split_evenly(input, split_size, dim), out)


@composite()
def split_with_sizes_copy(input, split_sizes, dim=0, *, out=None):
    """`split_with_sizes` into tensors of their own."""
    return _copies(split_with_sizes(input, split_sizes, dim), out)


@composite()
def unbind_copy(input, dim=0, *, out=None):
    """`unbind` into tensors of their own."""
    return _copies(unbind(input, dim), out)
