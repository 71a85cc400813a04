"""Products of matrices of which one at least is sparse."""

from __future__ import annotations

import numpy as np

from ..eager.core import api as torch
from ..eager.core import formats
from ..eager.tensor import Tensor
from ._convert import coalesce, to_compressed, to_coo
from ._structural import transpose
from ._tensor import (
    CooPattern,
    SparseTensor,
    accumulated,
    adopt,
    host,
    index_tensor,
    is_compressed,
    is_coo,
    layout_name,
    not_run,
    record,
    renamed,
    sparse_op,
    values_of,
)


def elements(t):
    """(rows, columns, values) of a sparse matrix, as dense tensors."""
    p = t._pattern
    if isinstance(p, CooPattern):
        v = values_of(t)
        if p.sparse_dim != 2:
            raise RuntimeError(
                f"addmm: 2D tensor expected, got {p.sparse_dim}D sparse and {t.dim() - p.sparse_dim}D "
                "dense tensor"
            )
        return p.indices[0], p.indices[1], v
    coo = p.element_coo()
    return coo.indices[0], coo.indices[1], p.elements(values_of(t))


def _same_dtype(a, b):
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"expected scalar type {a.dtype.scalar_name} but found {b.dtype.scalar_name}"
        )


def _times(a, dense, name="Mm"):
    """A sparse matrix times a dense one."""
    if a.dim() != 2:
        raise RuntimeError(
            f"addmm: Argument #2 (sparse): Expected 2D tensor, got {a.dim()}D tensor"
        )
    if dense.dim() != 2:
        raise RuntimeError(f"addmm: Argument #3 (dense): Expected dim 2, got {dense.dim()}")
    if a.shape[1] != dense.shape[0]:
        raise RuntimeError(
            f"addmm: Argument #3 (dense): Expected dim 0 size {a.shape[1]}, got {dense.shape[0]}"
        )
    _same_dtype(a, dense)
    by_rows = a._pattern.by_rows() if a.dtype.is_floating_point or a.dtype.is_complex else None
    if by_rows is None:
        rows, columns, v = elements(a)
        out = accumulated(v.unsqueeze(1) * dense.index_select(0, columns), rows, a.shape[0])
        return renamed(out, name)
    begins, columns, order = by_rows
    v = a._pattern.elements(values_of(a))
    v = v if order is None else v.index_select(0, order)
    return renamed(torch._sparse_rows_mm(v, begins, columns, dense), name)


def _sparse_times_sparse(a, b):
    """The product of two sparse matrices, sparse: every pair of elements that meet."""
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )
    _same_dtype(a, b)
    layout = a.layout
    a, b = coalesce(to_coo(a)), coalesce(to_coo(b))
    p, q = a._pattern, b._pattern
    (i, k), (r, j) = host(p.indices), host(q.indices)
    begins = np.searchsorted(r, k, side="left")
    counts = np.searchsorted(r, k, side="right") - begins
    left = np.repeat(np.arange(len(k)), counts)
    right = (
        np.repeat(begins, counts)
        + np.arange(len(left))
        - np.repeat(np.cumsum(counts) - counts, counts)
    )
    keys = i[left] * b.shape[1] + j[right]
    unique, inverse = np.unique(keys, return_inverse=True)
    pairs = values_of(a).index_select(0, index_tensor(left, p.indices)) * values_of(b).index_select(
        0, index_tensor(right, p.indices)
    )
    v = accumulated(pairs, index_tensor(inverse.reshape(-1), p.indices), len(unique))
    at = np.stack([unique // max(b.shape[1], 1), unique % max(b.shape[1], 1)])
    out = p.moved(at, (a.shape[0], b.shape[1]), True).build(v, "SparseSparseMatmul")
    return out if layout is formats.sparse_coo else to_compressed(out, layout)


def _give(result, out):
    if out is None:
        return result
    return adopt(out, result) if isinstance(out, SparseTensor) else out.copy_(result)


@sparse_op("mm", "_sparse_mm")
def mm(input, mat2, *, out=None, out_dtype=None):
    """The matrix product; sparse if both are."""
    a, b = isinstance(input, SparseTensor), isinstance(mat2, SparseTensor)
    if a and b:
        return _give(_sparse_times_sparse(input, mat2), out)
    if a:
        return _give(_times(input, mat2), out)
    if input.dim() != 2 or mat2.dim() != 2:
        raise RuntimeError("mm: expected 2D tensors")
    if input.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({input.shape[0]}x{input.shape[1]} and "
            f"{mat2.shape[0]}x{mat2.shape[1]})"
        )
    product = _times(transpose(mat2, 0, 1), input.t()).t()
    if is_compressed(mat2):  # whose kernels write rows, PyTorch's of coordinates columns
        product = product.contiguous()
    return _give(renamed(product, "Mm"), out)


@sparse_op()
def mv(input, vec, *, out=None):
    """A sparse matrix times a vector."""
    if not isinstance(input, SparseTensor):
        raise not_run("mv", vec)
    if input.dim() != 2 or vec.dim() != 1:
        raise RuntimeError(
            f"mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: {input.dim()} Tensor Dim: "
            f"{vec.dim()}"
        )
    if input.shape[1] != vec.shape[0]:
        raise RuntimeError("mv: expected self.size(-1) == vec.size(-1)")
    return _give(renamed(_times(input, vec.unsqueeze(1)).squeeze(1), "Mv"), out)


@sparse_op()
def bmm(input, mat2, *, out=None):
    """Batches of sparse matrices times batches of dense ones."""
    if not isinstance(input, SparseTensor):
        return _give(bmm(transpose(mat2, 1, 2), input.transpose(1, 2)).transpose(1, 2), out)
    if isinstance(mat2, SparseTensor):
        raise RuntimeError("bmm_sparse: Tensor 'mat2' must be dense")
    if input.dim() != 3 or mat2.dim() != 3:
        raise RuntimeError(
            f"bmm_sparse: Tensors 'input' and 'mat2' must be 3D, but got {input.dim()}D and "
            f"{mat2.dim()}D"
        )
    n, rows, inner = input.shape
    if mat2.shape[0] != n:
        raise RuntimeError("bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match")
    if mat2.shape[1] != inner:
        raise RuntimeError("bmm_sparse: 'self.size(2)' and 'mat2.size(1)' must match")
    p = input._pattern
    coo, v = (
        (p, values_of(input)) if is_coo(input) else (p.element_coo(), p.elements(values_of(input)))
    )
    b, i, j = coo.indices.unbind(0)
    picked = mat2.reshape(n * inner, mat2.shape[2]).index_select(0, b * inner + j)
    total = accumulated(v.unsqueeze(1) * picked, b * rows + i, n * rows)
    return _give(renamed(total.reshape(n, rows, mat2.shape[2]), "Bmm"), out)


@sparse_op("matmul", "__matmul__", "linalg_matmul")
def matmul(input, other, *, out=None):
    """``input @ other`` for vectors, matrices and batches."""
    ndims = (input.dim(), other.dim())
    if ndims == (2, 2):
        return mm(input, other, out=out)
    if ndims == (2, 1) and isinstance(input, SparseTensor):
        return mv(input, other, out=out)
    if ndims == (1, 2):
        return mv(transpose(other, 0, 1), input, out=out)
    if ndims == (3, 3):
        return bmm(input, other, out=out)
    if ndims[1] == 2 and isinstance(other, SparseTensor) and ndims[0] > 2:
        flat = mm(input.reshape(-1, input.shape[-1]), other)
        return _give(flat.reshape(*input.shape[:-1], other.shape[-1]), out)
    if ndims[0] == 2 and ndims[1] == 3:
        parts = [mm(input, m) for m in other.unbind(0)]
        return _give(torch.stack(parts), out)
    raise not_run("dot" if ndims == (1, 1) else "expand",
                  input if isinstance(input, SparseTensor) else other)


sparse_op("__rmatmul__")(lambda input, other: matmul(other, input))


@sparse_op("addmm", "_sparse_addmm")
def addmm(input, mat1, mat2, *, beta=1, alpha=1, out=None):
    """``beta * input + alpha * (mat1 @ mat2)``."""
    product = (
        mm(mat1, mat2)
        if (isinstance(mat1, SparseTensor) or isinstance(mat2, SparseTensor))
        else torch.mm(mat1, mat2)
    )
    if isinstance(input, SparseTensor):
        if not isinstance(product, SparseTensor):
            if is_coo(input):
                raise not_run("addmm", input)
            return _give(torch.add(product * alpha, input, alpha=beta), out)
        return _give(torch.add(input * beta, product, alpha=alpha), out)
    if isinstance(product, SparseTensor):
        product = product.to_dense()
    return _give(renamed(_scale(input, beta) + _scale(product, alpha), "Addmm"), out)


def _scale(t, factor):
    return t if isinstance(factor, (int, float)) and factor == 1 else t * factor


@sparse_op()
def addmm_(input, mat1, mat2, *, beta=1, alpha=1):
    result = addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    return adopt(input, result) if isinstance(input, SparseTensor) else input.copy_(result)


@sparse_op()
def addmv(input, mat, vec, *, beta=1, alpha=1, out=None):
    """``beta * input + alpha * (mat @ vec)``."""
    return _give(_scale(input, beta) + _scale(mv(mat, vec), alpha), out)


@sparse_op()
def sspaddmm(input, mat1, mat2, *, beta=1, alpha=1, out=None):
    """`addmm` of a sparse ``input`` and ``mat1``: a sparse result."""
    if not isinstance(mat1, SparseTensor):
        raise not_run("sspaddmm", input)
    flat = _rows_as_elements(hspmm(to_coo(mat1), mat2))
    return _give(joined(input * beta, flat * alpha), out)


def joined(a, b):
    """The sum of two tensors of coordinates as the elements of both."""
    if tuple(a.shape) != tuple(b.shape):
        raise RuntimeError(
            f"sspaddmm: Argument #1: Expected dim 0 size {b.shape[0]}, got {a.shape[0]}"
        )
    p, q = a._pattern, b._pattern
    pattern = CooPattern(torch.cat([p.indices, q.indices], 1), p.size)
    return pattern.build(torch.cat([values_of(a), values_of(b)]), "Sspaddmm")


def _rows_as_elements(t):
    """A tensor of rows (one sparse, one dense dimension) as one of elements."""
    p = t._pattern
    width = t.shape[1]
    rows = host(p.indices)[0]
    at = np.stack([np.repeat(rows, width), np.tile(np.arange(width), len(rows))])
    return p.moved(at, t.shape, p.coalesced or None).build(values_of(t).reshape(-1))


@sparse_op()
def smm(input, mat2):
    """A sparse matrix times a dense one: a sparse result."""
    size = (input.shape[0], mat2.shape[1])
    empty = CooPattern(torch.zeros((2, 0), dtype=torch.tensor(0).dtype), size, True).build(
        torch.zeros(0, dtype=input.dtype)
    )
    return sspaddmm(empty, input, mat2)


@sparse_op()
def hspmm(mat1, mat2, *, out=None):
    """A sparse matrix times a dense one: a result whose rows are sparse."""
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"hspmm: Argument #3: Expected dim 0 size {mat1.shape[1]}, got {mat2.shape[0]}"
        )
    _, columns, v = elements(mat1)
    rows, inverse = np.unique(host(mat1._pattern.indices)[0], return_inverse=True)
    products = v.unsqueeze(1) * mat2.index_select(0, columns)
    summed = accumulated(products, index_tensor(inverse.reshape(-1)), len(rows))
    return _give(CooPattern(index_tensor(rows[None]), (mat1.shape[0], mat2.shape[1]), True).build(
        summed, "Hspmm"
    ), out)


@sparse_op()
def linear(input, weight, bias=None):
    """``input @ weight.t() + bias`` (``nn.functional.linear``)."""
    product = matmul(input, weight.t())
    return product if bias is None else bias + product


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0, out=None):
    """``beta * input + alpha * (mat1 @ mat2)`` at the places of the compressed tensor ``input``
    (``torch.sparse.sampled_addmm``).

    Raises:
        RuntimeError: for other layouts and sizes that do not fit.

    >>> import ftorch as torch
    >>> places = torch.eye(2).to_sparse_csr()
    >>> torch.sparse.sampled_addmm(places, torch.ones(2, 3), torch.ones(3, 2)).values()
    tensor([4., 4.])
    """
    if not is_compressed(input) or input._pattern.block is not None or not input._pattern.by_row:
        if is_coo(input) or not isinstance(input, SparseTensor):
            raise not_run("sparse_sampled_addmm", input)
        raise RuntimeError(f"Expected self to have sparse csr layout, but got {layout_name(input)}")
    for name, m in (("mat1", mat1), ("mat2", mat2)):
        if not isinstance(m, Tensor) or isinstance(m, SparseTensor):
            raise RuntimeError(f"sampled_addmm: Expected {name} to have strided layout")
    for name, m in (("mat1", mat1), ("mat2", mat2)):
        if m.dtype is not input.dtype:
            raise RuntimeError(
                f"sampled_addmm: Expected mat1 and mat2 to have the same dtype, but got "
                f"{mat1.dtype.c_name} and {mat2.dtype.c_name}"
            )
    if mat1.shape[-1] != mat2.shape[-2]:
        raise RuntimeError(
            f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ({mat1.shape[-2]}x"
            f"{mat1.shape[-1]} and {mat2.shape[-2]}x{mat2.shape[-1]})"
        )
    for which, d, m in ((0, -2, mat1), (1, -1, mat2)):
        if m.shape[d] != input.shape[d]:
            raise RuntimeError(
                f"sampled_addmm: self.shape[{d}] and mat{which + 1}.shape[{d}] must match."
            )
    if tuple(mat1.shape[:-2]) != input._pattern.batch or mat2.shape[:-2] != mat1.shape[:-2]:
        raise RuntimeError("sampled_addmm: Expected mat1 and self to have the same batch sizes")
    p = input._pattern
    at = p.element_coo().indices
    *batch, rows, columns = at.unbind(0)
    left = mat1[(*batch, rows)]
    right = mat2.transpose(-2, -1)[(*batch, columns)]
    products = p.unflat((left * right).sum(-1))
    products = _scale(products, alpha)
    kept = input._v.detach()
    result = p.build(products if beta == 0 else products + _scale(kept, beta), "SparseSampledAddmm")
    if input.requires_grad:  # whose gradient is all of the result's, not what is at its places only
        inner, result = result, result.detach()
        conjugate = beta.conjugate() if isinstance(beta, complex) else beta
        record("SparseSampledAddmm", [input, inner], result, lambda grad: [grad * conjugate, grad])
    return _give(result, out)


_REDUCTIONS = {"sum": "sum", "mean": "mean", "amax": "amax", "amin": "amin", "max": "amax", "min": "amin"}


def reduced_mm(input, mat2, reduce):
    """A compressed matrix times a dense one with sums, means or extrema in place of sums."""
    if reduce == "prod":
        raise RuntimeError("sparse_mm_reduce: reduce type of prod has not been enabled.")
    if reduce not in _REDUCTIONS:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    reduce = _REDUCTIONS[reduce]
    rows, columns, v = elements(input)
    products = v.unsqueeze(1) * mat2.index_select(0, columns)
    total = torch.zeros((input.shape[0], mat2.shape[1]), dtype=products.dtype)
    if reduce == "sum":
        return total.index_add(0, rows, products)
    if reduce != "mean":  # what rows held is not reduced, but equal to no extremum either, whose gradient it would share
        total = total.index_fill(0, rows, float("nan"))
    return total.scatter_reduce(0, rows.unsqueeze(1).expand_as(products), products, reduce, include_self=False)


@sparse_op("linalg_matrix_power", "matrix_power")
def matrix_power(input, n):
    """``input @ input @ ...``, twice and more."""
    if n == 1:
        raise RuntimeError("unsupported memory format option Contiguous")
    if n < 1:
        raise not_run("linalg_matrix_power", input)
    result = base = input
    for bit in bin(n)[3:]:  # from the second binary place on
        result = result @ result
        result = result @ base if bit == "1" else result
    return result
