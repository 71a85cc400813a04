"""Adadelta."""

from __future__ import annotations

from ..eager.tensor import Tensor as Tensor
from . import _rules
from ._functional import adadelta as adadelta
from ._fused import RuleOptimizer, check, check_not_negative
from .optimizer import Optimizer as Optimizer

__all__ = ["Adadelta", "adadelta"]


class Adadelta(RuleOptimizer):
    """Scales the gradient by running means of squared steps and squared gradients.

    Args:
        params: parameters or groups, see `Optimizer`.
        lr: the factor of the step.
        rho: how much of the running means is kept.
        eps: added under the roots.
        weight_decay: the factor of the parameter that is added to its gradient.
        maximize: go up instead of down.
        foreach, capturable: accepted; every step is one program.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a hyperparameter out of range.
    """

    _ftorch_rule = _rules.adadelta
    _ftorch_reads = "lr rho eps weight_decay maximize .square_avg .acc_delta .step"
    _ftorch_late_defaults = (*RuleOptimizer._ftorch_late_defaults, ("capturable", False))

    def __init__(
        self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *,
        capturable=False, maximize=False, differentiable=False,
    ):
        check_not_negative(lr=lr)
        check("Invalid rho value", rho, 0.0 <= rho <= 1.0)
        check_not_negative(eps=eps, weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        })
