"""ONNX forms of JAX's primitives: what any kernel is made of.

An op without a translation of its own is traced to the primitives that its kernel calls, and these are
translated. Sizes have to be numbers; what does not depend on the inputs is computed here and becomes
constants. Indices of gathers and scatters are those of the flattened operand.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np

from ..eager.core import dtype as dtypes
from ..eager.core import jaxprs
from ..eager.core.jax_internals import bind, scan_counts
from ._builder import Value

RULES: dict[str, Callable] = {}
_STEPS = 64  # of a loop that is unrolled


class NoForm(Exception):
    """A primitive that has no ONNX form."""


def rule(names: str):
    def register(function):
        for name in names.split():
            RULES[name] = function
        return function

    return register


def dtype_of(aval):
    return getattr(dtypes, str(np.dtype(aval.dtype).name))


def value(g, x) -> Value:
    """A value of the graph; an array becomes a constant."""
    if isinstance(x, Value):
        return x
    x = np.asarray(x)
    return Value(g.array(x), x.shape, getattr(dtypes, x.dtype.name))


def _anywhere(x):
    """A constant that has no size: of equal elements, as one number."""
    if x.ndim == 0:
        return x
    if not x.size or (x != x.flat[0]).any():
        raise NoForm("a constant whose size varies")
    return np.asarray(x.flat[0], x.dtype)


def run(g, jaxpr, constants, inputs):
    """The results of a program of primitives; of any sizes, if ``g.any_size``.

    Args:
        g: the builder.
        jaxpr, constants: the program.
        inputs: values of the graph, or arrays.

    Raises:
        NoForm: a primitive has no ONNX form.
    """
    return _Translation(g).run(jaxpr, constants, inputs)


class _Translation(jaxprs.Walk):
    """Goes through a program; values are those of the graph, or arrays."""

    def __init__(self, g):
        self.g = g

    def constant(self, value):
        value = np.asarray(value)
        return _anywhere(value) if self.g.any_size else value

    def literal(self, atom):
        return jaxprs.literal(atom)

    def called(self, eqn, given):
        if not any(isinstance(x, Value) for x in given):
            return None
        return jaxprs.called(eqn) or jaxprs.meaning(eqn)

    def equation(self, eqn, given):
        return _equation(self.g, eqn, given)


def _equation(g, eqn, given):
    name, params = eqn.primitive.name, eqn.params
    if not any(isinstance(x, Value) for x in given):
        made = [np.asarray(x) for x in bind(eqn, given)]
        return [_anywhere(x) for x in made] if g.any_size else made
    if name == "scan":
        return _scan(g, params, given)
    rule = RULES.get(name)
    if rule is None or (g.any_size and name not in _ANY_SIZE):
        raise NoForm(name)
    results = rule(g, eqn, *[value(g, x) for x in given])
    results = results if isinstance(results, list) else [results]
    return [
        Value(r.name, tuple(v.aval.shape), dtype_of(v.aval)) for r, v in zip(results, eqn.outvars)
    ]


def _scan(g, params, given):
    """A loop of a known number of steps, step by step."""
    if params["length"] > _STEPS:
        raise NoForm("scan")
    inner, (consts, carried) = params["jaxpr"], scan_counts(params)
    fixed, state, rows = given[:consts], given[consts : consts + carried], given[consts + carried :]
    collected = []
    steps = range(params["length"])
    for i in reversed(steps) if params["reverse"] else steps:
        now = [_row(g, x, i) for x in rows]
        out = run(g, inner.jaxpr, inner.consts, [*fixed, *state, *now])
        state = out[:carried]
        collected.append([g.unsqueeze(value(g, x), [0]) for x in out[carried:]])
    collected = collected[::-1] if params["reverse"] else collected
    return [*state, *(g.concat(parts, 0) for parts in zip(*collected))]


def _row(g, x, i):
    if not isinstance(x, Value):
        return x[i]
    return g.op("Gather", x, g.array(np.int64(i)), shape=x.shape[1:], axis=0)


# --- elementwise ----------------------------------------------------------------------

_SAME = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan",
    "atanh": "Atanh", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp",
    "floor": "Floor", "log": "Log", "logistic": "Sigmoid", "neg": "Neg", "sign": "Sign", "sin": "Sin",
    "sinh": "Sinh", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh", "add": "Add", "sub": "Sub",
    "mul": "Mul", "div": "Div", "pow": "Pow",
}
_COMPARISONS = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}


@rule(" ".join(_SAME))
def _same(g, eqn, *operands):
    return g.op(_SAME[eqn.primitive.name], *operands)


@rule("add_any")
def _add_any(g, eqn, x, y):
    return g.op("Add", x, y)


@rule("max min")
def _extreme(g, eqn, x, y):
    if x.dtype is dtypes.bool:
        return g.op("Or" if eqn.primitive.name == "max" else "And", x, y)
    return g.op("Max" if eqn.primitive.name == "max" else "Min", x, y)


@rule("eq ne lt le gt ge")
def _compare(g, eqn, x, y):
    name = eqn.primitive.name
    if x.dtype is dtypes.bool and name not in ("eq", "ne"):
        x, y = g.cast(x, dtypes.int32), g.cast(y, dtypes.int32)
    out = g.op(_COMPARISONS.get(name, "Equal"), x, y, dtype=dtypes.bool)
    return g.op("Not", out) if name == "ne" else out


@rule("and or xor not")
def _logical(g, eqn, *operands):
    kind = eqn.primitive.name.capitalize()
    return g.op(kind if operands[0].dtype is dtypes.bool else f"Bitwise{kind}", *operands)


@rule("rem")
def _rem(g, eqn, x, y):
    return g.op("Mod", x, y, fmod=1)


@rule("integer_pow")
def _integer_pow(g, eqn, x):
    return g.op("Pow", x, g.number(eqn.params["y"], x.dtype))


@rule("square")
def _square(g, eqn, x):
    return g.op("Mul", x, x)


@rule("rsqrt")
def _rsqrt(g, eqn, x):
    return g.op("Reciprocal", g.op("Sqrt", x))


@rule("cbrt")
def _cbrt(g, eqn, x):
    return g.op("Mul", g.op("Sign", x), g.op("Pow", g.op("Abs", x), g.number(1 / 3, x.dtype)))


@rule("exp2")
def _exp2(g, eqn, x):
    return g.op("Exp", g.op("Mul", x, g.number(math.log(2), x.dtype)))


@rule("log1p")
def _log1p(g, eqn, x):
    return g.op("Log", g.op("Add", x, g.number(1, x.dtype)))


@rule("expm1")
def _expm1(g, eqn, x):
    return g.op("Sub", g.op("Exp", x), g.number(1, x.dtype))


@rule("erfc")
def _erfc(g, eqn, x):
    return g.op("Sub", g.number(1, x.dtype), g.op("Erf", x))


@rule("is_finite")
def _is_finite(g, eqn, x):
    special = [g.op(kind, x, dtype=dtypes.bool) for kind in ("IsNaN", "IsInf")]
    return g.op("Not", g.op("Or", *special))


@rule("atan2")
def _atan2(g, eqn, y, x):
    choose = functools.partial(where, g)
    zero, pi = g.number(0, x.dtype), g.number(math.pi, x.dtype)
    angle = g.op("Atan", g.op("Div", y, x))
    turn = choose(g.op("Less", y, zero, dtype=dtypes.bool), g.op("Neg", pi), pi)
    angle = choose(g.op("Less", x, zero, dtype=dtypes.bool), g.op("Add", angle, turn), angle)
    origin = g.op("And", *(g.op("Equal", v, zero, dtype=dtypes.bool) for v in (x, y)))
    return choose(origin, zero, angle)


@rule("round")
def _round(g, eqn, x):
    if int(eqn.params["rounding_method"]) == 1:  # to even
        return g.op("Round", x)
    whole = g.op("Floor", g.op("Add", g.op("Abs", x), g.number(0.5, x.dtype)))
    return g.op("Mul", whole, g.op("Sign", x))


@rule("shift_left shift_right_arithmetic")
def _shift(g, eqn, x, by):
    power = g.cast(g.op("Pow", g.number(2.0, dtypes.float64), g.cast(by, dtypes.float64)), x.dtype)
    if eqn.primitive.name == "shift_left":
        return g.op("Mul", x, power)
    rest = g.op("Mod", x, power)  # has the divisor's sign
    return g.op("Div", g.op("Sub", x, rest), power)


def where(g, condition, x, y, shape=None):
    """A choice; runtimes have none of booleans."""
    numbers = (g.cast(v, dtypes.int32) if v.dtype is dtypes.bool else v for v in (x, y))
    out = g.op("Where", condition, *numbers, shape=shape or condition.shape)
    return g.cast(Value(out.name, out.shape, dtypes.int32), x.dtype) if x.dtype is dtypes.bool else (
        Value(out.name, out.shape, x.dtype))


@rule("select_n")
def _select(g, eqn, which, *cases):
    if which.dtype is dtypes.bool:
        return where(g, which, cases[1], cases[0])
    out = cases[0]
    for i, case in enumerate(cases[1:], 1):
        chosen = g.op("Equal", which, g.number(i, which.dtype), dtype=dtypes.bool)
        out = where(g, chosen, case, out)
    return out


@rule("clamp")
def _clamp(g, eqn, low, x, high):
    return g.op("Min", g.op("Max", x, low), high)


@rule("convert_element_type")
def _convert(g, eqn, x):
    return g.cast(x, dtype_of(eqn.outvars[0].aval))


@rule("copy copy_p stop_gradient reduce_precision")
def _copy(g, eqn, x):
    return x


@rule("optimization_barrier")
def _barrier(g, eqn, *values):
    return list(values)


# --- shapes ---------------------------------------------------------------------------


def flat(g, x):
    return g.reshape(x, (math.prod(x.shape),))


@rule("broadcast_in_dim")
def _broadcast_in_dim(g, eqn, x):
    shape, dims = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    if g.any_size:
        if tuple(dims) != tuple(range(len(shape) - x.rank, len(shape))):
            raise NoForm("broadcast_in_dim")
        return x  # ONNX's operators broadcast by themselves
    wide = [1] * len(shape)
    for d, n in zip(dims, x.shape):
        wide[d] = n
    if tuple(wide) != tuple(x.shape):
        x = g.reshape(x, wide)
    return x if tuple(wide) == tuple(shape) else g.op("Expand", x, g.ints(shape), shape=shape)


@rule("reshape squeeze expand_dims")
def _reshape(g, eqn, x):
    return g.reshape(x, eqn.outvars[0].aval.shape)


@rule("transpose")
def _transpose(g, eqn, x):
    return g.transpose(x, eqn.params["permutation"])


@rule("rev")
def _rev(g, eqn, x):
    for d in eqn.params["dimensions"]:
        x = Value(g.slice(x, d, -1, -(2**62), -1).name, x.shape, x.dtype)
    return x


@rule("concatenate")
def _concatenate(g, eqn, *values):
    return g.concat(values, eqn.params["dimension"])


@rule("stack")
def _stack(g, eqn, *values):
    axis = eqn.params["axis"]
    return g.concat([g.unsqueeze(v, [axis]) for v in values], axis)


@rule("slice")
def _slice(g, eqn, x):
    p = eqn.params
    for d, (start, stop) in enumerate(zip(p["start_indices"], p["limit_indices"])):
        step = 1 if p["strides"] is None else p["strides"][d]
        if (start, stop, step) != (0, x.shape[d], 1):
            x = g.slice(x, d, start, stop, step)
    return x


@rule("split")
def _split(g, eqn, x):
    axis, out, at = eqn.params["axis"], [], 0
    for size in eqn.params["sizes"]:
        out.append(g.slice(x, axis, at, at + size))
        at += size
    return out


@rule("pad")
def _pad(g, eqn, x, filler):
    config = eqn.params["padding_config"]
    for d, (_, _, inner) in enumerate(config):
        if inner and x.shape[d] > 1:
            x = _spread(g, x, d, inner, filler)
    low, high = [max(c[0], 0) for c in config], [max(c[1], 0) for c in config]
    if any(low + high):
        shape = [n + a + b for n, a, b in zip(x.shape, low, high)]
        as_int = x.dtype is dtypes.bool
        wide = g.cast(x, dtypes.int32) if as_int else x
        out = g.op("Pad", wide, g.ints(low + high), g.cast(filler, wide.dtype).name, shape=shape)
        x = g.cast(out, x.dtype)
    for d, (a, b, _) in enumerate(config):
        if a < 0 or b < 0:
            x = g.slice(x, d, max(-a, 0), x.shape[d] + min(b, 0))
    return x


def _spread(g, x, d, inner, filler):
    """``inner`` fillers between the elements of a dimension."""
    n = x.shape[d]
    wide = g.unsqueeze(x, [d + 1])
    pads = [0] * (2 * wide.rank)
    pads[wide.rank + d + 1] = inner
    shape = [*x.shape[: d + 1], inner + 1, *x.shape[d + 1 :]]
    wide = g.op("Pad", wide, g.ints(pads), filler.name, shape=shape)
    joined = g.reshape(wide, [*x.shape[:d], n * (inner + 1), *x.shape[d + 1 :]])
    return g.slice(joined, d, 0, n * (inner + 1) - inner)


# --- reductions -----------------------------------------------------------------------

_REDUCTIONS = {"reduce_sum": "ReduceSum", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin",
               "reduce_prod": "ReduceProd", "reduce_or": "ReduceMax", "reduce_and": "ReduceMin"}


@rule(" ".join(_REDUCTIONS))
def _reduce(g, eqn, x):
    axes, kind = list(eqn.params["axes"]), _REDUCTIONS[eqn.primitive.name]
    if not axes:
        return x
    dtype = x.dtype
    x = g.cast(x, dtypes.int32) if dtype is dtypes.bool else x
    shape = eqn.outvars[0].aval.shape
    if kind == "ReduceSum" or g.opset >= 18:
        out = g.op(kind, x, g.ints(axes), shape=shape, keepdims=0)
    else:
        out = g.op(kind, x, shape=shape, axes=axes, keepdims=0)
    return g.cast(out, dtype)


@rule("argmax argmin")
def _arg(g, eqn, x):
    (axis,) = eqn.params["axes"]
    kind = "ArgMax" if eqn.primitive.name == "argmax" else "ArgMin"
    out = g.op(kind, x, shape=eqn.outvars[0].aval.shape, dtype=dtypes.int64, axis=axis, keepdims=0)
    return g.cast(out, dtype_of(eqn.outvars[0].aval))


def _log_add(g, x, y):
    top = g.op("Max", x, y)
    parts = [g.op("Exp", g.op("Sub", v, top)) for v in (x, y)]
    return g.op("Add", top, g.op("Log", g.op("Add", *parts)))


_CUMULATIVE = {"cumsum": "Add", "cumprod": "Mul", "cummax": "Max", "cummin": "Min",
               "cumlogsumexp": _log_add}


@rule(" ".join(_CUMULATIVE))
def _cumulative(g, eqn, x):
    axis, back, kind = eqn.params["axis"], eqn.params["reverse"], _CUMULATIVE[eqn.primitive.name]
    if kind == "Add" and x.dtype in (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64):
        return g.op("CumSum", x, g.array(np.int64(axis)), reverse=int(back))
    n, step = x.shape[axis], 1
    while step < n:  # each element with the one ``step`` before it
        near, rest = (0, n - step), (step, n)
        own, other, kept = (near, rest, rest) if back else (rest, near, near)
        kept = (n - step, n) if back else (0, step)
        parts = [g.slice(x, axis, *own), g.slice(x, axis, *other)]
        both = kind(g, *parts) if callable(kind) else g.op(kind, *parts)
        pieces = [both, g.slice(x, axis, *kept)]
        x = g.concat(pieces if back else pieces[::-1], axis)
        step *= 2
    return x


@rule("reduce_window_sum reduce_window_max reduce_window_min")
def _window(g, eqn, x):
    p = eqn.params
    if any(d != 1 for d in p["base_dilation"]):
        raise NoForm(eqn.primitive.name)
    kind = {"sum": "Add", "max": "Max", "min": "Min"}[eqn.primitive.name.rpartition("_")[2]]
    limits = np.finfo if x.dtype.is_floating_point else np.iinfo
    low, high = limits(x.dtype.numpy).min, limits(x.dtype.numpy).max
    filler = g.number({"Add": 0, "Max": low, "Min": high}[kind], x.dtype)
    shape = eqn.outvars[0].aval.shape
    pads = [a for a, _ in p["padding"]] + [b for _, b in p["padding"]]
    if any(pads):
        wide = [n + a + b for n, (a, b) in zip(x.shape, p["padding"])]
        x = g.op("Pad", x, g.ints(pads), filler.name, shape=wide)
    out = None
    for offset in itertools.product(*map(range, p["window_dimensions"])):
        part = x
        for d, o in enumerate(offset):
            start, step = o * p["window_dilation"][d], p["window_strides"][d]
            part = g.slice(part, d, start, start + (shape[d] - 1) * step + 1, step)
        out = part if out is None else g.op(kind, out, part)
    return out


# --- products -------------------------------------------------------------------------


@rule("dot_general")
def _dot_general(g, eqn, x, y):
    (left, right), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    a, b = [""] * x.rank, [""] * y.rank
    for i, j in [*zip(left_batch, right_batch), *zip(left, right)]:
        a[i] = b[j] = next(letters)
    a = [v or next(letters) for v in a]
    b = [v or next(letters) for v in b]
    out = [a[i] for i in left_batch]
    out += [v for i, v in enumerate(a) if i not in (*left, *left_batch)]
    out += [v for i, v in enumerate(b) if i not in (*right, *right_batch)]
    dtype = dtype_of(eqn.outvars[0].aval)
    text = f"{''.join(a)},{''.join(b)}->{''.join(out)}"
    return g.op("Einsum", g.cast(x, dtype), g.cast(y, dtype), equation=text)


# What says nothing of sizes.
_ANY_SIZE = {
    *_SAME, *_COMPARISONS, *_REDUCTIONS, "ne", "add_any", "max", "min", "and", "or", "xor", "not", "rem",
    "integer_pow", "square", "rsqrt", "cbrt", "exp2", "log1p", "expm1", "erfc", "is_finite", "atan2",
    "round", "shift_left", "shift_right_arithmetic", "select_n", "clamp", "convert_element_type",
    "copy", "copy_p", "stop_gradient", "reduce_precision", "broadcast_in_dim", "argmax", "argmin",
}

__all__ = ["NoForm", "RULES", "flat", "rule", "run", "value", "where"]
