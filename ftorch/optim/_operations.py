"""Steps of optimizers as calls on tensors, one parameter after the other, for those who watch calls.

A step is one program (`_rules`), of which a ``TorchDispatchMode`` would see nothing, and which cannot compute with
tensors that only their class knows. These are the calls that PyTorch's steps make, in its order.
"""

from __future__ import annotations

from .._dispatch.dispatch_state import state as dispatch
from ..eager.core import api as torch
from ..eager.tensor import Tensor
from . import _rules

_STEPS: dict = {}


def _step_of(rule):
    def declare(function):
        _STEPS[rule] = function
        return function

    return declare


def watched() -> bool:
    """Whether a mode is to see the calls of a step."""
    return bool(dispatch.stack) and not dispatch.off


def find(rule):
    """The step of a rule as calls, ``step(p, grad, state, h)``, or None where none is written down."""
    return _STEPS.get(rule)


def run(step, p, grad, state, h) -> None:
    """Updates a parameter and its state."""
    for name, value in vars(h).items():
        if isinstance(value, Tensor):
            setattr(h, name, value.item())
    if h.maximize:
        grad = -grad
    views = {name: torch.view_as_real(v) if isinstance(v, Tensor) and v.is_complex() else v for name, v in state.items()}
    real_p, real_grad = (torch.view_as_real(t) if t.is_complex() else t for t in (p, grad))
    step(real_p, real_grad, views, h)
    for name, value in views.items():  # what the step began, as the first momentum
        if name not in state or state[name] is None:
            state[name] = torch.view_as_complex(value) if p.is_complex() else value


def _decayed(p, grad, h):
    if h.weight_decay == 0:
        return grad
    if getattr(h, "decoupled_weight_decay", False):
        p.mul_(1 - h.lr * h.weight_decay)
        return grad
    return grad.add(p, alpha=h.weight_decay)


def _moments(grad, state, h):
    state["exp_avg"].lerp_(grad, 1 - h.beta1)
    _second_moment(state["exp_avg_sq"], grad, h.beta2)


def _second_moment(average, grad, beta):
    average.mul_(beta).addcmul_(grad, grad, value=1 - beta)


@_step_of(_rules.sgd)
def _sgd(p, grad, state, h):
    grad = _decayed(p, grad, h)
    if h.momentum != 0:
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = state["momentum_buffer"] = grad.detach().clone()
        else:
            buffer.mul_(h.momentum).add_(grad, alpha=1 - h.dampening)
        grad = grad.add(buffer, alpha=h.momentum) if h.nesterov else buffer
    p.add_(grad, alpha=-h.lr)


@_step_of(_rules.adam)
def _adam(p, grad, state, h):
    state["step"] += 1
    grad = _decayed(p, grad, h)
    _moments(grad, state, h)
    step = state["step"].item()
    correction = (1 - h.beta2**step) ** 0.5
    second = state["exp_avg_sq"]
    if h.amsgrad:
        largest = state["max_exp_avg_sq"]
        second = torch.maximum(largest, second, out=largest)
    p.addcdiv_(state["exp_avg"], (second.sqrt() / correction).add_(h.eps), value=-h.lr / (1 - h.beta1**step))


@_step_of(_rules.rmsprop)
def _rmsprop(p, grad, state, h):
    state["step"] += 1
    grad = _decayed(p, grad, h)
    average = state["square_avg"]
    _second_moment(average, grad, h.alpha)
    if h.centered:
        mean = state["grad_avg"]
        mean.lerp_(grad, 1 - h.alpha)
        deviation = average.addcmul(mean, mean, value=-1).sqrt_()
    else:
        deviation = average.sqrt()
    deviation.add_(h.eps)
    if h.momentum > 0:
        buffer = state["momentum_buffer"]
        buffer.mul_(h.momentum).addcdiv_(grad, deviation)
        p.add_(buffer, alpha=-h.lr)
    else:
        p.addcdiv_(grad, deviation, value=-h.lr)


@_step_of(_rules.adagrad)
def _adagrad(p, grad, state, h):
    state["step"] += 1
    step = state["step"].item()
    grad = _decayed(p, grad, h)
    total = state["sum"].addcmul_(grad, grad, value=1)
    p.addcdiv_(grad, total.sqrt().add_(h.eps), value=-h.lr / (1 + (step - 1) * h.lr_decay))


@_step_of(_rules.adadelta)
def _adadelta(p, grad, state, h):
    state["step"] += 1
    grad = _decayed(p, grad, h)
    _second_moment(state["square_avg"], grad, h.rho)
    deviation = state["square_avg"].add(h.eps).sqrt_()
    delta = state["acc_delta"].add(h.eps).sqrt_()
    delta.div_(deviation).mul_(grad)
    _second_moment(state["acc_delta"], delta, h.rho)
    p.add_(delta, alpha=-h.lr)


@_step_of(_rules.adamax)
def _adamax(p, grad, state, h):
    state["step"] += 1
    grad = _decayed(p, grad, h)
    state["exp_avg"].lerp_(grad, 1 - h.beta1)
    largest = state["exp_inf"]
    torch.maximum(largest.mul_(h.beta2), grad.abs().add_(h.eps), out=largest)
    p.addcdiv_(state["exp_avg"], largest, value=-h.lr / (1 - h.beta1 ** state["step"].item()))


@_step_of(_rules.nadam)
def _nadam(p, grad, state, h):
    state["step"] += 1
    step = state["step"].item()
    grad = _decayed(p, grad, h)
    mu = h.beta1 * (1 - 0.5 * 0.96 ** (step * h.momentum_decay))
    mu_next = h.beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * h.momentum_decay))
    state["mu_product"] *= mu
    _moments(grad, state, h)
    deviation = state["exp_avg_sq"].div(1 - h.beta2**step).sqrt()
    product = state["mu_product"].item()
    deviation.add_(h.eps)
    p.addcdiv_(grad, deviation, value=-h.lr * (1 - mu) / (1 - product))
    p.addcdiv_(state["exp_avg"], deviation, value=-h.lr * mu_next / (1 - product * mu_next))


@_step_of(_rules.radam)
def _radam(p, grad, state, h):
    state["step"] += 1
    step = state["step"].item()
    grad = _decayed(p, grad, h)
    _moments(grad, state, h)
    correction = 1 - h.beta2**step
    mean = state["exp_avg"] / (1 - h.beta1**step)
    limit = 2 / (1 - h.beta2) - 1
    length = limit - 2 * step * h.beta2**step / correction
    if length > 5.0:
        spread = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
        adaptive = correction**0.5 / state["exp_avg_sq"].sqrt().add_(h.eps)
        p.add_(mean * h.lr * adaptive * spread**0.5, alpha=-1.0)
    else:
        p.add_(mean * h.lr, alpha=-1.0)


@_step_of(_rules.asgd)
def _asgd(p, grad, state, h):
    state["step"] += 1
    step = state["step"].item()
    grad = _decayed(p, grad, h)
    eta = state["eta"].item()
    p.mul_(1 - h.lambd * eta)
    p.add_(grad, alpha=-eta)
    mean = state["ax"]
    if state["mu"].item() != 1:
        mean.add_(p.sub(mean).mul_(state["mu"]))
    else:
        mean.copy_(p)
    state["eta"].copy_(torch.as_tensor(h.lr / (1 + h.lambd * h.lr * step) ** h.alpha))
    state["mu"].copy_(torch.as_tensor(1 / max(1, step - h.t0)))


@_step_of(_rules.rprop)
def _rprop(p, grad, state, h):
    state["step"] += 1
    previous, size = state["prev"], state["step_size"]
    sign = grad.mul(previous).sign()
    turned = sign.lt(0)
    factor = torch.where(sign.gt(0), h.etaplus, torch.where(turned, h.etaminus, torch.ones_like(sign)))
    size.mul_(factor).clamp_(h.step_size_min, h.step_size_max)
    grad = grad.masked_fill(turned, 0)
    p.addcmul_(grad.sign(), size, value=-1)
    previous.copy_(grad)
