"""Random matrices with given properties."""

from __future__ import annotations

import math
import random

import ftorch as torch

from .._creation import make_tensor


def noncontiguous_like(t):
    """A tensor of the same values whose elements lie apart, with NaN (or True, or 12) between them."""
    if not t.is_contiguous():
        return t
    between = math.nan if t.dtype.is_floating_point or t.dtype.is_complex else True if t.dtype is torch.bool else 12
    memory = t.new_empty(t.shape + (2,))
    memory[..., 0] = between
    memory[..., 1] = t.detach()
    return memory[..., 1].requires_grad_(t.requires_grad)


def random_square_matrix_of_rank(l, rank, dtype=torch.double, device="cpu"):  # noqa: E741  PyTorch's name
    """An ``l`` by ``l`` matrix of a rank."""
    if rank > l:
        raise AssertionError(f"rank must be <= l, got rank={rank}, l={l}")
    u, s, vh = torch.linalg.svd(torch.randn(l, l, dtype=dtype, device=device), full_matrices=False)
    s[rank:] = 0
    s[:rank] = torch.where(s[:rank] == 0, 1, s[:rank])
    return (u * s.to(dtype).unsqueeze(-2)) @ vh


def random_well_conditioned_matrix(*shape, dtype, device, mean=1.0, sigma=0.001):
    """Matrices whose singular values are normally distributed, with ``mean`` and deviation ``sigma``."""
    real = torch.empty(0, dtype=dtype).abs().dtype
    x = torch.rand(shape, dtype=dtype, device=device)
    u, _, vh = torch.linalg.svd(x, full_matrices=False)
    s = torch.randn(*shape[:-2], min(shape[-2:]), dtype=real, device=device) * sigma + mean
    return (u * s.sort(-1, descending=True).values.to(dtype).unsqueeze(-2)) @ vh


def _square(shape):
    if shape[-1] != shape[-2]:
        raise AssertionError(f"expected square matrix, got shape[-1]={shape[-1]} != shape[-2]={shape[-2]}")
    return shape


def random_symmetric_matrix(l, *batches, dtype=torch.double, device="cpu", **_):  # noqa: E741
    """Symmetric ``l`` by ``l`` matrices."""
    a = torch.randn(*batches, l, l, dtype=dtype, device=device)
    return (a + a.mT).div_(2)


def random_hermitian_matrix(l, *batches, dtype=torch.double, device="cpu", **_):  # noqa: E741
    """Hermitian ``l`` by ``l`` matrices."""
    a = torch.randn(*batches, l, l, dtype=dtype, device=device)
    return (a + a.mH).div_(2)


def make_symmetric_matrices(*shape, device, dtype):
    """Symmetric matrices of a shape."""
    t = make_tensor(_square(shape), device=device, dtype=dtype)
    return (t + t.mT).div_(2)


def random_symmetric_psd_matrix(l, *batches, dtype=torch.double, device="cpu", **_):  # noqa: E741
    """Symmetric positive semi-definite ``l`` by ``l`` matrices."""
    a = torch.randn(*batches, l, l, dtype=dtype, device=device)
    return a @ a.mT


def random_hermitian_psd_matrix(matrix_size, *batch_dims, dtype=torch.double, device="cpu"):
    """Hermitian positive semi-definite matrices."""
    a = torch.randn(*batch_dims, matrix_size, matrix_size, dtype=dtype, device=device)
    return a @ a.mH


def random_symmetric_pd_matrix(matrix_size, *batch_dims, dtype=torch.double, device="cpu", **_):
    """Symmetric positive definite matrices."""
    a = torch.randn(*batch_dims, matrix_size, matrix_size, dtype=dtype, device=device)
    return a @ a.mT + torch.eye(matrix_size, dtype=dtype, device=device) * 1e-5


def make_symmetric_pd_matrices(*shape, device, dtype):
    """Symmetric positive definite matrices of a shape."""
    t = make_tensor(_square(shape), device=device, dtype=dtype)
    return t @ t.mT + torch.eye(shape[-1], device=device, dtype=dtype) * 1e-5


def random_hermitian_pd_matrix(matrix_size, *batch_dims, dtype, device):
    """Hermitian positive definite matrices."""
    a = torch.randn(*batch_dims, matrix_size, matrix_size, dtype=dtype, device=device)
    return a @ a.mH + torch.eye(matrix_size, dtype=dtype, device=device)


def make_fullrank_matrices_with_distinct_singular_values(*shape, device, dtype, requires_grad=False):
    """Well-conditioned matrices of full rank, with singular values ``1 + 1/2, 1 - 1/3, 1 + 1/4, ...``."""
    with torch.no_grad():
        u, _, vh = torch.linalg.svd(make_tensor(shape, device=device, dtype=dtype), full_matrices=False)
        s = torch.arange(2, min(shape[-2:]) + 2, dtype=u.abs().dtype, device=device)
        s[1::2] *= -1
        x = (u * s.reciprocal_().add_(1).to(u.dtype)) @ vh
    return x.requires_grad_(requires_grad)


def random_matrix(rows, columns, *batch_dims, dtype=torch.double, device="cpu", silent=False, singular=False):
    """Matrices with singular values evenly in (0, 1]; ``singular`` makes the least and the first of them 0."""
    a = torch.randn(*batch_dims, rows, columns, dtype=dtype, device=device)
    if a.numel() == 0:
        return a
    u, _, vh = torch.linalg.svd(a, full_matrices=False)
    k = min(rows, columns)
    s = torch.linspace(1 / (k + 1), 1, k, dtype=dtype, device=device)
    if singular:
        s[k - 1] = 0
        if k > 2:
            s[0] = 0
    return (u * s.unsqueeze(-2)) @ vh


def random_matrix_with_scaled_reduction_dim(rows, columns, *batch_dims, dtype=torch.double, device="cpu",
                                            requires_grad=False, reduction_dim=-1):
    """Normal matrices, scaled so that products over ``reduction_dim`` have variance 1."""
    shape = (*batch_dims, rows, columns)
    made = torch.randn(*shape, dtype=dtype, device=device) / math.sqrt(shape[reduction_dim])
    return made.requires_grad_(requires_grad)


def random_lowrank_matrix(rank, rows, columns, *batch_dims, **kwargs):
    """Matrices of a rank."""
    return random_matrix(rows, rank, *batch_dims, **kwargs) @ random_matrix(rank, columns, *batch_dims, **kwargs)


def random_sparse_matrix(rows, columns, density=0.01, *, dtype=torch.double, device="cpu", **_):
    """A sparse matrix, in COO layout, of about a density; elements away from the diagonal are small."""
    count = max(min(rows, columns), int(rows * columns * density))
    chosen = [(r, c) for r in range(rows) for c in random.choices(range(columns), k=math.ceil(count / rows))][:count]
    values = torch.randn(count, dtype=dtype, device=device)
    values *= torch.tensor([-float(i - j) ** 2 for i, j in chosen], dtype=dtype, device=device).exp()
    return torch.sparse_coo_tensor(torch.tensor(chosen).t(), values, (rows, columns), device=device).coalesce()
