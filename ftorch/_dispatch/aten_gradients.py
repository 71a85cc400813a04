"""ATen's ops that autograd's formulas are made of, and losses and factorizations with what these save."""

from __future__ import annotations

import ftorch as torch

from .aten import aten

_REDUCTION = ("none", "mean", "sum")


@aten
def threshold_backward(grad_output, self, threshold):
    return torch.where(self <= threshold, torch.zeros((), dtype=grad_output.dtype), grad_output)


@aten
def sigmoid_backward(grad_output, output):
    return grad_output * (output * (1 - output)).conj()


@aten
def tanh_backward(grad_output, output):
    return grad_output * (1 - output * output).conj()


@aten
def mse_loss_backward(grad_output, self, target, reduction):
    grad = grad_output * (self - target) * 2
    return grad / self.numel() if reduction == 1 else grad


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
