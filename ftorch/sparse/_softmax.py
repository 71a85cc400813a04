"""``torch.sparse.softmax``, ``sum`` and ``spdiags``."""

from __future__ import annotations

import numpy as np

from ..eager.core import api as torch
from ._convert import coalesce, to_sparse
from ._structural import summed, wrap
from ._tensor import (
    CooPattern,
    accumulated,
    host,
    index_tensor,
    is_coo,
    layout_name,
    not_run,
    rebuilt,
    values_of,
)


def _normalized(name, input, dim, dtype, log):
    if not is_coo(input):
        raise not_run(name, input)
    dim = wrap(dim, input.dim())
    t = coalesce(input)
    p, v = t._pattern, values_of(t)
    if dtype is not None:
        v = v.to(dtype)
    if dim >= p.sparse_dim:
        function = torch.log_softmax if log else torch.softmax
        return rebuilt(t, function(v, dim - p.sparse_dim + 1), "SparseSoftmax")
    keys = p.host_keys([d for d in range(p.sparse_dim) if d != dim])
    _, inverse = np.unique(keys, return_inverse=True)
    inverse = inverse.reshape(-1)
    count = int(inverse.max()) + 1 if inverse.size else 0
    group = index_tensor(inverse, p.indices)
    lowest = torch.full((count, *v.shape[1:]), float("-inf"), dtype=v.dtype, device=v.device)
    places = group.reshape(-1, *[1] * (v.dim() - 1)).expand_as(v)
    top = lowest.scatter_reduce(0, places, v.detach(), "amax").index_select(0, group)
    shifted = v - torch.where(top.isinf(), torch.zeros_like(top), top)
    total = accumulated(shifted.exp(), group, count).index_select(0, group)
    out = shifted - total.log() if log else shifted.exp() / total
    return rebuilt(t, out, "SparseLogSoftmax" if log else "SparseSoftmax")


def softmax(input, dim, *, dtype=None):
    """Softmax over the elements that are there (``torch.sparse.softmax``).

    Args:
        input: of coordinates; missing elements count as minus infinity.
        dtype: that of the result; the elements are cast first.

    >>> import ftorch as torch
    >>> torch.sparse.softmax(torch.tensor([[1., 1.], [0., 2.]]).to_sparse(), 1).to_dense()
    tensor([[0.5000, 0.5000],
            [0.0000, 1.0000]])
    """
    return _normalized("_sparse_softmax", input, dim, dtype, False)


def log_softmax(input, dim, *, dtype=None):
    """The logarithm of `softmax`, computed at once (``torch.sparse.log_softmax``)."""
    return _normalized("_sparse_log_softmax", input, dim, dtype, True)


def sum(input, dim=None, dtype=None):
    """The sum of the elements, over all or some dimensions (``torch.sparse.sum``).

    Returns:
        A sparse tensor; a dense one where no sparse dimension is left.

    >>> import ftorch as torch
    >>> torch.sparse.sum(torch.eye(2).to_sparse(), 0).to_dense()
    tensor([1., 1.])
    """
    if layout_name(input) == "Strided":
        raise not_run("_indices", input)
    if not is_coo(input):
        raise RuntimeError(
            f"coalesce expected sparse coordinate tensor layout but got {layout_name(input)}"
        )
    if dim is None:
        v = values_of(input)
        return v.sum() if dtype is None else v.sum(dtype=dtype)
    return summed(coalesce(input), dim, False, dtype, "SparseSum")


def spdiags(diagonals, offsets, shape, layout=None):
    """A sparse matrix of diagonals (``torch.sparse.spdiags``).

    Args:
        diagonals: (n, m): a row for each diagonal, of which the first elements lie outside where its
            offset is positive.
        offsets: (n,): different ones.
        layout: that of the result, coordinates by default.

    Raises:
        RuntimeError: for shapes that do not fit, or an offset that occurs twice.

    >>> import ftorch as torch
    >>> torch.sparse.spdiags(torch.ones(1, 2), torch.tensor([1]), (2, 2)).to_dense()
    tensor([[0., 1.],
            [0., 0.]])
    """
    diagonals = diagonals.unsqueeze(0) if diagonals.dim() == 1 else diagonals
    offsets = offsets.unsqueeze(0) if offsets.dim() == 0 else offsets
    if diagonals.dim() != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if offsets.dim() != 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if diagonals.shape[0] != offsets.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({diagonals.shape[0]}) does not match the number of offsets "
            f"({offsets.shape[0]})"
        )
    if str(offsets.dtype) != "torch.int64":
        raise RuntimeError(
            "Offset Tensor must have dtype Long but got " + offsets.dtype.scalar_name
        )
    allowed = ("torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc")
    if layout is not None and str(layout) not in allowed:
        raise RuntimeError(
            "Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got "
            f"{str(layout).removeprefix('torch.').title()}"
        )
    at = host(offsets)
    if len(set(at.tolist())) != len(at):
        raise RuntimeError("Offset tensor contains duplicate values")
    rows, columns, which = ([np.zeros(0, np.int64)] for _ in range(3))
    for k, offset in enumerate(at.tolist()):
        column = np.arange(max(offset, 0), min(diagonals.shape[1], shape[1], shape[0] + offset))
        rows.append(column - offset)
        columns.append(column)
        which.append(k * diagonals.shape[1] + column)
    indices = np.stack([np.concatenate(rows), np.concatenate(columns)]).astype(np.int64)
    v = diagonals.reshape(-1).index_select(
        0, index_tensor(np.concatenate(which).astype(np.int64), diagonals)
    )
    out = CooPattern(index_tensor(indices, diagonals), shape).build(v, "Spdiags")
    return out if layout is None else to_sparse(out, layout=layout)
