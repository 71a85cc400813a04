"""Functions that call ``torch.sparse``: compiled by both libraries."""
# mypy: ignore-errors

import torch
from torch import Tensor


def mm(a: Tensor, b: Tensor, rows: Tensor):
    return torch.sparse.mm(a, b)


def reduced(a: Tensor, b: Tensor, rows: Tensor):
    return torch.sparse.mm(rows, b, "amax")


def addmm(a: Tensor, b: Tensor, rows: Tensor):
    return torch.sparse.addmm(torch.ones(2, 2), a, b, beta=2.0, alpha=3.0)


def softmax(a: Tensor, b: Tensor, rows: Tensor):
    return torch.sparse.softmax(a, 1)


def log_softmax(a: Tensor, b: Tensor, rows: Tensor):
    return torch.sparse.log_softmax(a, dim=1, dtype=torch.float64)


def total(a: Tensor, b: Tensor, rows: Tensor):
    return torch.sparse.sum(a)


def wide(a: Tensor, b: Tensor, rows: Tensor):
    return torch.sparse.sum(a, dtype=torch.float64)


def along(a: Tensor, b: Tensor, rows: Tensor):
    return torch.sparse.sum(a, dim=(0,))


def sampled(a: Tensor, b: Tensor, rows: Tensor):
    return torch.sparse.sampled_addmm(rows, b.t(), torch.ones(3, 3), beta=2.0)


def diagonals(a: Tensor, b: Tensor, rows: Tensor):
    return torch.sparse.spdiags(b.t(), torch.tensor([0, 1]), [3, 3])


FUNCTIONS = [mm, reduced, addmm, softmax, log_softmax, total, wide, along, sampled, diagonals]
