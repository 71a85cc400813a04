"""ATen's operators under ``torch.sparse``: scripts name these, as do kernels that PyTorch's own functions call."""

from __future__ import annotations

import ftorch as torch

from .aten import aten


@aten
def _sparse_mm(sparse, dense, reduce=None):
    return torch.sparse.mm(sparse, dense, reduce)


@aten
def _sparse_addmm(self, mat1, mat2, *, beta=1, alpha=1):
    return torch.sparse.addmm(self, mat1, mat2, beta=beta, alpha=alpha)


@aten
def _sparse_mm_reduce_impl(self, other, reduce):
    return torch.sparse.mm(self, other, reduce), torch.empty(0, dtype=torch.int64)


@aten
def _sparse_softmax(self, dim, dtype=None):
    # The form that PyTorch's kernels have takes a bool there: whether float16 becomes float32, which is so on GPUs only.
    return torch.sparse.softmax(self, dim, dtype=None if isinstance(dtype, bool) else dtype)


@aten
def _sparse_log_softmax(self, dim, dtype=None):
    return torch.sparse.log_softmax(self, dim, dtype=None if isinstance(dtype, bool) else dtype)


@aten
def _sparse_sum(self, dim=None, *, dtype=None):
    return torch.sparse.sum(self, dim, dtype)


@aten
def sparse_sampled_addmm(self, mat1, mat2, *, beta=1, alpha=1):
    return torch.sparse.sampled_addmm(self, mat1, mat2, beta=beta, alpha=alpha)


@aten
def _spdiags(diagonals, offsets, shape, layout=None):
    return torch.sparse.spdiags(diagonals, offsets, shape, layout)
