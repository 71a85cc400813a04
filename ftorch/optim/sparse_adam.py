"""Adam for sparse gradients."""

from __future__ import annotations

import math

from ..autograd import enable_grad, no_grad
from ..eager.core import api as torch
from ..eager.tensor import Tensor
from ._fused import check, check_betas
from .optimizer import Optimizer

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """`Adam` that touches only the rows that a sparse gradient has.

    Args:
        params: dense parameters with sparse gradients (``nn.Embedding(..., sparse=True)``).
        lr, betas, eps, maximize: those of `Adam`.

    Raises:
        ValueError: a hyperparameter out of range, a sparse or complex parameter.
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        check("Invalid learning rate", lr, lr > 0.0)
        check("Invalid epsilon value", eps, eps > 0.0)
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        places = [
            ([i, j], p)
            for i, group in enumerate(self.param_groups)
            for j, p in enumerate(group["params"])
        ]
        sparse = [place for place, p in places if p.is_sparse]
        if sparse:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors"
            )
        complex_ = [place for place, p in places if p.is_complex()]
        if complex_:
            raise ValueError(
                f"Complex params at indices {complex_}: SparseAdam does not support complex "
                "parameters"
            )

    def step(self, closure=None):
        """Updates the parameters from their gradients; see `Optimizer.step`.

        Raises:
            RuntimeError: a gradient is dense.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self._ftorch_update(p, p.grad, group)
        return loss

    def _ftorch_update(self, p, grad, group):
        if not grad.is_sparse:
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        state = self.state[p]
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(p)
            state["exp_avg_sq"] = torch.zeros_like(p)
        state["step"] += 1
        grad = (-grad if group.get("maximize", False) else grad).coalesce()
        where, g = tuple(grad._indices()), grad._values()
        if g.numel() == 0:
            return
        beta1, beta2 = group["betas"]
        mean, second = state["exp_avg"], state["exp_avg_sq"]
        new_mean = mean[where].lerp(g, 1 - beta1)
        new_second = second[where].lerp(g.pow(2), 1 - beta2)
        mean.index_put_(where, new_mean)
        second.index_put_(where, new_second)
        lr = group["lr"].item() if isinstance(group["lr"], Tensor) else group["lr"]
        size = lr * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
        update = new_mean / new_second.sqrt().add_(group["eps"])
        p.index_put_(where, -size * update, accumulate=True)
