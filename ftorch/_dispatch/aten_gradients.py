"""ATen's losses and factorizations, with what their gradients read."""

from __future__ import annotations

import ftorch as torch

from ..eager.kernels.linalg._checks import FAILURES, fail
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
def _linalg_solve_ex(A, B, *, left=True, check_errors=False):
    LU, pivots, info = torch.linalg.lu_factor_ex(A)
    return torch.linalg.solve_ex(A, B, left=left, check_errors=check_errors)[0], LU, pivots, info


@aten
def _linalg_slogdet(A):
    sign, logabsdet = torch.linalg.slogdet(A)
    return sign, logabsdet, *torch.linalg.lu_factor_ex(A)[:2]


@aten
def _linalg_check_errors(info, api_name, *, is_matrix):
    name, infos = api_name.rpartition(".")[2], info.numpy()
    text = FAILURES.get(name, "The algorithm failed (error code: {info}).")
    error = RuntimeError if name == "lu_factor" else torch.linalg.LinAlgError
    fail(api_name, infos != 0, lambda index: text.format(info=infos[index]), error)


@aten
def _cdist_forward(x1, x2, p, compute_mode):
    exact = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
    return torch.cdist(x1, x2, p, exact[compute_mode or 0])


@aten
def _pdist_forward(self, p=2):
    return torch.nn.functional.pdist(self, p)


@aten
def _linalg_eigh(A, UPLO="L", compute_v=True):
    return torch.linalg.eigh(A, UPLO)
