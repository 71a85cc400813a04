"""Conversions between layouts, `coalesce`, masks, and the attributes of sparse tensors."""

from __future__ import annotations

import math

import numpy as np

from ..eager.core import formats
from ._tensor import (
    _LAYOUT_NAME,
    CompressedPattern,
    CooPattern,
    SparseTensor,
    accumulated,
    also_dense,
    host,
    index_tensor,
    is_compressed,
    is_coo,
    layout_name,
    lent,
    not_run,
    renamed,
    sparse_op,
    values_of,
)

_COMPRESSED = {
    formats.sparse_csr: "sparse_csr", formats.sparse_csc: "sparse_csc",
    formats.sparse_bsr: "sparse_bsr", formats.sparse_bsc: "sparse_bsc",
}


# --- coalescing ----------------------------------------------------------------------


@sparse_op()
def coalesce(input):
    """The same tensor with each place once, in order."""
    p = input._pattern
    if not isinstance(p, CooPattern):
        raise RuntimeError(
            f"coalesce expected sparse coordinate tensor layout but got {layout_name(input)}"
        )
    if p.coalesced:
        return input
    if p.nnz < 2:
        return CooPattern(p.indices, p.size, True).build(values_of(input), "Coalesce")
    _, first, inverse = np.unique(p.host_keys(), return_index=True, return_inverse=True)
    values = values_of(input)
    if len(first) == p.nnz:  # all different: only the order changes
        values = values.index_select(0, index_tensor(first, p.indices))
    else:
        values = accumulated(values, index_tensor(inverse.reshape(-1), p.indices), len(first))
    indices = host(p.indices)[:, first]
    return p.moved(indices, p.size, True).build(values, "Coalesce")


@sparse_op()
def is_coalesced(input):
    if not is_coo(input):
        raise RuntimeError(
            f"is_coalesced expected sparse coordinate tensor layout but got {layout_name(input)}"
        )
    return input._pattern.coalesced


@sparse_op()
def indices(input):
    if not is_coo(input):
        raise RuntimeError(
            f"indices expected sparse coordinate tensor layout but got {layout_name(input)}"
        )
    if not input._pattern.coalesced:
        raise RuntimeError(
            "Cannot get indices on an uncoalesced tensor, please call .coalesce() first"
        )
    return lent(input).indices.detach()


@sparse_op()
def values(input):
    if is_coo(input) and not input._pattern.coalesced:
        raise RuntimeError(
            "Cannot get values on an uncoalesced tensor, please call .coalesce() first"
        )
    return values_of(input)


@sparse_op()
def _indices(input):
    if not is_coo(input):
        raise not_run("_indices", input)
    return lent(input).indices.detach()


@sparse_op()
def _values(input):
    if not is_coo(input):
        raise not_run("_values", input)
    return input._v.detach()


@sparse_op()
def _nnz(input):
    return input._pattern.nnz


def _compressed_part(name, by_row, part):
    wanted = "row" if by_row else "column"

    def get(input):
        if not is_compressed(input) or input._pattern.by_row is not by_row:
            raise RuntimeError(
                f"{name} expected sparse {wanted} compressed tensor layout but got {layout_name(input)}"
            )
        return getattr(lent(input), part).detach()

    return sparse_op(name)(get)


_compressed_part("crow_indices", True, "compressed")
_compressed_part("col_indices", True, "plain")
_compressed_part("ccol_indices", False, "compressed")
_compressed_part("row_indices", False, "plain")


@sparse_op()
def sparse_dim(input):
    return input._pattern.sparse_dim if is_coo(input) else 2


@sparse_op()
def dense_dim(input):
    p = input._pattern
    return input.dim() - p.sparse_dim if is_coo(input) else len(p.dense_size)


# --- to and from dense ---------------------------------------------------------------


@sparse_op()
def to_dense(input, dtype=None, *, masked_grad=True):
    """The dense tensor of the same elements."""
    if not isinstance(input, SparseTensor):
        return input if dtype is None else input.to(dtype)
    if dtype is not None and is_coo(input):
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    values = values_of(input)
    return input._pattern.scatter(values if dtype is None else values.to(dtype))


@sparse_op()
def to_sparse(input, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The tensor in a sparse layout: coordinates of the first ``sparse_dim`` dimensions by default."""
    if isinstance(sparse_dim, formats.layout):
        layout, sparse_dim = sparse_dim, None
    if layout is None or layout is formats.sparse_coo:
        if blocksize is not None:
            raise RuntimeError(
                f"dense_to_sparse: conversion from {layout_name(input)} to Sparse with blocksize "
                "argument given is not supported"
            )
        return to_coo(input, sparse_dim)
    if layout is formats.strided:
        return input.to_dense()
    if layout not in _COMPRESSED:
        raise RuntimeError(
            f"to_sparse: conversion from {layout_name(input)} to {layout} is not supported"
        )
    return to_compressed(input, layout, blocksize, dense_dim)


@sparse_op("to_sparse_coo")
def to_coo(input, sparse_dim=None):
    """The tensor as coordinates."""
    if is_coo(input):
        if sparse_dim is not None and sparse_dim != input._pattern.sparse_dim:
            raise RuntimeError(
                "to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self."
                "sparse_dim() is not supported"
            )
        return input
    if is_compressed(input):
        p = input._pattern
        coo = p.element_coo()
        elements = p.elements(values_of(input))
        in_order = True if p.layout is formats.sparse_csr else None
        return CooPattern(coo.indices, coo.size, in_order).build(elements, "ToSparse")
    ndim, number = input.dim(), int(sparse_dim is None)
    if sparse_dim is None:
        sparse_dim = ndim
    if sparse_dim < 0 or sparse_dim > ndim or (sparse_dim == 0 and ndim > 0):
        raise RuntimeError(
            "dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0"
            if sparse_dim == 0
            else f"dense_to_sparse: sparse_dim argument must be in [0,{ndim}] range, but {sparse_dim} "
            "is given"
        )
    array = host(input.detach())
    nonzero = array != 0
    if sparse_dim < ndim:
        nonzero = nonzero.any(axis=tuple(range(sparse_dim, ndim)))
    if sparse_dim == 0:
        at = np.zeros((0, int(nonzero)), np.int64)
    else:
        at = np.stack(np.nonzero(nonzero)).astype(np.int64)
    pattern = CooPattern(index_tensor(at, input), input.shape, True)
    out = renamed(pattern.build(pattern.gather(input), "ToSparse"), "ToSparse", number)
    return also_dense(out, (input, lambda grad: grad))


def compressed_pattern(lines, across, shape, layout, batch=(), block=None, like=None, dtype=None):
    """The pattern of elements sorted by batch and line.

    Args:
        lines, across: (batches, n) arrays: the row (column) that each is in, and where.
    """
    by_row = layout in (formats.sparse_csr, formats.sparse_bsr)
    extent = shape[len(batch) + (0 if by_row else 1)]
    if block is not None:
        extent //= block[0 if by_row else 1]
    counts = (
        np.stack([np.bincount(line, minlength=extent) for line in lines])
        if len(lines)
        else (np.zeros((0, extent), np.int64))
    )
    begins = np.concatenate([np.zeros((len(lines), 1), np.int64), np.cumsum(counts, 1)], 1)
    begins, across = begins.reshape(*batch, -1), np.asarray(across).reshape(*batch, -1)
    dtype = np.int64 if dtype is None else dtype
    return CompressedPattern(
        index_tensor(begins.astype(dtype), like), index_tensor(across.astype(dtype), like), shape,
        layout, block,
    )


_KIND = {formats.strided: "dense_to_sparse", formats.sparse_coo: "sparse_coo_to_sparse"}


def to_compressed(input, layout, blocksize=None, dense_dim=None):
    """The tensor in a compressed layout."""
    name = _COMPRESSED[layout]
    blocked = layout in (formats.sparse_bsr, formats.sparse_bsc)
    before = input._pattern.block if is_compressed(input) else None
    if before is not None and not blocked:
        raise RuntimeError(
            f"sparse_compressed_to_{name}: expected SparseCsr or SparseCsc layout but got {layout_name(input)}"
        )
    if blocked:
        what = "to_sparse" if input.layout is layout else _KIND.get(input.layout, "sparse_compressed_to_sparse")
        text = f"{what}: conversion from {layout_name(input)} to {_LAYOUT_NAME[layout]} "
        if blocksize is None:
            raise RuntimeError(f"{text}without blocksize argument given is not supported")
        blocksize = (blocksize, blocksize) if isinstance(blocksize, int) else tuple(blocksize)
        if before is not None and tuple(before) != blocksize:
            raise RuntimeError(f"{text}with blocksize changed from {list(before)} to {list(blocksize)} is not supported")
        _check_block(name, input, blocksize, dense_dim)
    elif blocksize is not None:
        raise RuntimeError(
            f"dense_to_sparse: conversion from {layout_name(input)} to {_LAYOUT_NAME[layout]} with "
            "blocksize argument given is not supported"
        )
    of_indices = host(input._pattern.plain).dtype if is_compressed(input) else None
    if is_compressed(input):
        p = input._pattern
        if p.layout is layout and (not blocked or p.block == blocksize):
            return input
        dense_dim = len(p.dense_size)
        if p.batch or blocked or p.block is not None:
            return _from_dense(input.to_dense(), layout, blocksize, dense_dim, known=input)
        input = to_coo(input)
    elif is_coo(input):
        if input._pattern.sparse_dim != 2:
            raise RuntimeError(
                f"coo_to_{name}: conversion from Sparse to {_LAYOUT_NAME[layout]} for input tensors with "
                "sparse_dim()!=2 is not supported"
            )
        if blocked:
            dense = input.dim() - 2
            return _from_dense(input.to_dense(), layout, blocksize, dense, known=input)
    else:
        return _from_dense(input, layout, blocksize, dense_dim or 0)
    input = coalesce(input)
    p = input._pattern
    rows, cols = host(p.indices)
    values = values_of(input)
    if layout is formats.sparse_csc:
        order = np.lexsort((rows, cols))
        values = values.index_select(0, index_tensor(order, p.indices))
        rows, cols = cols[order], rows[order]
    pattern = compressed_pattern([rows], [cols], p.size, layout, like=p.indices, dtype=of_indices)
    return pattern.build(values, "ToSparse")


def _check_block(name, input, blocksize, dense_dim):
    if len(blocksize) != 2:
        raise RuntimeError(
            f"dense_to_{name}: blocksize needs to be a tuple of size 2, but got {len(blocksize)}"
        )
    if min(blocksize) <= 0:
        raise RuntimeError(
            f"dense_to_{name}: blocksize needs to be positive, but got {list(blocksize)}"
        )
    dense = dense_dim or (0 if not isinstance(input, SparseTensor) else input.dense_dim())
    pair = tuple(input.shape[input.dim() - 2 - dense : input.dim() - dense])
    if len(pair) == 2 and (pair[0] % blocksize[0] or pair[1] % blocksize[1]):
        raise RuntimeError(
            f"dense_to_{name}: tensor sparse size ({pair[0]},{pair[1]}) must be divisible by given blocksize "
            f"({blocksize[0]},{blocksize[1]})"
        )


def _from_dense(input, layout, block, dense_dim, known=None):
    """A strided tensor in a compressed layout.

    Args:
        known: a sparse tensor whose pattern says where elements are, instead of the values.
    """
    ndim = input.dim()
    if ndim - dense_dim < 2:
        raise RuntimeError(
            f"dense_to_{_COMPRESSED[layout]}: dense_dim argument must be in [0,{ndim - 2}] range, but "
            f"{dense_dim} is given"
        )
    n = ndim - dense_dim - 2
    batch = tuple(input.shape[:n])
    if known is None:
        there = host(input.detach()) != 0
        if dense_dim:
            there = there.any(axis=tuple(range(ndim - dense_dim, ndim)))
    else:
        coo = known._pattern if is_coo(known) else known._pattern.element_coo()
        there = np.zeros(tuple(input.shape[: n + 2]), bool)
        there[tuple(host(coo.indices))] = True
    rows, cols = there.shape[-2:]
    there = there.reshape(math.prod(batch), rows, cols)
    if block is not None:
        r, c = block
        there = there.reshape(len(there), rows // r, r, cols // c, c).any(axis=(2, 4))
    by_row = layout in (formats.sparse_csr, formats.sparse_bsr)
    if not by_row:
        there = there.transpose(0, 2, 1)
    found = [np.nonzero(t) for t in there]
    if len({len(f[0]) for f in found}) > 1:
        raise RuntimeError("Expect the same number of specified elements per batch.")
    pattern = compressed_pattern(
        [f[0] for f in found], [f[1] for f in found], tuple(input.shape), layout, batch, block,
        like=input, dtype=host(known._pattern.plain).dtype if is_compressed(known) else None,
    )
    name = f"To{_LAYOUT_NAME[layout]}" if known is None else "ToSparse"
    return also_dense(pattern.build(pattern.gather(input), name), (input, lambda grad: grad))


for _layout, _name in _COMPRESSED.items():
    if _layout in (formats.sparse_bsr, formats.sparse_bsc):

        def _method(input, blocksize=None, dense_dim=None, *, _layout=_layout):  # type: ignore
            return to_compressed(input, _layout, blocksize, dense_dim)
    else:

        def _method(input, dense_dim=None, *, _layout=_layout):
            return to_compressed(input, _layout, None, dense_dim)

    sparse_op(f"to_{_name}")(_method)


# --- masks ---------------------------------------------------------------------------


@sparse_op()
def sparse_mask(input, mask):
    """The elements of ``input`` at the places of the sparse tensor ``mask``."""
    if not isinstance(mask, SparseTensor):
        raise not_run("sparse_mask", input)
    if tuple(input.shape) != tuple(mask.shape):
        raise RuntimeError(
            "sparse_mask(): operands have incompatible sizes; self has size "
            f"{list(input.shape)} but mask has size {list(mask.shape)}"
        )
    p = mask._pattern
    if is_coo(mask) and not p.coalesced and not isinstance(input, SparseTensor):
        mask = coalesce(mask)
        p = mask._pattern
    return p.twin().build(p.take(input), "SparseMask")


@sparse_op()
def _to_dense(input, dtype=None, masked_grad=None):
    return to_dense(input, dtype)
