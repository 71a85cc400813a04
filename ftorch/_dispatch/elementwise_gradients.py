"""Gradients of elementwise ops."""

from __future__ import annotations

import math

from ..eager.core import api
from ..eager.core.formats import contiguous_format
from ..eager.tensor_api.index_masks import with_masks
from .gradient_rules import (
    RULES,
    Missing,
    aten_op,
    composing,
    number_like,
    options_of,
    product_reversed,
    product_sum,
    rule,
    whole,
)

# --- of one number each ------------------------------------------------------------------------


def _of_input(function):
    return lambda saved, grad, _: function(grad, saved.tensor(0))


def _of_result(function):
    return lambda saved, grad, _: function(grad, saved.result())


_ELEMENTWISE_OF_INPUT = {
    "sin": lambda g, x: g * x.cos(),
    "cos": lambda g, x: g * x.sin().neg(),
    "log": lambda g, x: g / x,
    "log2": lambda g, x: g / (x * math.log(2)),
    "log10": lambda g, x: g / (x * math.log(10)),
    "log1p": lambda g, x: g / (x + 1),
    "abs": lambda g, x: g * x.sgn(),
    "asin": lambda g, x: g * (x.neg() * x + 1).rsqrt(),
    "acos": lambda g, x: g * (x.neg() * x + 1).rsqrt().neg(),
    "atan": lambda g, x: g / (x * x + 1),
    "sinh": lambda g, x: g * x.cosh(),
    "cosh": lambda g, x: g * x.sinh(),
    "asinh": lambda g, x: g * (x.pow(2) + 1).rsqrt(),
    "erf": lambda g, x: x.pow(2).neg().exp() * (2 / math.sqrt(math.pi)) * g,
    "erfc": lambda g, x: x.pow(2).neg().exp() * (-2 / math.sqrt(math.pi)) * g,
    "lgamma": lambda g, x: g * x.digamma(),
    "silu": lambda g, x: aten_op("silu_backward")(g, x),
    "mish": lambda g, x: aten_op("mish_backward")(g, x),
    "hardsigmoid": lambda g, x: aten_op("hardsigmoid_backward")(g, x),
    "hardswish": lambda g, x: aten_op("hardswish_backward")(g, x),
    "relu6": lambda g, x: aten_op("hardtanh_backward")(g, x, 0.0, 6.0),
}
_ELEMENTWISE_OF_RESULT = {
    "exp": lambda g, y: g * y,
    "exp2": lambda g, y: g * y * math.log(2),
    "expm1": lambda g, y: g * (y + 1),
    "sqrt": lambda g, y: g / (y * 2),
    "rsqrt": lambda g, y: product_reversed(y.pow(3), lambda: g * -0.5),
    "tan": lambda g, y: g * (y.pow(2) + 1),
    "reciprocal": lambda g, y: product_reversed(y * y, lambda: g.neg()),
    "sigmoid": lambda g, y: aten_op("sigmoid_backward")(g, y),
    "tanh": lambda g, y: aten_op("tanh_backward")(g, y),
    "relu": lambda g, y: aten_op("threshold_backward")(g, y, 0),
}
for _table, _made in ((_ELEMENTWISE_OF_INPUT, _of_input), (_ELEMENTWISE_OF_RESULT, _of_result)):
    for _name, _function in _table.items():
        RULES[_name] = _made(_function)

for _name in ("neg", "negative"):
    RULES[_name] = lambda saved, grad, _: grad.neg()
for _name in ("clone", "positive", "contiguous"):
    RULES[_name] = lambda saved, grad, _: grad
for _name in ("floor", "ceil", "round", "trunc", "sign", "sgn", "frac"):
    RULES[_name] = lambda saved, grad, _: aten_op("zeros_like")(grad)
RULES["frac"] = lambda saved, grad, _: grad


@rule("copy")
def _copy(saved, grad, index):
    return grad if index else aten_op("zeros_like")(grad, memory_format=contiguous_format)


@rule("fill zero")
def _fill(saved, grad, index):
    return grad.sum() if index else aten_op("zeros_like")(grad)


@rule("_to_copy")
def _to_copy(saved, grad, _):
    return grad


@rule("gelu")
def _gelu(saved, grad, _):
    how = saved["approximate"]
    return aten_op("gelu_backward")(grad, saved.tensor(0), **({} if how == "none" else {"approximate": how}))


def _with_static(name, *arguments):
    """A backward op of the gradient, the input and some static arguments."""

    def gradient(saved, grad, _):
        return aten_op(name)(grad, saved.tensor(0), *(saved[a] if isinstance(a, str) else a for a in arguments))

    return gradient


RULES.update({
    "leaky_relu": lambda saved, grad, _: aten_op("leaky_relu_backward")(
        grad, saved.tensor(0), saved["negative_slope"], False),
    "elu": lambda saved, grad, _: aten_op("elu_backward")(
        grad, saved["alpha"], *(int(saved[n]) if saved[n] == 1 else saved[n] for n in ("scale", "input_scale")), False,
        saved.tensor(0)),
    "hardtanh": _with_static("hardtanh_backward", "min_val", "max_val"),
    "hardshrink": _with_static("hardshrink_backward", "lambd"),
    "softshrink": _with_static("softshrink_backward", "lambd"),
    "softplus": _with_static("softplus_backward", "beta", "threshold"),
    "threshold": _with_static("threshold_backward", "threshold"),
    "glu": _with_static("glu_backward", "dim"),
})


@rule("logsigmoid")
def _logsigmoid(saved, grad, _):
    buffer = saved.beside[1] if len(saved.beside) > 1 else api.zeros(0)
    return aten_op("log_sigmoid_backward")(grad, saved.tensor(0), buffer)


@rule("square")
def _square(saved, grad, _):
    return grad * (saved.tensor(0).pow(1.0) * 2.0)


# --- arithmetic ----------------------------------------------------------------------------------


def _times(grad, factor):
    return grad if factor == 1 else grad * factor


@rule("add")
def _add(saved, grad, index):
    is_other = saved.has_tensor("other") and saved.place("other") == index
    return _times(grad, saved["alpha"]) if is_other else grad


@rule("sub")
def _sub(saved, grad, index):
    if not (saved.has_tensor("other") and saved.place("other") == index):
        return grad
    return grad.neg() if saved["alpha"] == 1 else (grad * saved["alpha"]).neg()


def _number_beside(saved):
    """The number that stands in for a tensor operand: Python's operators hand it on as one."""
    return next(saved[n] for n in ("other", "self") if not saved.has_tensor(n))


def _by_number(name, grad, number):
    """A call with a number as Python makes it: ``mul.Tensor``."""
    composing.active = False
    try:
        return grad * number if name == "mul" else grad / number
    finally:
        composing.active = True


@rule("mul")
def _mul(saved, grad, index):
    if len(saved.plan.inputs) == 1:
        return _by_number("mul", grad, _number_beside(saved))
    return grad * saved.tensor(1 - index)


@rule("div")
def _div(saved, grad, index):
    if saved.has_tensor("self") and not saved.has_tensor("other"):
        return _by_number("div", grad, saved["other"])
    if not saved.has_tensor("self"):
        raise Missing
    if index == saved.place("self"):
        return grad / saved["other"]
    return product_reversed(saved["self"] / saved["other"] / saved["other"], lambda: grad.neg())


@rule("pow _pow_static")
def _pow(saved, grad, index):
    if not saved.has_tensor("exponent"):
        exponent = saved["exponent"]
        if exponent == 0:
            return aten_op("zeros_like")(grad)
        return grad * (saved["self"].pow(float(exponent - 1)) * float(exponent))
    if not saved.has_tensor("self"):
        base = saved["self"]
        if not isinstance(base, (int, float)) or base <= 0:
            raise Missing
        return grad * (saved.result() * math.log(base))
    base, exponent = saved["self"], saved["exponent"]
    if index == saved.place("self"):
        slope, zero = grad * (exponent * base.pow(exponent - 1)), number_like(0.0, grad)
        return api.where(exponent == 0.0, zero, slope)
    is_positive = exponent >= 0
    at_zero = api.logical_and(base == 0, is_positive)
    slope, zero = saved.result() * base.log(), number_like(0.0, grad)
    return grad * api.where(at_zero, zero, slope)


@rule("maximum minimum")
def _extremum(saved, grad, index):
    x, y = saved["self"], saved["other"]
    is_max = saved.plan.op.definition.name == "maximum"
    is_first = index == saved.place("self")
    half = grad / 2
    share = api.where(x == y, half, grad)
    return share.masked_fill_(x < y if is_max == is_first else x > y, 0)


@whole("atan2")
def _atan2(saved, grad, mask):
    x, y = saved["self"], saved["other"]
    squares = product_sum(x, y)
    inverse = squares.reciprocal().masked_fill(squares == 0, 0)
    found: list = [None] * len(mask)
    if saved.has_tensor("self") and mask[saved.place("self")]:
        found[saved.place("self")] = grad * y * inverse
    if saved.has_tensor("other") and mask[saved.place("other")]:
        minus = x.neg()
        found[saved.place("other")] = grad * minus * inverse
    return found


@rule("logaddexp logaddexp2")
def _logaddexp(saved, grad, index):
    power = "exp2" if saved.plan.op.definition.name == "logaddexp2" else "exp"
    mine, other = (saved[n] for n in (("self", "other") if index == saved.place("self") else ("other", "self")))
    return grad / (getattr(other - mine, power)() + 1)


@rule("xlogy")
def _xlogy(saved, grad, index):
    if not (saved.has_tensor("self") and saved.has_tensor("other")):
        raise Missing
    x, y = saved["self"], saved["other"]
    if index == saved.place("other"):
        return grad * x / y
    logarithm = aten_op("xlogy", "Tensor")(grad, y)
    least = y <= 0.0
    return logarithm.masked_fill((x == 0.0).bitwise_and(least), 0.0)


@rule("nan_to_num")
def _nan_to_num(saved, grad, _):
    x = saved.tensor(0)
    finite = x.abs() != math.inf
    return grad * ((x == x) * finite)


@rule("selu")
def _selu(saved, grad, _):
    return aten_op("elu_backward")(grad, 1.6732632423543772, 1.0507009873554805, 1, False, saved.tensor(0))


@rule("lerp")
def _lerp(saved, grad, index):
    if saved.has_tensor("weight"):
        raise Missing
    weight = saved["weight"]
    return grad * (weight if index == saved.place("end") else 1 - weight)


@rule("addcmul")
def _addcmul(saved, grad, index):
    names = ("self", "tensor1", "tensor2")
    which = next(n for n in names if saved.place(n) == index)
    if which == "self":
        return grad
    return grad * (saved["tensor2" if which == "tensor1" else "tensor1"] * saved["value"])


@rule("index")
def _index(saved, grad, _):
    zeros = aten_op("new_zeros")(grad, saved.shape(), **options_of(grad))
    places = [None if i is None else saved.tensor(i) for i in saved.places("indices")]
    return aten_op("index_put")(zeros, with_masks(places), grad, True)


@rule("where")
def _where(saved, grad, index):
    condition, zero = saved["condition"], number_like(0, grad)
    is_self = saved.has_tensor("self") and saved.place("self") == index
    return api.where(condition, grad, zero) if is_self else api.where(condition, zero, grad)


@rule("clamp")
def _clamp(saved, grad, index):
    if len(saved.plan.inputs) != 1:
        raise Missing
    x, low, high = saved.tensor(0), saved["min"], saved["max"]
    zero = number_like(0.0, grad)
    if low is not None and high is not None:
        return api.where((x >= low).logical_and_(x <= high), grad, zero)
    return api.where(x >= low if low is not None else x <= high, grad, zero)


@rule("clamp_min clamp_max")
def _clamp_one(saved, grad, index):
    if len(saved.plan.inputs) != 1:
        raise Missing
    is_min = saved.plan.op.definition.name == "clamp_min"
    x, bound = saved.tensor(0), saved["min" if is_min else "max"]
    zero = number_like(0.0, grad)
    return api.where(x >= bound if is_min else x <= bound, grad, zero)


@rule("masked_fill")
def _masked_fill(saved, grad, index):
    return grad.masked_fill(saved["mask"], 0) if index == 0 else api.where(saved["mask"], grad, 0).sum()
