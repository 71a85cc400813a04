"""Rprop."""

from __future__ import annotations

from ..eager.tensor import Tensor as Tensor
from . import _rules
from ._functional import rprop as rprop
from ._fused import RuleOptimizer, check_not_negative
from .optimizer import Optimizer as Optimizer

__all__ = ["Rprop", "rprop"]


class Rprop(RuleOptimizer):
    """Resilient backpropagation: each element has a step size, changed by the gradient's sign.

    Args:
        params: parameters or groups, see `Optimizer`.
        lr: the first step size.
        etas: its factors where the sign turned, and where it stayed.
        step_sizes: the least and the largest step size.
        maximize: go up instead of down.
        foreach, capturable: accepted; every step is one program.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a hyperparameter out of range.
    """

    _ftorch_rule = _rules.rprop
    _ftorch_reads = "etas* step_sizes* maximize .prev .step_size .step"
    _ftorch_late_defaults = (*RuleOptimizer._ftorch_late_defaults, ("capturable", False))

    def __init__(
        self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False,
        foreach=None, maximize=False, differentiable=False,
    ):
        check_not_negative(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })
