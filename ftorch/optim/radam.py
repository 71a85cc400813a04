"""RAdam."""

from __future__ import annotations

from ..eager.tensor import Tensor as Tensor
from . import _rules
from ._functional import radam as radam
from ._fused import RuleOptimizer, check_betas, check_not_negative
from .optimizer import Optimizer as Optimizer

__all__ = ["RAdam", "radam"]


class RAdam(RuleOptimizer):
    """Adam with rectified variance: momentum alone, until the adaptive rate is reliable.

    The arguments are those of `NAdam`, without a momentum decay.

    Raises:
        ValueError: a hyperparameter out of range.
    """

    _ftorch_rule = _rules.radam
    _ftorch_reads = "betas* .exp_avg .exp_avg_sq .step lr weight_decay eps maximize"
    _ftorch_late_defaults = (
        *RuleOptimizer._ftorch_late_defaults, ("capturable", False), ("decoupled_weight_decay", False),
    )

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0,
        decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False,
        differentiable=False,
    ):
        check_not_negative(lr=lr, eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
        })
