"""Adafactor."""

from __future__ import annotations

from ..eager.tensor import Tensor
from . import _rules
from ._fused import RuleOptimizer, check

__all__ = ["Adafactor"]


class Adafactor(RuleOptimizer):
    """Adam without momentum, whose second moment of a matrix is kept as its row and column means.

    Args:
        params: parameters or groups, see `Optimizer`.
        lr: the largest relative step.
        beta2_decay: the power by which the running means get slower, not positive.
        eps: the least second moment (None: the dtype's epsilon), and the least size of a parameter.
        d: updates with a larger root mean square are scaled down.
        weight_decay: by how much of ``lr`` the parameters shrink.
        foreach: accepted; every step is one program.
        maximize: go up instead of down.

    Raises:
        ValueError: a hyperparameter out of range.
    """

    _ftorch_rule = _rules.adafactor
    _ftorch_reads = "eps* .step d lr beta2_decay weight_decay maximize"
    _ftorch_late_defaults = (("foreach", None),)

    def __init__(
        self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *,
        foreach=None, maximize=False,
    ):
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        check("Learning rate should be >= 0 but is", lr, lr >= 0.0)
        check("beta2_decay should be <= 0 but is", beta2_decay, beta2_decay <= 0.0)
        check("epsilon1 should be >= 0 but is", eps[0], eps[0] is None or eps[0] >= 0.0)
        check("epsilon2 should be >= 0 but is", eps[1], eps[1] >= 0.0)
        check("Clipping threshold d should be >= 1 but is", d, d >= 1.0)
        check("weight_decay should be >= 0 but is", weight_decay, weight_decay >= 0.0)
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
            "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
        })

    def _ftorch_check_parameter(self, p, grad):
        if p.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        super()._ftorch_check_parameter(p, grad)
