"""Stochastic gradient descent."""

from __future__ import annotations

from ..eager.core import api as torch
from ..eager.runtime import capture_trace
from ..eager.tensor import Tensor
from . import _operations, _rules
from ._functional import sgd as sgd
from ._fused import RuleOptimizer, check, check_not_negative
from .optimizer import Optimizer as Optimizer

__all__ = ["SGD", "sgd"]


class SGD(RuleOptimizer):
    """Stochastic gradient descent, with momentum if wanted.

    Args:
        params: parameters or groups, see `Optimizer`.
        lr: the learning rate.
        momentum: the share of the previous step that is kept; the first step is the gradient.
        dampening: how much less the gradient counts in the momentum.
        weight_decay: the factor of the parameter that is added to its gradient.
        nesterov: look ahead along the momentum.
        maximize: go up instead of down.
        foreach, fused: accepted; every step is one program.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a hyperparameter out of range.
        RuntimeError: ``fused`` together with ``foreach`` or ``differentiable``.

    >>> import ftorch as torch
    >>> w = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.SGD([w], lr=0.5)
    >>> (w * 3).sum().backward(); optimizer.step(); w.tolist()
    [-0.5]
    """

    _ftorch_rule = _rules.sgd
    _ftorch_reads = "momentum weight_decay lr dampening nesterov maximize"
    _ftorch_late_defaults = (*RuleOptimizer._ftorch_late_defaults, ("nesterov", False), ("fused", False))

    def __init__(
        self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *,
        maximize=False, foreach=None, differentiable=False, fused=None,
    ):
        check_not_negative(lr=lr)
        check("Invalid momentum value", momentum, momentum >= 0.0)
        check_not_negative(weight_decay=weight_decay)
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        }
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, defaults)
        self._ftorch_check_fused(fused, foreach, differentiable)

    def _ftorch_check_parameter(self, p, grad):
        pass  # sparse gradients are fine

    def _ftorch_update_group(self, group):
        values = self._ftorch_hyperparameters(group)
        fresh, started = [], []
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if grad.is_sparse:
                self._ftorch_sparse_update(p, grad, values)
                continue
            if values["momentum"] == 0:
                started.append((p, grad, {}))  # leaves a momentum that there may be alone
                continue
            state = self.state[p]
            if state.get("momentum_buffer") is None:
                if _operations.watched():
                    started.append((p, grad, state))  # the calls make it
                    continue
                with capture_trace.outside_capture():  # a compiled step has it as an input
                    state["momentum_buffer"] = torch.zeros_like(p)
                (fresh if values["dampening"] else started).append((p, grad, state))
            else:
                started.append((p, grad, state))
        self._ftorch_update(started, group, values)
        # The first momentum is the gradient: from zero, it is so without dampening.
        if fresh:
            capture = capture_trace.capturing()
            if capture is not None:
                capture.only_once = "an optimizer's first step"
            self._ftorch_update(fresh, group, values, dampening=0.0)

    def _ftorch_sparse_update(self, p, grad, values):
        if values["maximize"]:
            grad = -grad
        if values["weight_decay"] != 0:
            grad = grad.add(p, alpha=values["weight_decay"])
        if values["momentum"] != 0:
            state = self.state[p]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = grad.detach().clone()
            else:
                buffer = buffer.mul(values["momentum"]).add(grad, alpha=1 - values["dampening"])
            state["momentum_buffer"] = buffer
            grad = grad.add(buffer, alpha=values["momentum"]) if values["nesterov"] else buffer
        lr = values["lr"]
        p.add_(grad, alpha=-(lr.item() if isinstance(lr, Tensor) else lr))
