"""Optimizers as functions of lists: parameters, gradients and states are given, and changed in place."""

from __future__ import annotations

from .._old_names import place_in
from ..eager.tensor import Tensor
from . import _rules
from ._fused import RuleOptimizer

_NO_STEPS = "API has changed, `state_steps` argument must contain a list of singleton tensors"


class _Step(RuleOptimizer):
    """A rule without parameters of its own."""

    def __init__(self, rule, grad_scale, found_inf):
        self._ftorch_rule, self.grad_scale, self.found_inf = rule, grad_scale, found_inf


def _run(rule, params, grads, states, values, grad_scale=None, found_inf=None):
    """A step of a rule.

    Args:
        states: {name of the rule's state: a tensor for each parameter}; lists that are empty are no state.
        values: hyperparameters by the rule's names, and ``differentiable``.
    """
    steps = states.get("step")
    if steps is not None and not all(isinstance(step, Tensor) for step in steps):
        raise RuntimeError(_NO_STEPS)
    states = {name: tensors for name, tensors in states.items() if len(tensors)}
    gathered = [
        (p, grad, {name: tensors[i] for name, tensors in states.items()})
        for i, (p, grad) in enumerate(zip(params, grads, strict=True))
    ]
    if gathered:
        _Step(rule, grad_scale, found_inf)._ftorch_update(gathered, values, values)


def sgd(
    params, d_p_list, momentum_buffer_list, has_sparse_grad=False, foreach=None, fused=None, grad_scale=None, found_inf=None,
    *, weight_decay, momentum, lr, dampening, nesterov, maximize,
):
    """`SGD`; buffers that are None become the first gradients."""
    values = {"weight_decay": weight_decay, "momentum": momentum, "lr": lr, "dampening": dampening, "nesterov": nesterov,
              "maximize": maximize}
    if momentum == 0:
        _run(_rules.sgd, params, d_p_list, {}, values, grad_scale, found_inf)
        return
    fresh = [i for i, buffer in enumerate(momentum_buffer_list) if buffer is None]
    for i in fresh:
        momentum_buffer_list[i] = params[i].detach().new_zeros(params[i].shape)
    others = [i for i in range(len(params)) if i not in set(fresh)]
    # From zero, the first momentum is the gradient where nothing dampens it.
    for places, dampens in ((fresh, 0.0), (others, dampening)):
        _run(_rules.sgd, [params[i] for i in places], [d_p_list[i] for i in places],
             {"momentum_buffer": [momentum_buffer_list[i] for i in places]}, {**values, "dampening": dampens},
             grad_scale, found_inf)


def adam(
    params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach=None, capturable=False, differentiable=False,
    fused=None, grad_scale=None, found_inf=None, has_complex=False, decoupled_weight_decay=False, *, amsgrad, beta1, beta2, lr,
    weight_decay, eps, maximize,
):
    """`Adam`."""
    states = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}
    if amsgrad:
        states["max_exp_avg_sq"] = max_exp_avg_sqs
    _run(_rules.adam, params, grads, states, {
        "lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
        "maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
    }, grad_scale, found_inf)


def adamw(
    params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach=None, capturable=False, differentiable=False,
    fused=None, grad_scale=None, found_inf=None, has_complex=False, *, amsgrad, beta1, beta2, lr, weight_decay, eps, maximize,
):
    """`AdamW`."""
    adam(
        params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach, capturable, differentiable, fused,
        grad_scale, found_inf, has_complex, True, amsgrad=amsgrad, beta1=beta1, beta2=beta2, lr=lr, weight_decay=weight_decay,
        eps=eps, maximize=maximize,
    )


def adadelta(
    params, grads, square_avgs, acc_deltas, state_steps, capturable=False, foreach=None, differentiable=False,
    has_complex=False, *, lr, rho, eps, weight_decay, maximize,
):
    """`Adadelta`."""
    _run(_rules.adadelta, params, grads, {"step": state_steps, "square_avg": square_avgs, "acc_delta": acc_deltas}, {
        "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "differentiable": differentiable,
    })


def adagrad(
    params, grads, state_sums, state_steps, fused=None, grad_scale=None, found_inf=None, has_sparse_grad=False, foreach=None,
    differentiable=False, has_complex=False, *, lr, weight_decay, lr_decay, eps, maximize,
):
    """`Adagrad`."""
    _run(_rules.adagrad, params, grads, {"step": state_steps, "sum": state_sums}, {
        "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "differentiable": differentiable, "initial_accumulator_value": 0,
    }, grad_scale, found_inf)


def adamax(
    params, grads, exp_avgs, exp_infs, state_steps, foreach=None, maximize=False, differentiable=False, capturable=False,
    has_complex=False, *, eps, beta1, beta2, lr, weight_decay,
):
    """`Adamax`."""
    _run(_rules.adamax, params, grads, {"step": state_steps, "exp_avg": exp_avgs, "exp_inf": exp_infs}, {
        "lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "differentiable": differentiable,
    })


def asgd(
    params, grads, axs, mus, etas, state_steps, foreach=None, maximize=False, differentiable=False, capturable=False,
    has_complex=False, *, lambd, lr, t0, alpha, weight_decay,
):
    """`ASGD`."""
    _run(_rules.asgd, params, grads, {"step": state_steps, "eta": etas, "mu": mus, "ax": axs}, {
        "lambd": lambd, "lr": lr, "t0": t0, "alpha": alpha, "weight_decay": weight_decay, "maximize": maximize,
        "differentiable": differentiable,
    })


def nadam(
    params, grads, exp_avgs, exp_avg_sqs, mu_products, state_steps, decoupled_weight_decay=False, foreach=None,
    capturable=False, differentiable=False, has_complex=False, maximize=False, *, beta1, beta2, lr, weight_decay,
    momentum_decay, eps,
):
    """`NAdam`."""
    _run(_rules.nadam, params, grads, {
        "step": state_steps, "mu_product": mu_products, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs,
    }, {
        "lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
        "maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
    })


def radam(
    params, grads, exp_avgs, exp_avg_sqs, state_steps, decoupled_weight_decay=False, foreach=None, differentiable=False,
    capturable=False, has_complex=False, maximize=False, *, beta1, beta2, lr, weight_decay, eps,
):
    """`RAdam`."""
    _run(_rules.radam, params, grads, {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}, {
        "lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
    })


def rmsprop(
    params, grads, square_avgs, grad_avgs, momentum_buffer_list, state_steps, foreach=None, maximize=False,
    differentiable=False, capturable=False, has_complex=False, *, lr, alpha, eps, weight_decay, momentum, centered,
):
    """`RMSprop`."""
    states = {"step": state_steps, "square_avg": square_avgs}
    if momentum > 0:
        states["momentum_buffer"] = momentum_buffer_list
    if centered:
        states["grad_avg"] = grad_avgs
    _run(_rules.rmsprop, params, grads, states, {
        "lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum, "centered": centered,
        "maximize": maximize, "differentiable": differentiable,
    })


def rprop(
    params, grads, prevs, step_sizes, state_steps, foreach=None, capturable=False, maximize=False, differentiable=False,
    has_complex=False, *, step_size_min, step_size_max, etaminus, etaplus,
):
    """`Rprop`."""
    _run(_rules.rprop, params, grads, {"step": state_steps, "prev": prevs, "step_size": step_sizes}, {
        "lr": 0.0, "step_size_min": step_size_min, "step_size_max": step_size_max, "etaminus": etaminus, "etaplus": etaplus,
        "maximize": maximize, "differentiable": differentiable,
    })


for _function in (adadelta, adagrad, adam, adamax, adamw, asgd, nadam, radam, rmsprop, rprop, sgd):
    place_in(f"optim.{_function.__name__}", _function)
