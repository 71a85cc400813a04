"""NAdam."""

from __future__ import annotations

from ..eager.tensor import Tensor as Tensor
from . import _rules
from ._functional import nadam as nadam
from ._fused import RuleOptimizer, check_betas, check_not_negative
from .optimizer import Optimizer as Optimizer

__all__ = ["NAdam", "nadam"]


class NAdam(RuleOptimizer):
    """Adam with Nesterov momentum.

    Args:
        params: parameters or groups, see `Optimizer`.
        lr: the learning rate.
        betas: how much of the two running means is kept.
        eps: added to the denominator.
        weight_decay: the factor of the parameter that is added to its gradient.
        momentum_decay: how fast the momentum comes up to ``betas[0]``.
        decoupled_weight_decay: shrink the parameter instead, as `AdamW`.
        maximize: go up instead of down.
        foreach, capturable: accepted; every step is one program.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a hyperparameter out of range.
    """

    _ftorch_rule = _rules.nadam
    _ftorch_reads = ".mu_product betas* .exp_avg .exp_avg_sq .step lr weight_decay momentum_decay eps maximize"
    _ftorch_late_defaults = (
        *RuleOptimizer._ftorch_late_defaults, ("capturable", False), ("decoupled_weight_decay", False),
    )

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
        decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False,
        differentiable=False,
    ):
        check_not_negative(lr=lr, eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay, momentum_decay=momentum_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable,
        })
