"""Averaged stochastic gradient descent."""

from __future__ import annotations

from ..eager.tensor import Tensor as Tensor
from . import _rules
from ._functional import asgd as asgd
from ._fused import RuleOptimizer, check_not_negative
from .optimizer import Optimizer as Optimizer

__all__ = ["ASGD", "asgd"]


class ASGD(RuleOptimizer):
    """Stochastic gradient descent that also keeps the mean of the parameters (state ``ax``).

    Args:
        params: parameters or groups, see `Optimizer`.
        lr: the learning rate.
        lambd: the decay term.
        alpha: the power by which the rate gets smaller.
        t0: the step at which averaging starts.
        weight_decay: the factor of the parameter that is added to its gradient.
        maximize: go up instead of down.
        foreach, capturable: accepted; every step is one program.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a hyperparameter out of range.
    """

    _ftorch_rule = _rules.asgd
    _ftorch_reads = ".eta .mu .ax .step lambd lr t0 alpha weight_decay maximize"
    _ftorch_late_defaults = (*RuleOptimizer._ftorch_late_defaults, ("capturable", False))

    def __init__(
        self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None,
        maximize=False, differentiable=False, capturable=False,
    ):
        check_not_negative(lr=lr, weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        })
