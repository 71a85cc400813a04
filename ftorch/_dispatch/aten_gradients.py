"""ATen's losses and factorizations, with what their gradients read."""

from __future__ import annotations

import ftorch as torch

from .aten import aten

_REDUCTION = ("none", "mean", "sum")


@aten
def nll_loss_forward(self, target, weight=None, reduction=1, ignore_index=-100):
    counted = target != ignore_index
    if weight is None:
        total = counted.sum().to(self.dtype)
    else:
        total = weight.index_select(0, torch.where(counted, target, 0).reshape(-1))
        total = (total * counted.reshape(-1)).sum()
    loss = torch.nn.functional.nll_loss(
        self, target, weight, ignore_index=ignore_index, reduction=_REDUCTION[reduction]
    )
    return loss, total if reduction else total.new_zeros(())


@aten
def log_sigmoid_forward(self):
    return torch.nn.functional.logsigmoid(self), torch.exp(-self.abs())


@aten
def _linalg_det(A):
    LU, pivots = torch.linalg.lu_factor(A)
    return torch.linalg.det(A), LU, pivots


@aten
def _linalg_svd(A, full_matrices=False, compute_uv=True, *, driver=None):
    return torch.linalg.svd(A, full_matrices)


@aten
def _linalg_eigh(A, UPLO="L", compute_v=True):
    return torch.linalg.eigh(A, UPLO)
