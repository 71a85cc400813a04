"""Muon."""

from __future__ import annotations

from ..eager.tensor import Tensor
from . import _rules
from ._fused import RuleOptimizer, check

__all__ = ["Muon"]


class Muon(RuleOptimizer):
    """Momentum whose steps are made orthogonal, for the matrices inside a network.

    Args:
        params: matrices, or groups of them.
        lr: the learning rate.
        weight_decay: by how much of ``lr`` the parameters shrink.
        momentum: how much of the running mean of the gradient is kept.
        nesterov: look ahead along the momentum.
        ns_coefficients: of the Newton-Schulz polynomial.
        eps: the least norm.
        ns_steps: iterations, below 100.
        adjust_lr_fn: how a matrix's shape changes the rate: ``"original"`` (None) or
            ``"match_rms_adamw"``.

    Raises:
        ValueError: a parameter that is not a matrix, or a hyperparameter out of range.
    """

    _ftorch_rule = _rules.muon
    _ftorch_reads = "lr weight_decay momentum nesterov ns_coefficients eps ns_steps"
    _ftorch_late_defaults = ()

    def __init__(
        self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True,
        ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-7, ns_steps=5, adjust_lr_fn=None,
    ):
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        check("Learning rate should be >= 0 but is", lr, lr >= 0.0)
        check("momentum should be >= 0 but is", momentum, momentum >= 0.0)
        check("weight decay should be >= 0 but is", weight_decay, weight_decay >= 0.0)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        })
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{p.size()}"
                    )

    def _ftorch_check_parameter(self, p, grad):
        if p.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        super()._ftorch_check_parameter(p, grad)

    def _ftorch_update_group(self, group):
        self._ftorch_read(group)
        if group["ns_steps"] >= 100:
            raise ValueError("Number of steps must be less than 100 for computational efficiency")
        if len(group["ns_coefficients"]) != 3:
            raise ValueError("Coefficients must be a tuple of exactly 3 values")
        super()._ftorch_update_group(group)
