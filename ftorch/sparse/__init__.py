"""``torch.sparse``: functions of sparse tensors, and the tensors' own table of operations.

A sparse tensor holds dense tensors of indices and values; see `ftorch.sparse._tensor`.

>>> import ftorch as torch
>>> a = torch.eye(2).to_sparse().requires_grad_()
>>> (torch.sparse.mm(a, torch.ones(2, 1)) * 2).sum().backward()
>>> a.grad.coalesce().values()
tensor([2., 2.])
"""
# ruff: noqa: F401

from __future__ import annotations

from ..eager.core import api as _torch
from . import _dense_gradients, _matmul, _pointwise, _structural
from ._attributes import emptied_to as _emptied_to  # noqa: F401
from ._attributes import like as _like  # noqa: F401
from ._attributes import zeros as _zeros
from ._construct import (
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
)
from ._convert import sparse_mask as _sparse_mask
from ._convert import to_compressed as _to_compressed
from ._convert import to_dense as _to_dense
from ._convert import to_sparse as _to_sparse
from ._embedding import embedding as _embedding_rows
from ._embedding import embedding_bag as _embedding_bag
from ._invariants import check_sparse_tensor_invariants
from ._legacy import TYPES as _TYPES
from ._matmul import addmm as _addmm
from ._matmul import mm as _mm
from ._matmul import reduced_mm as _reduced_mm
from ._matmul import sampled_addmm
from ._softmax import log_softmax, softmax, spdiags, sum
from ._tensor import SparseTensor
from ._tensor import is_compressed as _is_compressed
from ._tensor import not_run as _not_run
from ._tensor import renamed as _renamed
from .semi_structured import (
    SparseSemiStructuredTensor,
    SparseSemiStructuredTensorCUSPARSELT,
    SparseSemiStructuredTensorCUTLASS,
    to_sparse_semi_structured,
)

__all__ = [
    "SparseSemiStructuredTensor",
    "SparseSemiStructuredTensorCUSPARSELT",
    "SparseSemiStructuredTensorCUTLASS",
    "SparseTensor",
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "spsolve",
    "sum",
    "to_sparse_semi_structured",
]


def mm(mat1, mat2, reduce=None):
    """The product of matrices of which one is sparse (``torch.sparse.mm``).

    Args:
        reduce: "sum", "mean", "amax" or "amin" of the products of a row, for a compressed ``mat1``.

    Returns:
        A dense matrix; a sparse one where both are sparse.

    >>> import ftorch as torch
    >>> torch.sparse.mm(torch.eye(2).to_sparse(), torch.ones(2, 2))
    tensor([[1., 1.],
            [1., 1.]])
    """
    sparse = isinstance(mat1, SparseTensor) or isinstance(mat2, SparseTensor)
    if reduce is not None:
        if not _is_compressed(mat1):
            raise _not_run("_sparse_mm_reduce_impl", mat1)
        return _reduced_mm(mat1, mat2, reduce)
    if not sparse:
        return _torch.mm(mat1, mat2)
    out = _mm(mat1, mat2)
    by_dense = isinstance(mat1, SparseTensor) and not isinstance(out, SparseTensor)
    return _renamed(out, "SparseAddmm") if by_dense else out


def addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """``beta * mat + alpha * (mat1 @ mat2)`` for a sparse ``mat1`` (``torch.sparse.addmm``).

    >>> import ftorch as torch
    >>> torch.sparse.addmm(torch.ones(2, 1), torch.eye(2).to_sparse(), torch.ones(2, 1), beta=2.)
    tensor([[3.],
            [3.]])
    """
    return _addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def spsolve(input, other, *, left=True):
    """Solves a sparse system; PyTorch's CPU builds refuse, and so does this.

    Raises:
        NotImplementedError: always: call ``torch.linalg.solve`` on ``to_dense()``.
    """
    raise _not_run("_spsolve", input)


def as_sparse_gradcheck(gradcheck):
    """`torch.autograd.gradcheck` for functions of sparse tensors (``torch.sparse.as_sparse_gradcheck``).

    Returns:
        A function with the same parameters that gives the checked function sparse inputs made of dense
        values, and looks at the values of sparse results. ``masked=True`` (a keyword) looks at given
        elements only, which is what sparse gradients are of.

    >>> import ftorch as torch
    >>> check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    >>> x = torch.eye(2, dtype=torch.float64).to_sparse().requires_grad_()
    >>> check(lambda x: x.to_dense(), x, masked=True)
    True
    """

    def checked(func, inputs, **kwargs):
        masked = kwargs.pop("masked", False)
        given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        patterns, leaves = [], []
        for x in given:
            if isinstance(x, SparseTensor):
                x = x if masked else _full(x)
                patterns.append(x._pattern)
                leaves.append(x._v.detach().clone().requires_grad_(x.requires_grad))
            else:
                patterns.append(None)
                leaves.append(x)

        def of_values(*values):
            built = [v if p is None else p.build(v) for p, v in zip(patterns, values)]
            result = func(*built)
            several = isinstance(result, (list, tuple))
            dense = [r.to_dense() if isinstance(r, SparseTensor) else r
                     for r in (result if several else [result])]
            return tuple(dense) if several else dense[0]

        return gradcheck(of_values, tuple(leaves), **kwargs)

    checked.__name__ = getattr(gradcheck, "__name__", "gradcheck")
    return checked


def _full(x):
    """The tensor with all places given."""
    dense = x.detach().to_dense()
    ones = _to_sparse(_torch.ones_like(dense), layout=x.layout,
                      blocksize=getattr(x._pattern, "block", None))
    return ones._pattern.build(ones._pattern.gather(dense)).requires_grad_(x.requires_grad)

globals().update(_TYPES)
