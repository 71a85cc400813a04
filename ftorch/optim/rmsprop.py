"""RMSprop."""

from __future__ import annotations

from ..eager.tensor import Tensor as Tensor
from . import _rules
from ._functional import rmsprop as rmsprop
from ._fused import RuleOptimizer, check_not_negative
from .optimizer import Optimizer as Optimizer

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(RuleOptimizer):
    """Divides the gradient by the root of a running mean of its square.

    Args:
        params: parameters or groups, see `Optimizer`.
        lr: the learning rate.
        alpha: how much of the running mean is kept.
        eps: added to the root.
        weight_decay: the factor of the parameter that is added to its gradient.
        momentum: the share of the previous step that is kept.
        centered: subtract the squared mean gradient: divide by the standard deviation.
        maximize: go up instead of down.
        capturable, foreach: accepted; every step is one program.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a hyperparameter out of range.
    """

    _ftorch_rule = _rules.rmsprop
    _ftorch_reads = ".square_avg .step momentum centered lr alpha eps weight_decay maximize"
    _ftorch_late_defaults = (
        *RuleOptimizer._ftorch_late_defaults, ("momentum", 0), ("centered", False), ("capturable", False),
    )

    def __init__(
        self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False,
        capturable=False, foreach=None, maximize=False, differentiable=False,
    ):
        check_not_negative(
            lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha
        )
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable,
        })
