"""Adagrad."""

from __future__ import annotations

from ..autograd import no_grad
from ..eager.core import api as torch
from ..eager.tensor import Tensor
from . import _rules
from ._functional import adagrad as adagrad
from ._fused import RuleOptimizer, check_not_negative
from .optimizer import Optimizer as Optimizer

__all__ = ["Adagrad", "adagrad"]


class Adagrad(RuleOptimizer):
    """Divides the gradient by the root of the sum of all its squares so far.

    Args:
        params: parameters or groups, see `Optimizer`.
        lr: the learning rate.
        lr_decay: how it gets smaller: ``lr / (1 + steps * lr_decay)``.
        weight_decay: the factor of the parameter that is added to its gradient.
        initial_accumulator_value: where the sum begins.
        eps: added to the root.
        maximize: go up instead of down.
        foreach, fused: accepted; every step is one program.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a hyperparameter out of range.
        RuntimeError: ``fused`` together with ``foreach`` or ``differentiable``.
    """

    _ftorch_rule = _rules.adagrad
    _ftorch_reads = ".sum .step lr weight_decay lr_decay eps maximize"
    _ftorch_late_defaults = (*RuleOptimizer._ftorch_late_defaults, ("fused", None))

    def __init__(
        self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10,
        foreach=None, *, maximize=False, differentiable=False, fused=None,
    ):
        check_not_negative(
            lr=lr, lr_decay=lr_decay, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, eps=eps,
        )
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "fused": fused,
        })
        self._ftorch_check_fused(fused, foreach, differentiable)
        with no_grad():
            for group in self.param_groups:
                values = self._ftorch_hyperparameters(group)
                for p in group["params"]:
                    self.state[p].update(self._ftorch_new_state(p, p, values))

    def share_memory(self) -> None:
        """Moves the state where other processes see it."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def _ftorch_check_parameter(self, p, grad):
        pass  # sparse gradients are fine

    def _ftorch_gather(self, group, values):
        dense = []
        for p, grad, state in super()._ftorch_gather(group, values):
            if grad.is_sparse:
                self._ftorch_sparse_update(p, grad, state, values)
            else:
                dense.append((p, grad, state))
        return dense

    def _ftorch_sparse_update(self, p, grad, state, values):
        if values["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        lr = values["lr"]
        lr = lr.item() if isinstance(lr, Tensor) else lr
        state["step"] += 1
        rate = lr / (1 + (state["step"].item() - 1) * values["lr_decay"])
        grad = (-grad if values["maximize"] else grad).coalesce()
        rows, g = grad._indices(), grad._values()
        where = tuple(rows)
        total = state["sum"]
        total.index_put_(where, g.pow(2), accumulate=True)
        update = g / torch.sqrt(total[where]).add_(values["eps"])
        p.index_put_(where, -rate * update, accumulate=True)
