"""Triangles, diagonals and matrices made of vectors or of other matrices."""

from __future__ import annotations

import functools
import itertools
import math

import jax.numpy as jnp
import numpy as np

from ...core.registry import op
from ...core.user_warnings import warn_once
from .._common import dtype_name, is_integral, opmath, up, wrap_dim
from .._primitives import is_for_all_sizes, table_of
from ..indexing.scatter import not_implemented
from .joining import joined_dtype

# --- triangles and diagonals ---------------------------------------------------------


def _triangle(name, function, document):
    @op(f"{name}(Tensor self, int diagonal=0) -> Tensor", forms="function method inplace out")
    def triangle(self, diagonal):
        if self.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        return function(self, diagonal)

    triangle.kernel.__doc__ = document
    return triangle.derivative(lambda grad, diagonal: function(grad, diagonal))


tril = _triangle("tril", jnp.tril, """The lower triangle of matrices, zeros above (``torch.tril``).

    Args:
        diagonal: up to which diagonal to keep, counted from the main one.

    Raises:
        RuntimeError: for fewer than two dimensions.

    >>> import ftorch as torch
    >>> torch.tril(torch.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """)
triu = _triangle("triu", jnp.triu, "The upper triangle of matrices, zeros below: see `torch.tril`.")


@op("diag(Tensor self, int diagonal=0) -> Tensor", forms="function method out")
def diag(self, diagonal):
    """A square matrix with the given diagonal, or the diagonal of a matrix (``torch.diag``).

    Raises:
        RuntimeError: for other than one or two dimensions.

    >>> import ftorch as torch
    >>> torch.diag(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    if self.ndim == 1:
        return diag_embed(self, diagonal, 0, 1)
    if self.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {self.ndim}D")
    return jnp.diagonal(self, diagonal)


@op("diagflat(Tensor self, int offset=0) -> Tensor", forms="function method")
def diagflat(self, offset):
    """A square matrix whose diagonal is the flattened tensor (``torch.diagflat``)."""
    return diag_embed(self.reshape(-1), offset, 0, 1)


@op("diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    forms="function method")
def diag_embed(self, offset, dim1, dim2):
    """Square matrices whose diagonals are the last dimension (``torch.diag_embed``).

    Raises:
        RuntimeError: if both new dimensions are the same.

    >>> import ftorch as torch
    >>> torch.diag_embed(torch.ones(2, 3)).shape
    torch.Size([2, 3, 3])
    """
    ndim = self.ndim + 1
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    # Each element is spread over its row, and kept where the row meets the diagonal.
    size = self.shape[-1] + abs(offset)
    rows = jnp.pad(self, [(0, 0)] * (self.ndim - 1) + [(max(-offset, 0), max(offset, 0))])
    on_diagonal = jnp.eye(size, size, offset, dtype=bool)
    matrices = jnp.where(on_diagonal, rows[..., None], jnp.zeros((), self.dtype))
    return jnp.moveaxis(matrices, (-2, -1), (a, b))


@op("trace(Tensor self) -> Tensor", forms="function method")
def trace(self):
    """The sum of a matrix's diagonal (``torch.trace``); integers are summed in int64.

    Raises:
        RuntimeError: for other than two dimensions.

    >>> import ftorch as torch
    >>> torch.trace(torch.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """
    if self.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {self.ndim}")
    if self.dtype == np.bool_:
        raise not_implemented("trace", self)
    if is_integral(self):
        return jnp.trace(self.astype(np.int64))
    return jnp.trace(up(self)).astype(self.dtype)


# --- products ------------------------------------------------------------------------


@op("kron(Tensor self, Tensor other) -> Tensor", forms="function method out")
def kron(self, other):
    """The Kronecker product: a copy of ``other`` scaled by each element (``torch.kron``).

    >>> import ftorch as torch
    >>> torch.kron(torch.tensor([1, 10]), torch.tensor([1, 2]))
    tensor([ 1,  2, 10, 20])
    """
    dtype = joined_dtype([self, other])
    wide = np.uint8 if dtype == np.bool_ else opmath(dtype)
    return jnp.kron(self.astype(wide), other.astype(wide)).astype(dtype)


def _cross(self, other, dim):
    """The cross product along ``dim``; the error texts name it as it was given."""
    if self.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    d = wrap_dim(dim, self.ndim)
    sizes = [x.shape[d] if x.ndim else 1 for x in (self, other)]
    if sizes != [3, 3]:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {sizes[0]} and "
            f"{sizes[1]}"
        )
    if self.dtype == np.bool_:
        raise not_implemented("cross", self)
    if self.dtype != other.dtype:
        raise RuntimeError(
            f"expected scalar type {dtype_name(self.dtype)} but found {dtype_name(other.dtype)}"
        )
    result = jnp.cross(up(self), up(other), axis=d)
    return result.astype(self.dtype)


@op("linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor", forms="function out")
def linalg_cross(self, other, dim):
    """The cross product along a dimension of size 3, batches broadcast.

    Raises:
        RuntimeError: for other sizes, or different dtypes or numbers of dimensions.

    >>> import ftorch as torch
    >>> torch.linalg.cross(torch.tensor([1., 0., 0.]), torch.tensor([0., 1., 0.]))
    tensor([0., 0., 1.])
    """
    return _cross(self, other, dim)


@op("cross(Tensor self, Tensor other, int? dim=None) -> Tensor", forms="function method out")
def cross(self, other, dim):
    """`torch.linalg.cross`, by default along the first dimension of size 3 (``torch.cross``)."""
    if dim is None:
        warn_once(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly "
            "or simply use torch.linalg.cross.\nThe default value of dim will change to agree with that of "
            "linalg.cross in a future release."
        )
        if 3 not in self.shape:
            raise RuntimeError("no dimension of size 3 in input")
        dim = self.shape.index(3)
    return _cross(self, other, dim)


@op("block_diag(Tensor[] tensors) -> Tensor", public="_C._nn")
def block_diag(tensors):
    for i, x in enumerate(tensors):
        if x.ndim > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
                f"{i} has {x.ndim} dimensions"
            )
    dtype = joined_dtype(tensors)
    blocks = [jnp.atleast_2d(x).astype(dtype) for x in tensors]
    width = sum(block.shape[1] for block in blocks)
    left = list(itertools.accumulate((b.shape[1] for b in blocks), initial=0))
    rows = [
        jnp.pad(b, ((0, 0), (before, width - before - b.shape[1])))
        for b, before in zip(blocks, left, strict=False)
    ]
    return jnp.concatenate(rows)


@op("combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
    forms="function")
def combinations(self, r, with_replacement):
    """The ways to choose ``r`` elements of a vector, one per row (``torch.combinations``).

    Raises:
        RuntimeError: for other than one dimension, or a negative number.

    >>> import ftorch as torch
    >>> torch.combinations(torch.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if self.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(self.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return jnp.zeros((0,), self.dtype)
    if is_for_all_sizes() and math.comb(len(self) + r, r) > _MOST_TRIED:
        raise RuntimeError("too many choices to try a size out")
    return self[table_of(_picks(r, with_replacement), len(self))]


_MOST_TRIED = 1 << 20


@functools.cache
def _picks(r, with_replacement):
    """The function of a size that gives the choices of ``r`` places, one per row."""
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return lambda size: np.array(list(choose(range(size), r)), np.int64).reshape(-1, r)


def _powers(x, count):
    """``x ** [0, ..., count - 1]`` in a new last dimension, by repeated multiplication."""
    columns = jnp.broadcast_to(x[..., None], (*x.shape, max(count - 1, 0)))
    ones = jnp.ones((*x.shape, 1), x.dtype)
    return jnp.concatenate([ones, jnp.cumprod(columns, axis=-1)], axis=-1)[..., :count]


@op("vander(Tensor x, int? N=None, bool increasing=False) -> Tensor")
def vander(x, N, increasing):
    """Powers of a vector's elements, descending from left to right (``torch.vander``).

    Raises:
        RuntimeError: for other than one dimension, or a negative number of columns.

    >>> import ftorch as torch
    >>> torch.vander(torch.tensor([2, 3]), 3)
    tensor([[4, 2, 1],
            [9, 3, 1]])
    """
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    if N is not None and N < 0:
        raise RuntimeError("N must be non-negative.")
    wide = x.astype(np.int64) if is_integral(x) else up(x)
    powers = _powers(wide, len(x) if N is None else N)
    if not increasing:
        powers = jnp.flip(powers, -1)
    return powers if is_integral(x) else powers.astype(x.dtype)


@op("linalg_vander(Tensor x, *, int? N=None) -> Tensor")
def linalg_vander(x, N):
    """Powers of the elements, ascending in a new last dimension (``torch.linalg.vander``).

    >>> import ftorch as torch
    >>> torch.linalg.vander(torch.tensor([2, 3]), N=3)
    tensor([[1, 2, 4],
            [1, 3, 9]])
    """
    if x.dtype == np.bool_ or opmath(x.dtype) != x.dtype:
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got "
            f"{dtype_name(x.dtype)}"
        )
    x = jnp.atleast_1d(x)
    count = x.shape[-1] if N is None else N
    if count <= 1:
        raise RuntimeError("N must be greater than 1.")
    return _powers(x.astype(np.int64) if is_integral(x) else x, count)


@op("one_hot(Tensor self, int num_classes=-1) -> Tensor", public="_C._nn", differentiable=False)
def one_hot(self, num_classes):
    if self.dtype != np.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes <= 0 and math.prod(self.shape) == 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    return (self[..., None] == jnp.arange(max(num_classes, 0))).astype(np.int64)


@one_hot.check
def _(self, num_classes):
    if self.size and self.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if self.size and self.max() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
