"""How each optimizer updates one parameter: one pure function per family.

``rule(m, p, g, s, h)`` gets the arithmetic ``m`` (see `_math`), the parameter, its gradient, its state
by name and the hyperparameters as attributes, and returns the new parameter and the new state. It
knows nothing of tensors, groups or programs: `step` below runs it over many parameters inside one
compiled program, `optax.as_gradient_transformation` over a tree of arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import jax.numpy as jnp

from ._math import ARRAYS


@dataclass(frozen=True)
class Like:
    """A state of the parameter's shape and dtype, filled with a number."""

    fill: float = 0.0


@dataclass(frozen=True)
class Scalar:
    """A 0-d state of single precision, or double where that is the default dtype, such as the step count."""

    fill: float = 0.0


@dataclass(frozen=True)
class Shaped:
    """A state of zeros with a shape of its own, and the parameter's dtype."""

    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Rule:
    """An update rule and what it needs.

    Attributes:
        update: the function described at the top of this module.
        state: ``state(p, h) -> {name: Like | Scalar | Shaped}``, the initial state.
        scalars: hyperparameters that are numbers; new values do not compile again.
        options: hyperparameters that are part of the program.
        switches: scalars that are left out of the program where they are zero.
    """

    update: Callable
    state: Callable
    scalars: tuple[str, ...]
    options: tuple[str, ...]
    switches: tuple[str, ...]


def rule(state, scalars: str, options: str = "maximize", switches: str = "weight_decay"):
    """Declares a rule: ``@rule(state, "lr eps", "maximize")``."""

    def declare(update):
        names = scalars.split()
        return Rule(
            update, state, tuple(names), tuple(options.split()),
            tuple(s for s in switches.split() if s in names),
        )

    return declare


def hyperparameters(**values) -> SimpleNamespace:
    """Hyperparameters as a rule sees them."""
    return SimpleNamespace(**values)


def step(mutable, inputs, scalars, rule_, layout, names, options, on, scaled):
    """The kernel of a step (see `ftorch.eager.call.op.fused_update`).

    Args:
        mutable: for each parameter, itself and its states.
        inputs: the gradients, hyperparameters that are tensors, and what `GradScaler` left.
        scalars: hyperparameters that are numbers.
        layout: runs of ``(state names, how many parameters)``.
        names: of the hyperparameters, those in ``inputs`` first.
        options: the static ones, as pairs.
        on: the switches that are not zero.
        scaled: whether the last two inputs are the gradients' scale and whether one is infinite.
    """
    scale = found_inf = None
    if scaled:
        *inputs, scale, found_inf = inputs
    count = sum(n for _, n in layout)
    gradients, tensors = inputs[:count], inputs[count:]
    numbers = dict(zip(names, [*(t.reshape(()) for t in tensors), *scalars], strict=True))
    h = hyperparameters(**numbers, **dict(options), on=on)
    updated, position, gradient = [], 0, iter(gradients)
    for keys, n in layout:
        for _ in range(n):
            width = 1 + len(keys)
            p, *states = mutable[position : position + width]
            position += width
            g = next(gradient)
            if scale is not None:
                g = ARRAYS.div(g, scale)
            new = apply(ARRAYS, rule_, p, g, dict(zip(keys, states, strict=True)), h)
            new = [new[0], *(new[1][key] for key in keys)]
            if found_inf is not None:
                skip = found_inf.reshape(()) != 0
                old = [p, *states]
                new = [jnp.where(skip, o, x.astype(o.dtype)) for x, o in zip(new, old, strict=True)]
            updated += new
    return updated


def _parts(x):
    return jnp.stack([x.real, x.imag]) if jnp.iscomplexobj(x) else x


def _whole(x, like):
    return (x[0] + 1j * x[1]).astype(like.dtype) if jnp.iscomplexobj(like) else x


def apply(m, rule_, p, g, state, h):
    """Runs a rule on arrays; a complex parameter is two real ones."""
    g = g.astype(p.dtype)
    if getattr(h, "maximize", False):
        g = -g
    if not jnp.iscomplexobj(p):
        return rule_.update(m, p, g, state, h)
    parts = {name: _parts(value) for name, value in state.items()}
    new_p, new_state = rule_.update(m, _parts(p), _parts(g), parts, h)
    return _whole(new_p, p), {name: _whole(new_state[name], state[name]) for name in state}


def _decayed(m, p, g, h):
    """The gradient with L2 regularisation."""
    return m.add(g, p, h.weight_decay) if "weight_decay" in h.on else g


def _decay(m, p, g, h):
    """Parameter and gradient after weight decay, decoupled from the gradient or not."""
    if "weight_decay" not in h.on:
        return p, g
    if h.decoupled_weight_decay:
        return m.mul(p, 1 - h.lr * h.weight_decay), g
    return p, m.add(g, p, h.weight_decay)


def _second_moment(m, average, g, beta):
    return m.addcmul(m.mul(average, beta), g, g, 1 - beta)


def _sgd_state(p, h):
    return {"momentum_buffer": Like()} if h.momentum != 0 else {}


@rule(
    _sgd_state, "lr momentum dampening weight_decay", "nesterov maximize", "weight_decay momentum"
)
def sgd(m, p, g, s, h):
    g = _decayed(m, p, g, h)
    if "momentum" in h.on:
        buffer = m.add(m.mul(s["momentum_buffer"], h.momentum), g, 1 - h.dampening)
        s = {"momentum_buffer": buffer}
        g = m.add(g, buffer, h.momentum) if h.nesterov else buffer
    return m.add(p, g, -h.lr), s


def _adam_state(p, h):
    names = ["exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * bool(h.amsgrad)
    return {"step": Scalar(), **{name: Like() for name in names}}


@rule(
    _adam_state, "lr beta1 beta2 eps weight_decay", "amsgrad maximize decoupled_weight_decay"
)
def adam(m, p, g, s, h):
    step_ = s["step"] + 1
    p, g = _decay(m, p, g, h)
    new = {"step": step_, "exp_avg": m.lerp(s["exp_avg"], g, 1 - h.beta1)}
    new["exp_avg_sq"] = second = _second_moment(m, s["exp_avg_sq"], g, h.beta2)
    if h.amsgrad:
        new["max_exp_avg_sq"] = second = m.maximum(s["max_exp_avg_sq"], second)
    t = m.number(step_)
    correction1, correction2 = 1 - h.beta1**t, 1 - h.beta2**t
    denominator = m.add(m.div(m.sqrt(second), correction2**0.5), h.eps)
    return m.addcdiv(p, new["exp_avg"], denominator, -(h.lr / correction1)), new


def _rmsprop_state(p, h):
    names = ["square_avg"] + ["momentum_buffer"] * (h.momentum > 0) + ["grad_avg"] * h.centered
    return {"step": Scalar(), **{name: Like() for name in names}}


@rule(
    _rmsprop_state, "lr alpha eps weight_decay momentum", "centered maximize",
    "weight_decay momentum",
)
def rmsprop(m, p, g, s, h):
    g = _decayed(m, p, g, h)
    square = _second_moment(m, s["square_avg"], g, h.alpha)
    new = {**s, "step": s["step"] + 1, "square_avg": square}
    if h.centered:
        new["grad_avg"] = mean = m.lerp(s["grad_avg"], g, 1 - h.alpha)
        square = m.addcmul(square, mean, mean, -1.0)
    average = m.add(m.sqrt(square), h.eps)
    if "momentum" not in h.on:
        return m.addcdiv(p, g, average, -h.lr), new
    new["momentum_buffer"] = m.addcdiv(m.mul(s["momentum_buffer"], h.momentum), g, average)
    return m.add(p, new["momentum_buffer"], -h.lr), new


def _adagrad_state(p, h):
    return {"step": Scalar(), "sum": Like(h.initial_accumulator_value)}


@rule(_adagrad_state, "lr lr_decay weight_decay eps initial_accumulator_value")
def adagrad(m, p, g, s, h):
    g = _decayed(m, p, g, h)
    rate = h.lr / (1 + m.number(s["step"]) * h.lr_decay)
    total = m.addcmul(s["sum"], g, g)
    p = m.addcdiv(p, g, m.add(m.sqrt(total), h.eps), -rate)
    return p, {"step": s["step"] + 1, "sum": total}


def _adadelta_state(p, h):
    return {"step": Scalar(), "square_avg": Like(), "acc_delta": Like()}


@rule(_adadelta_state, "lr rho eps weight_decay")
def adadelta(m, p, g, s, h):
    g = _decayed(m, p, g, h)
    square = _second_moment(m, s["square_avg"], g, h.rho)
    deviation = m.sqrt(m.add(square, h.eps))
    delta = m.mul(m.div(m.sqrt(m.add(s["acc_delta"], h.eps)), deviation), g)
    accumulated = _second_moment(m, s["acc_delta"], delta, h.rho)
    new = {"step": s["step"] + 1, "square_avg": square, "acc_delta": accumulated}
    return m.add(p, delta, -h.lr), new


def _adamax_state(p, h):
    return {"step": Scalar(), "exp_avg": Like(), "exp_inf": Like()}


@rule(_adamax_state, "lr beta1 beta2 eps weight_decay")
def adamax(m, p, g, s, h):
    step_ = s["step"] + 1
    g = _decayed(m, p, g, h)
    mean = m.lerp(s["exp_avg"], g, 1 - h.beta1)
    largest = m.maximum(m.mul(s["exp_inf"], h.beta2), m.add(m.abs(g), h.eps))
    rate = h.lr / (1 - h.beta1 ** m.number(step_))
    new = {"step": step_, "exp_avg": mean, "exp_inf": largest}
    return m.addcdiv(p, mean, largest, -rate), new


def _nadam_state(p, h):
    return {
        "step": Scalar(), "mu_product": Scalar(1.0), "exp_avg": Like(), "exp_avg_sq": Like(),
    }


@rule(
    _nadam_state, "lr beta1 beta2 eps weight_decay momentum_decay",
    "maximize decoupled_weight_decay",
)
def nadam(m, p, g, s, h):
    step_ = s["step"] + 1
    t = m.number(step_)
    p, g = _decay(m, p, g, h)
    mu, mu_next = (
        h.beta1 * (1.0 - 0.5 * 0.96 ** (n * h.momentum_decay)) for n in (t, t + 1)
    )
    new = {"step": step_, "mu_product": m.mul(s["mu_product"], mu)}
    product = m.number(new["mu_product"])
    new["exp_avg"] = mean = m.lerp(s["exp_avg"], g, 1 - h.beta1)
    new["exp_avg_sq"] = second = _second_moment(m, s["exp_avg_sq"], g, h.beta2)
    denominator = m.add(m.sqrt(m.div(second, 1 - h.beta2**t)), h.eps)
    p = m.addcdiv(p, g, denominator, -h.lr * (1.0 - mu) / (1.0 - product))
    return m.addcdiv(p, mean, denominator, -h.lr * mu_next / (1.0 - product * mu_next)), new


def _radam_state(p, h):
    return {"step": Scalar(), "exp_avg": Like(), "exp_avg_sq": Like()}


@rule(
    _radam_state, "lr beta1 beta2 eps weight_decay", "maximize decoupled_weight_decay"
)
def radam(m, p, g, s, h):
    step_ = s["step"] + 1
    t = m.number(step_)
    p, g = _decay(m, p, g, h)
    mean = m.lerp(s["exp_avg"], g, 1 - h.beta1)
    second = _second_moment(m, s["exp_avg_sq"], g, h.beta2)
    correction2 = 1 - h.beta2**t
    rho_inf = 2 / (1 - h.beta2) - 1
    rho = rho_inf - 2 * t * h.beta2**t / correction2
    rectified = rho > 5.0  # before that, the variance of the adaptive rate is not finite
    safe = m.where(rectified, rho, rho * 0 + 6.0)
    spread = (safe - 4) * (safe - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * safe)
    # Both ways to the step, chosen by the traced step count.
    update = m.mul(m.div(mean, 1 - h.beta1**t), h.lr)
    deviation = m.add(m.sqrt(second), h.eps)
    adaptive = m.mul(m.div(update, deviation), (correction2 * spread) ** 0.5)
    update = m.where(rectified, adaptive, update)
    return m.add(p, update, -1.0), {"step": step_, "exp_avg": mean, "exp_avg_sq": second}


def _rprop_state(p, h):
    return {"step": Scalar(), "prev": Like(), "step_size": Like(h.lr)}


@rule(_rprop_state, "lr etaminus etaplus step_size_min step_size_max")
def rprop(m, p, g, s, h):
    direction = m.sign(m.mul(g, s["prev"]))
    ones = direction * 0 + 1
    turned = direction < 0
    factor = m.where(direction > 0, m.mul(ones, h.etaplus), ones)
    factor = m.where(turned, m.mul(ones, h.etaminus), factor)
    size = m.clamp(m.mul(s["step_size"], factor), h.step_size_min, h.step_size_max)
    g = m.where(turned, g * 0, g)  # a sign that turned: stay, and forget it
    new = {"step": s["step"] + 1, "prev": g, "step_size": size}
    return m.addcmul(p, m.sign(g), size, -1.0), new


def _asgd_state(p, h):
    return {"step": Scalar(), "eta": Scalar(h.lr), "mu": Scalar(1.0), "ax": Like()}


@rule(_asgd_state, "lr lambd alpha t0 weight_decay")
def asgd(m, p, g, s, h):
    step_ = s["step"] + 1
    t, eta, mu = m.number(step_), m.number(s["eta"]), m.number(s["mu"])
    g = _decayed(m, p, g, h)
    p = m.add(m.mul(p, 1 - h.lambd * eta), g, -eta)
    moved = m.add(s["ax"], m.mul(m.add(p, s["ax"], -1.0), mu))
    new = {
        "step": step_, "ax": m.where(mu == 1, p, moved),
        "eta": h.lr / (1 + h.lambd * h.lr * t) ** h.alpha,
        "mu": 1 / m.maximum(t - h.t0, 1.0),
    }
    return p, new


def _adafactor_state(p, h):
    if p.ndim < 2:
        return {"step": Scalar(), "variance": Like()}
    shape = tuple(p.shape)
    return {
        "step": Scalar(),
        "row_var": Shaped((*shape[:-1], 1)),
        "col_var": Shaped((*shape[:-2], 1, shape[-1])),
    }


@rule(_adafactor_state, "lr beta2_decay eps1 eps2 d weight_decay")
def adafactor(m, p, g, s, h):
    def root_mean_square(x):
        return jnp.sqrt(jnp.sum(jnp.square(x.astype(jnp.promote_types(x.dtype, jnp.float32))))) / (
            math.sqrt(x.size)
        )

    def mean_square(axis):
        return jnp.mean(jnp.square(g), axis=axis, keepdims=True)

    eps1 = float(jnp.finfo(p.dtype).eps) if h.eps1 is None else h.eps1
    step_ = s["step"] + 1
    t = m.number(step_)
    weight = t**h.beta2_decay
    rate = jnp.minimum(h.lr, 1 / jnp.sqrt(t)) * jnp.maximum(h.eps2, root_mean_square(p))
    if "weight_decay" in h.on:
        p = m.mul(p, 1 - h.lr * h.weight_decay)
    new = {"step": step_}
    if "variance" in s:
        new["variance"] = estimate = m.lerp(s["variance"], g * g, weight)
    else:
        new["row_var"] = row = m.lerp(s["row_var"], mean_square(-1), weight)
        new["col_var"] = column = m.lerp(s["col_var"], mean_square(-2), weight)
        mean = jnp.mean(row, axis=-2, keepdims=True)
        estimate = m.div(m.mul(row * jnp.ones_like(column), column), m.clamp(mean, eps1, jnp.inf))
    update = m.mul(m.rsqrt_above(estimate, eps1 * eps1), g)
    clip = jnp.maximum(1.0, root_mean_square(update) / h.d)
    return m.add(p, update, -rate / clip), new


def _muon_state(p, h):
    return {"momentum_buffer": Like()}


def _orthogonalised(g, coefficients, steps, eps):
    """The nearest orthogonal matrix, by Newton-Schulz iterations in bfloat16."""
    a, b, c = coefficients
    half, full = jnp.bfloat16, jnp.float32

    def product(x, y):
        return jnp.matmul(x, y, preferred_element_type=full)

    x = g.astype(half)
    is_tall = g.shape[0] > g.shape[1]
    x = x.T if is_tall else x
    norm = jnp.sqrt(jnp.sum(jnp.square(x.astype(full)))).astype(half)
    x = (x.astype(full) / jnp.maximum(norm, eps).astype(full)).astype(half)
    for _ in range(steps):
        gram = product(x, x.T).astype(half)
        combined = (b * gram.astype(full) + c * product(gram, gram)).astype(half)
        x = (a * x.astype(full) + product(combined, x)).astype(half)
    return x.T if is_tall else x


@rule(
    _muon_state, "lr weight_decay momentum eps", "nesterov ns_coefficients ns_steps adjust_lr_fn",
    "",
)
def muon(m, p, g, s, h):
    buffer = m.lerp(s["momentum_buffer"], g, 1 - h.momentum)
    update = m.lerp(g, buffer, h.momentum) if h.nesterov else buffer
    update = _orthogonalised(update, h.ns_coefficients, h.ns_steps, h.eps)
    rows, columns = p.shape
    if h.adjust_lr_fn == "match_rms_adamw":
        ratio = 0.2 * math.sqrt(max(rows, columns))
    else:
        ratio = math.sqrt(max(1, rows / columns))
    p = m.mul(p, 1 - h.lr * h.weight_decay)
    return m.add(p, update, -h.lr * ratio), {"momentum_buffer": buffer}
