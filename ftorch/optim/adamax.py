"""Adamax."""

from __future__ import annotations

from ..eager.tensor import Tensor as Tensor
from . import _rules
from ._functional import adamax as adamax
from ._fused import RuleOptimizer, check_betas, check_not_negative
from .optimizer import Optimizer as Optimizer

__all__ = ["Adamax", "adamax"]


class Adamax(RuleOptimizer):
    """Adam with the largest gradient (decaying) in place of the root mean square.

    Args:
        params: parameters or groups, see `Optimizer`.
        lr: the learning rate.
        betas: how much of the mean and of the maximum is kept.
        eps: added to the size of the gradient.
        weight_decay: the factor of the parameter that is added to its gradient.
        maximize: go up instead of down.
        foreach, capturable: accepted; every step is one program.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a hyperparameter out of range.
    """

    _ftorch_rule = _rules.adamax
    _ftorch_reads = "betas* eps lr weight_decay maximize .exp_avg .exp_inf .step"
    _ftorch_late_defaults = (*RuleOptimizer._ftorch_late_defaults, ("capturable", False))

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *,
        maximize=False, differentiable=False, capturable=False,
    ):
        check_not_negative(lr=lr, eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        })
