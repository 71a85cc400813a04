"""Gradients as the calls of ATen's ops that PyTorch's formulas make, for whoever sees calls.

The engine computes a gradient by one kernel. Users' ``__torch_dispatch__`` and `make_fx` get what PyTorch's
autograd calls instead: `of_op` makes those calls for the ops that have a rule here, from what the node saved.
A rule that lacks something (the kernel saves other tensors than PyTorch's node) declines: the gradient is one
call then. Numbers beside tensors are ``.Scalar`` overloads, as in calls from C++ (`composing`).
"""

from __future__ import annotations

import math
import threading

from .. import _ops
from ..eager.core import api
from ..eager.core.formats import strided
from ..eager.core.registry import OpDef
from ..eager.native.contexts import repeatable


class _Composing(threading.local):
    """Whether a rule runs in this thread."""

    active = False

    def __enter__(self):
        self.active = True

    @repeatable
    def __exit__(self, *_):
        self.active = False


composing = _Composing()
_RULES: dict = {}
_WHOLE: dict = {}  # rules that give all gradients at once


class Missing(Exception):
    """What a rule reads was not saved."""


class Saved:
    """What a gradient is computed from: operands, results and static values of the call.

    ``saved["self"]`` is an operand or a static value, by the argument's name.

    Attributes:
        beside: the results of ATen's op for the call, where that was seen (``mean`` of a normalization).
    """

    def __init__(self, derivative, operands, beside=(), given=()):
        self.plan, self.mask, self.beside, self._given = derivative.plan, derivative.mask, beside, given
        at, m = len(derivative.inputs), len(derivative.plan.scalars)
        self._inputs = dict(zip(derivative.inputs, operands))
        results = operands[at : at + len(derivative.results)]
        self._results = dict(zip(derivative.results, results))
        at += len(derivative.results)
        self.numbers, self.grads = list(operands[at : at + m]), list(operands[at + m :])

    def __getitem__(self, name):
        slot = self._slot(name)
        kind = slot[0]
        if kind == "t":
            return self.tensor(slot[1])
        if kind == "s":
            return self.numbers[slot[1]]
        return slot[1] if kind == "v" else None

    def _slot(self, name):
        names = self.plan.op.definition.argument_names
        return self.plan.structure.slots[names.index(name)]

    def has_tensor(self, name):
        """Whether an argument is a tensor."""
        return self._slot(name)[0] == "t"

    def place(self, name):
        """The number of a tensor argument among the inputs."""
        return self._slot(name)[1]

    def places(self, name):
        """The numbers of the tensors of a list among the inputs, None where there is none."""
        return self._slot(name)[1]

    def tensor(self, index):
        """An input, if it was saved or seen."""
        if index in self._inputs:
            return self._inputs[index]
        if index >= len(self._given):
            raise Missing
        return self._given[index]  # the gradient does not depend on it

    def result(self, index=0):
        """A result, if it was saved."""
        if index not in self._results:
            raise Missing
        return self._results[index]

    def shape(self, index=0):
        """The sizes of an input."""
        return list(self.plan.inputs[index].shape)

    def fitted(self, index, grad):
        """A gradient in the shape and dtype of an input that was broadcast or promoted."""
        g = self.plan.inputs[index]
        if grad.shape != g.shape:
            grad = _summed_to(grad, list(g.shape))
        if grad.dtype is not g.dtype:
            kwargs = {"dtype": g.dtype, "layout": strided, "device": grad.device}
            grad = _ops.ops.aten._to_copy.default(grad, **kwargs)
        return grad


def _summed_to(grad, shape):
    if not shape:
        return grad.sum()
    lead = grad.dim() - len(shape)
    if lead < 0:
        raise Missing
    dims = [*range(lead), *(i + lead for i, n in enumerate(shape) if n == 1 and grad.shape[i + lead] != 1)]
    grad = grad.sum(dims, keepdim=True) if dims else grad
    return grad.view(shape) if lead else grad


def of_op(definition, operands, beside=(), given=()):
    """The gradients that a derived op gives, one or a tuple, by ATen's calls; None where no rule fits.

    Args:
        beside, given: the results and operands of the ATen op that stood for the call, where that was seen.
    """
    derivative = getattr(definition.kernel, "__self__", None)
    mask = getattr(derivative, "mask", None)
    if derivative is None or mask is None:
        return None
    if not isinstance(derivative.plan.op.definition, OpDef):  # of a transform
        return None
    name = derivative.plan.op.name
    name = name if name in _WHOLE or name in _RULES else derivative.plan.op.definition.name
    whole, rule = _WHOLE.get(name), _RULES.get(name)
    if (whole or rule) is None or any(g.dtype.is_complex for g in derivative.plan.inputs):
        return None
    saved = Saved(derivative, operands, beside, given)
    wanted = [i for i, m in enumerate(mask) if m]
    if saved.grads[0] is None:
        return None
    was_active = composing.active
    try:
        with composing:
            if whole is not None:
                found = whole(saved, saved.grads[0], mask)
                found = None if found is None else [saved.fitted(i, found[i]) for i in wanted]
            else:  # in the order of the arguments' names, as PyTorch's
                names = derivative.plan.structure.tensor_names
                given = {i: rule(saved, saved.grads[0], i) for i in sorted(wanted, key=lambda i: names[i])}
                found = [saved.fitted(i, given[i]) for i in wanted]
    except Missing:
        return None
    finally:
        composing.active = was_active
    if found is None:
        return None
    return found[0] if len(found) == 1 else tuple(found)


def rule(names):
    """Declares ``(saved, grad, index) -> gradient`` of the input of an index, for ops of some names."""

    def declare(function):
        for name in names.split():
            _RULES[name] = function
        return function

    return declare


def whole(names):
    """Declares ``(saved, grad, mask) -> gradients`` of all inputs."""

    def declare(function):
        for name in names.split():
            _WHOLE[name] = function
        return function

    return declare


def _aten(name):
    return getattr(_ops.ops.aten, name).default


def options_of(grad):
    """How PyTorch's C++ makes a tensor beside another."""
    return {"dtype": grad.dtype, "layout": strided, "device": grad.device}


def _number(value, grad):
    return _aten("scalar_tensor")(value, **options_of(grad))


# --- of one number each ------------------------------------------------------------------------


def _of_input(function):
    return lambda saved, grad, _: function(grad, saved.tensor(0))


def _of_result(function):
    return lambda saved, grad, _: function(grad, saved.result())


def _product(second, first):
    """A product whose second factor is computed before the first, as in C++."""
    return first() * second


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
    "silu": lambda g, x: _aten("silu_backward")(g, x),
    "mish": lambda g, x: _aten("mish_backward")(g, x),
    "hardsigmoid": lambda g, x: _aten("hardsigmoid_backward")(g, x),
    "hardswish": lambda g, x: _aten("hardswish_backward")(g, x),
    "relu6": lambda g, x: _aten("hardtanh_backward")(g, x, 0.0, 6.0),
}
_ELEMENTWISE_OF_RESULT = {
    "exp": lambda g, y: g * y,
    "exp2": lambda g, y: g * y * math.log(2),
    "expm1": lambda g, y: g * (y + 1),
    "sqrt": lambda g, y: g / (y * 2),
    "rsqrt": lambda g, y: _product(y.pow(3), lambda: g * -0.5),
    "tan": lambda g, y: g * (y.pow(2) + 1),
    "reciprocal": lambda g, y: _product(y * y, lambda: g.neg()),
    "sigmoid": lambda g, y: _aten("sigmoid_backward")(g, y),
    "tanh": lambda g, y: _aten("tanh_backward")(g, y),
    "relu": lambda g, y: _aten("threshold_backward")(g, y, 0),
}
for _table, _made in ((_ELEMENTWISE_OF_INPUT, _of_input), (_ELEMENTWISE_OF_RESULT, _of_result)):
    for _name, _function in _table.items():
        _RULES[_name] = _made(_function)

for _name in ("neg", "negative"):
    _RULES[_name] = lambda saved, grad, _: grad.neg()
for _name in ("clone", "positive", "copy", "contiguous"):
    _RULES[_name] = lambda saved, grad, _: grad
for _name in ("floor", "ceil", "round", "trunc", "sign", "sgn", "frac"):
    _RULES[_name] = lambda saved, grad, _: _aten("zeros_like")(grad)
_RULES["frac"] = lambda saved, grad, _: grad


@rule("_to_copy")
def _to_copy(saved, grad, _):
    return grad


@rule("gelu")
def _gelu(saved, grad, _):
    how = saved["approximate"]
    return _aten("gelu_backward")(grad, saved.tensor(0), **({} if how == "none" else {"approximate": how}))


def _with_static(name, *arguments):
    """A backward op of the gradient, the input and some static arguments."""

    def gradient(saved, grad, _):
        return _aten(name)(grad, saved.tensor(0), *(saved[a] if isinstance(a, str) else a for a in arguments))

    return gradient


_RULES.update({
    "leaky_relu": lambda saved, grad, _: _aten("leaky_relu_backward")(
        grad, saved.tensor(0), saved["negative_slope"], False),
    "elu": lambda saved, grad, _: _aten("elu_backward")(
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
    return _aten("log_sigmoid_backward")(grad, saved.tensor(0), buffer)


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
    return _product(saved["self"] / saved["other"] / saved["other"], lambda: grad.neg())


@rule("pow")
def _pow(saved, grad, index):
    if not saved.has_tensor("exponent"):
        exponent = saved["exponent"]
        if exponent == 0:
            return _aten("zeros_like")(grad)
        return grad * (saved["self"].pow(float(exponent - 1)) * float(exponent))
    if not saved.has_tensor("self"):
        base = saved["self"]
        if not isinstance(base, (int, float)) or base <= 0:
            raise Missing
        return grad * (saved.result() * math.log(base))
    base, exponent = saved["self"], saved["exponent"]
    if index == saved.place("self"):
        slope, zero = grad * (exponent * base.pow(exponent - 1)), _number(0.0, grad)
        return api.where(exponent == 0.0, zero, slope)
    is_positive = exponent >= 0
    at_zero = api.logical_and(base == 0, is_positive)
    slope, zero = saved.result() * base.log(), _number(0.0, grad)
    return grad * api.where(at_zero, zero, slope)


@rule("maximum minimum")
def _extremum(saved, grad, index):
    x, y = saved["self"], saved["other"]
    is_max = saved.plan.op.definition.name == "maximum"
    is_first = index == saved.place("self")
    half = grad / 2
    share = api.where(x == y, half, grad)
    return share.masked_fill_(x < y if is_max == is_first else x > y, 0)


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
    zeros = _aten("new_zeros")(grad, saved.shape(), **options_of(grad))
    places = [None if i is None else saved.tensor(i) for i in saved.places("indices")]
    return api.index_put(zeros, places, grad, True)


@rule("where")
def _where(saved, grad, index):
    condition, zero = saved["condition"], _number(0, grad)
    is_self = saved.has_tensor("self") and saved.place("self") == index
    return api.where(condition, grad, zero) if is_self else api.where(condition, zero, grad)


@rule("clamp")
def _clamp(saved, grad, index):
    if len(saved.plan.inputs) != 1:
        raise Missing
    x, low, high = saved.tensor(0), saved["min"], saved["max"]
    zero = _number(0.0, grad)
    if low is not None and high is not None:
        return api.where((x >= low).logical_and_(x <= high), grad, zero)
    return api.where(x >= low if low is not None else x <= high, grad, zero)


@rule("clamp_min clamp_max")
def _clamp_one(saved, grad, index):
    if len(saved.plan.inputs) != 1:
        raise Missing
    is_min = saved.plan.op.definition.name == "clamp_min"
    x, bound = saved.tensor(0), saved["min" if is_min else "max"]
    zero = _number(0.0, grad)
    return api.where(x >= bound if is_min else x <= bound, grad, zero)


@rule("masked_fill")
def _masked_fill(saved, grad, index):
    return grad.masked_fill(saved["mask"], 0) if index == 0 else api.where(saved["mask"], grad, 0).sum()


# --- reductions ------------------------------------------------------------------------------------


def _dims(saved, name="dim"):
    definition = saved.plan.op.definition
    dim = saved[name] if name in definition.argument_names else None
    rank = len(saved.shape())
    if dim is None:
        return ()
    return tuple(sorted(d % rank for d in ((dim,) if isinstance(dim, int) else dim))) if rank else ()


def _keeps(saved):
    return "keepdim" in saved.plan.op.definition.argument_names and saved["keepdim"]


def _restored(saved, x, dims):
    """A reduced tensor with its dimensions as ones."""
    if not _keeps(saved):
        for d in dims:
            x = x.unsqueeze(d)
    return x


@rule("sum")
def _sum(saved, grad, _):
    dims = _dims(saved)
    return _restored(saved, grad, dims).expand(saved.shape())


@rule("mean")
def _mean(saved, grad, _):
    dims = _dims(saved)
    shape = saved.shape()
    count = math.prod(shape[d] for d in dims) if dims else math.prod(shape)
    return _restored(saved, grad, dims).expand(shape) / count


@rule("amax amin")
def _amax(saved, grad, _):
    dims, x = _dims(saved), saved.tensor(0)
    whole_shape = [1 if d in (dims or range(x.dim())) else n for d, n in enumerate(x.shape)]
    keeps = _keeps(saved)
    y = saved.result() if keeps else saved.result().view(whole_shape)
    hit = y == x
    grad = grad if keeps else grad.view(whole_shape)
    return grad / hit.sum(list(dims) or None, keepdim=True) * hit


@rule("max min median kthvalue sort topk cummax_ mode")
def _chosen(saved, grad, _):
    """Of what a reduction chooses, the place is told."""
    shape = saved.shape()
    if len(saved.plan.geometries) == 1:
        return _evenly(saved, grad)
    places, name = saved.result(1), saved.plan.op.definition.name
    dim = saved["dim"]
    if name not in ("sort", "topk") and not saved["keepdim"] and shape:
        grad, places = grad.unsqueeze(dim), places.unsqueeze(dim)
    zeros = _aten("new_zeros")(grad, shape)
    return api.scatter(zeros, dim, places, grad)


def _evenly(saved, grad):
    """Of equal extrema each has its share."""
    x, y = saved.tensor(0), saved.result()
    unknown = x.isnan().logical_and(y.isnan())
    hit = (x == y).logical_or_(unknown)
    return hit * (grad / hit.sum())


def _deviations(saved, grad):
    x, dims = saved.tensor(0), _dims(saved)
    shape = saved.shape()
    names = saved.plan.op.definition.argument_names
    correction = saved["correction"] if "correction" in names else int(saved["unbiased"])
    correction = 1 if correction is None else correction
    count = math.prod(shape[d] for d in dims) if dims else math.prod(shape)
    if count <= correction:
        raise Missing
    factor = 2.0 / (count - correction)
    if not dims:
        return _product(x - x.mean(), lambda: grad * factor)
    grad = _restored(saved, grad, dims)
    return _product(x - x.mean(list(dims), keepdim=True), lambda: grad * factor)


@rule("var")
def _var(saved, grad, _):
    return _deviations(saved, grad)


@rule("std")
def _std(saved, grad, _):
    y = saved.result()
    return _deviations(saved, (grad / (y * 2)).masked_fill_(y == 0, 0))


@rule("linalg_vector_norm norm")
def _norm(saved, grad, _):
    names = saved.plan.op.definition.argument_names
    order = saved["ord" if "ord" in names else "p"]
    if order not in (2, 2.0, None):
        raise Missing
    x, dims = saved.tensor(0), _dims(saved)
    y = _restored(saved, saved.result(), dims)
    return _restored(saved, grad, dims) * (x / y).masked_fill_(y == 0, 0)


@rule("logsumexp")
def _logsumexp(saved, grad, _):
    dims = _dims(saved)
    grad, y = (_restored(saved, t, dims) for t in (grad, saved.result()))
    return grad * (saved.tensor(0) - y).exp()


@rule("cumsum")
def _cumsum(saved, grad, _):
    dim = saved["dim"]
    return grad.flip(dim).cumsum(dim).flip(dim) if saved.shape() and saved.shape()[dim] > 1 else grad


@rule("trace")
def _trace(saved, grad, _):
    return _aten("trace_backward")(grad, saved.shape())


# --- products ------------------------------------------------------------------------------------


@rule("mm")
def _mm(saved, grad, index):
    return _product_gradient(grad, saved.tensor(1 - index), saved.plan.inputs[index], index == 0)


def _product_gradient(grad, other, g, is_first):
    """The gradient of a matrix in a product, laid out as it: by columns, if it lies so."""
    if g.stride[0] == 1 and g.stride[1] == g.shape[0]:
        turned = grad.t()
        return (other.mm(turned) if is_first else turned.mm(other)).t()
    return grad.mm(other.t()) if is_first else other.t().mm(grad)


@rule("addmm")
def _addmm(saved, grad, index):
    if len(saved.plan.inputs) != 3 or any(n != 1 for n in saved.numbers):
        raise Missing
    if index == 0:
        return grad
    return _product_gradient(grad, saved.tensor(3 - index), saved.plan.inputs[index], index == 1)


@rule("bmm")
def _bmm(saved, grad, index):
    other = saved.tensor(1 - index).transpose(1, 2)
    return grad.bmm(other) if index == 0 else other.bmm(grad)


@rule("baddbmm")
def _baddbmm(saved, grad, index):
    if len(saved.plan.inputs) != 3 or any(n != 1 for n in saved.numbers):
        raise Missing
    if index == 0:
        return grad
    other = saved.tensor(3 - index).transpose(1, 2)
    return grad.bmm(other) if index == 1 else other.bmm(grad)


@rule("mv")
def _mv(saved, grad, index):
    return grad.outer(saved.tensor(1)) if index == 0 else saved.tensor(0).t().mv(grad)


@rule("dot")
def _dot(saved, grad, index):
    return grad * saved.tensor(1 - index)


@rule("softmax log_softmax")
def _softmax(saved, grad, _):
    y = saved.result()
    if y.dtype is not grad.dtype or y.dtype is not saved.plan.inputs[0].dtype:
        raise Missing
    kind = saved.plan.op.definition.name
    return _aten(f"_{kind}_backward_data")(grad, y, saved["dim"], grad.dtype)


# --- indexing and joining ----------------------------------------------------------------------


@whole("cat")
def _cat(saved, grad, mask):
    dim, at, found = saved["dim"], 0, []
    for i, g in enumerate(saved.plan.inputs):
        if g.ndim == 1 and g.numel == 0 and grad.dim() != 1:
            found.append(_aten("zeros")([0], **options_of(grad)))
            continue
        found.append(grad.narrow(dim, at, g.shape[dim]) if mask[i] else None)
        at += g.shape[dim]
    return found


@whole("stack")
def _stack(saved, grad, mask):
    return [grad.select(saved["dim"], i) if m else None for i, m in enumerate(mask)]


@rule("gather")
def _gather(saved, grad, _):
    return api.scatter_add(_aten("new_zeros")(grad, saved.shape()), saved["dim"], saved["index"], grad)


@rule("scatter_add")
def _scatter_add(saved, grad, index):
    return grad if index == 0 else grad.gather(saved["dim"], saved["index"])


@rule("index_select")
def _index_select(saved, grad, _):
    zeros = _aten("zeros")(saved.shape(), **options_of(grad))
    return api.index_add(zeros, saved["dim"], saved["index"], grad)


@rule("embedding")
def _embedding(saved, grad, _):
    weight = saved.plan.inputs[0]
    rest = saved["padding_idx"], saved["scale_grad_by_freq"]
    return _aten("embedding_dense_backward")(grad, saved["indices"], weight.shape[0], *rest)


@rule("tril triu")
def _triangle(saved, grad, _):
    k = saved["diagonal"]
    return getattr(grad, saved.plan.op.definition.name)(*((k,) if k else ()))


@rule("flip")
def _flip(saved, grad, _):
    return grad.flip(list(saved["dims"]))


@rule("roll")
def _roll(saved, grad, _):
    shifts, dims = saved["shifts"], saved["dims"]
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [] if dims is None else [dims] if isinstance(dims, int) else list(dims)
    return grad.roll([-s for s in reversed(shifts)], dims[::-1])


@rule("repeat")
def _repeat(saved, grad, _):
    repeats, shape = list(saved["repeats"]), saved.shape()
    shape = [1] * (len(repeats) - len(shape)) + shape
    sizes, dims = [], []
    for count, n in zip(repeats, shape):
        if count != 1:
            dims.append(len(sizes))
            sizes += [count, n]
        else:
            sizes.append(n)
    return grad.view(sizes).sum(dims) if dims else grad


@rule("pad")
def _pad(saved, grad, _):
    if saved["mode"] != "constant":
        raise Missing
    return _aten("constant_pad_nd")(grad, [-n for n in saved["pad"]])


# --- losses, normalization, convolution, pooling ---------------------------------------------------


_REDUCTIONS = ("none", "mean", "sum")


def _reduction(saved):
    kind = saved["reduction"]
    names = saved.plan.op.definition.argument_names
    if kind not in _REDUCTIONS or any(n in names and saved[n] is not None for n in ("size_average", "reduce")):
        raise Missing
    return _REDUCTIONS.index(kind)


@rule("mse_loss")
def _mse_loss(saved, grad, index):
    if len(saved.plan.inputs) != 2:
        raise Missing
    mine, other = saved.tensor(index), saved.tensor(1 - index)
    return _aten("mse_loss_backward")(grad, mine, other, _reduction(saved))


@rule("smooth_l1_loss huber_loss")
def _smooth(saved, grad, index):
    if len(saved.plan.inputs) != 2:
        raise Missing
    name = saved.plan.op.definition.name
    width = saved["beta" if name == "smooth_l1_loss" else "delta"]
    mine, other = saved.tensor(index), saved.tensor(1 - index)
    return _aten(f"{name}_backward")(grad, mine, other, _reduction(saved), width)


@rule("binary_cross_entropy")
def _binary_cross_entropy(saved, grad, index):
    if any(saved.mask[1:]):
        raise Missing
    weight = saved["weight"]
    return _aten("binary_cross_entropy_backward")(grad, saved["input"], saved["target"], weight, _reduction(saved))


@rule("binary_cross_entropy_with_logits")
def _with_logits(saved, grad, index):
    if any(saved.mask[1:]) or len(saved.plan.inputs) != 2:
        raise Missing
    reduction = _reduction(saved)
    found = (saved["input"].sigmoid() - saved["target"]) * grad
    return found.div_(found.numel()) if reduction == 1 else found


@rule("nll_loss")
def _nll_loss(saved, grad, _):
    x = saved["input"]
    if x.dim() > 2:
        raise Missing
    total = saved.beside[1] if len(saved.beside) > 1 else _aten("new_zeros")(grad, [])
    args = (x, saved["target"], saved["weight"], _reduction(saved), saved["ignore_index"], total)
    return _aten("nll_loss_backward")(grad, *args)


def _three(saved, names, mask):
    """Which of three gradients are wanted, and where they go among the inputs."""
    places = [saved.place(n) if saved.has_tensor(n) else None for n in names]
    return places, [p is not None and bool(mask[p]) for p in places]


def _placed(places, wanted, found, count):
    result = [None] * count
    for place, is_wanted, grad in zip(places, wanted, found):
        if is_wanted:
            result[place] = grad
    return result


@whole("layer_norm")
def _layer_norm(saved, grad, mask):
    if len(saved.beside) < 3:
        return None
    places, wanted = _three(saved, ("input", "weight", "bias"), mask)
    bias = saved["bias"] if places[2] is not None else None
    weight = saved["weight"] if places[1] is not None else None
    args = (saved["input"], list(saved["normalized_shape"]), *saved.beside[1:3], weight, bias, wanted)
    found = _aten("native_layer_norm_backward")(grad, *args)
    return _placed(places, wanted, found, len(mask))


@whole("_batch_norm_train _batch_norm_eval")
def _batch_norm(saved, grad, mask):
    x, eps = saved["input"], saved["eps"]
    is_training = saved.plan.op.definition.name == "_batch_norm_train"
    places, wanted = _three(saved, ("input", "weight", "bias"), mask)
    weight = saved["weight"] if places[1] is not None else None
    running = [None if is_training else saved[n] for n in ("running_mean", "running_var")]
    statistics: tuple = (None, None)
    if is_training:  # PyTorch's node has kept them
        if len(saved.beside) == 3:
            statistics = saved.beside[1:]
            running = [saved[n] for n in ("running_mean", "running_var")]
        else:
            variance, mean = api.var_mean(x, [0, *range(2, x.dim())], correction=0)
            statistics = (mean, (variance + eps).rsqrt())
    args = (x, weight, *running, *statistics, is_training, eps, wanted)
    return _placed(places, wanted, _aten("native_batch_norm_backward")(grad, *args), len(mask))


@whole("group_norm")
def _group_norm(saved, grad, mask):
    if len(saved.beside) < 3:
        return None
    places, wanted = _three(saved, ("input", "weight", "bias"), mask)
    x = saved["input"]
    n, c = x.shape[:2]
    weight = saved["weight"] if places[1] is not None else None
    args = (x, *saved.beside[1:3], weight, n, c, x.shape[2:].numel(), saved["num_groups"], wanted)
    found = _aten("native_group_norm_backward")(grad, *args)
    return _placed(places, wanted, found, len(mask))


@whole("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution")
def _convolution(saved, grad, mask):
    x, weight = saved["input"], saved["weight"]
    name, nd = saved.plan.op.definition.name, weight.dim() - 2
    if x.dim() != weight.dim() or isinstance(saved["padding"], str):
        return None
    places, wanted = _three(saved, ("input", "weight", "bias"), mask)

    def numbers(argument):
        value = saved[argument]
        value = [value] if isinstance(value, int) else list(value)
        return value * nd if len(value) == 1 else value

    if name == "convolution":
        transposed, output = saved["transposed"], numbers("output_padding")
    else:
        transposed = "transpose" in name
        output = numbers("output_padding") if transposed else [0] * nd
    sizes = [0] if places[2] is None else list(saved.plan.inputs[places[2]].shape)
    args = (x, weight, sizes, numbers("stride"), numbers("padding"), numbers("dilation"), transposed, output)
    found = _aten("convolution_backward")(grad, *args, saved["groups"], wanted)
    return _placed(places, wanted, found, len(mask))


@rule("avg_pool2d avg_pool3d")
def _avg_pool(saved, grad, _):
    name = saved.plan.op.definition.name
    nd = int(name[-2])

    def numbers(value):
        value = [value] if isinstance(value, int) else list(value)
        return value * nd if len(value) == 1 else value

    args = [numbers(saved[n]) for n in ("kernel_size", "stride", "padding")]
    rest = [saved[n] for n in ("ceil_mode", "count_include_pad", "divisor_override")]
    return _aten(f"{name}_backward")(grad, saved.tensor(0), *args, *rest)


@rule("adaptive_avg_pool2d adaptive_avg_pool3d")
def _adaptive(saved, grad, _):
    shape, size = saved.shape(), saved["output_size"]
    nd = int(saved.plan.op.definition.name[-2])
    size = [size] if isinstance(size, int) else list(size)
    if all(n == 1 for n in size):
        return grad.expand(shape) / math.prod(shape[-nd:])
    return _aten(f"_adaptive_avg_pool{nd}d_backward")(grad, saved.tensor(0))


@rule("max_pool2d")
def _max_pool(saved, grad, _):
    if len(saved.beside) < 2:
        raise Missing

    def numbers(value):
        value = [value] if isinstance(value, int) else list(value)
        return value * 2 if len(value) == 1 else value

    args = [numbers(saved[n]) if saved[n] else [] for n in ("kernel_size", "stride", "padding", "dilation")]
    args = [args[0], args[1], args[2] or [0, 0], args[3] or [1, 1]]
    return _aten("max_pool2d_with_indices_backward")(
        grad, saved.tensor(0), *args, bool(saved["ceil_mode"]), saved.beside[1])


__all__ = ["Missing", "Saved", "composing", "of_op", "rule", "whole"]
