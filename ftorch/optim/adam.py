"""Adam."""

from __future__ import annotations

from ..eager.tensor import Tensor
from . import _rules
from ._functional import adam as adam
from ._fused import RuleOptimizer, check_betas, check_not_negative, number
from .optimizer import Optimizer as Optimizer

__all__ = ["Adam", "adam"]


class Adam(RuleOptimizer):
    """Adam: steps of the size ``lr``, scaled by running means of gradient and squared gradient.

    Args:
        params: parameters or groups, see `Optimizer`.
        lr: the learning rate; a number or a one-element tensor.
        betas: how much of the two running means is kept.
        eps: added to the denominator.
        weight_decay: the factor of the parameter that is added to its gradient.
        amsgrad: divide by the largest mean so far.
        decoupled_weight_decay: shrink the parameter instead, as `AdamW`.
        maximize: go up instead of down.
        foreach, fused, capturable: accepted; every step is one program.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a hyperparameter out of range.
        RuntimeError: ``fused`` together with ``foreach`` or ``differentiable``.

    >>> import ftorch as torch
    >>> w = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.Adam([w], lr=0.1)
    >>> (w * 3).sum().backward(); optimizer.step(); round(w.item(), 4)
    0.9
    """

    _ftorch_rule = _rules.adam
    _ftorch_reads = "betas* .exp_avg .exp_avg_sq amsgrad .step lr weight_decay eps maximize"
    _ftorch_late_defaults = (
        *RuleOptimizer._ftorch_late_defaults, ("amsgrad", False), ("capturable", False),
        ("decoupled_weight_decay", False), ("fused", None),
    )

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *,
        foreach=None, maximize=False, capturable=False, differentiable=False, fused=None,
        decoupled_weight_decay=False,
    ):
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        check_not_negative(lr=lr, eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        are_tensors = [isinstance(beta, Tensor) for beta in betas]
        are_floats = [isinstance(beta, float) for beta in betas]
        if not (all(are_tensors) or all(are_floats)):
            raise ValueError("betas must be either both floats or both Tensors")
        for i, beta in enumerate(betas):
            if not are_tensors[i]:
                continue
            if not capturable and foreach:
                raise ValueError(
                    f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True"
                )
            if beta.numel() != 1:
                raise ValueError(f"Tensor betas[{i}] must be 1-element")
        defaults = {
            "lr": lr, "betas": tuple(map(number, betas)), "eps": eps,
            "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        self._ftorch_check_fused(fused, foreach, differentiable)

    def _ftorch_check_parameter(self, p, grad):
        if grad.is_sparse:
            raise RuntimeError(
                "Adam does not support sparse gradients, please consider SparseAdam instead"
            )

    def _ftorch_update_group(self, group):
        if group["foreach"] and isinstance(group["lr"], Tensor) and not group["capturable"]:
            raise RuntimeError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        super()._ftorch_update_group(group)
