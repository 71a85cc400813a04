"""ONNX forms of elementwise ops, comparisons, casts and creation."""

from __future__ import annotations

import math

import numpy as np

from ..eager.core import dtype as dtypes
from ._builder import Value
from ._table import SIMPLE, translation

SIMPLE.update(
    {
        "abs": "Abs",
        "acos": "Acos",
        "acosh": "Acosh",
        "asin": "Asin",
        "asinh": "Asinh",
        "atan": "Atan",
        "atanh": "Atanh",
        "ceil": "Ceil",
        "cos": "Cos",
        "cosh": "Cosh",
        "det": "Det",
        "linalg_det": "Det",
        "erf": "Erf",
        "exp": "Exp",
        "floor": "Floor",
        "hardswish": "HardSwish",
        "log": "Log",
        "logical_not": "Not",
        "neg": "Neg",
        "reciprocal": "Reciprocal",
        "relu": "Relu",
        "selu": "Selu",
        "sigmoid": "Sigmoid",
        "sign": "Sign",
        "sin": "Sin",
        "sinh": "Sinh",
        "softsign": "Softsign",
        "sqrt": "Sqrt",
        "tan": "Tan",
        "tanh": "Tanh",
    }
)


@translation("round")
def _round(g, x, decimals=0):
    if not decimals:
        return g.op("Round", x)
    factor = g.number(10.0**decimals, x.dtype)
    return g.op("Div", g.op("Round", g.op("Mul", x, factor)), factor)


@translation("isnan isinf")
def _is_special(g, x):
    return g.op("IsNaN" if g.name == "isnan" else "IsInf", x, dtype=dtypes.bool)


@translation("rsqrt square log2 log10 log1p expm1 exp2 trunc frac")
def _of_others(g, x):
    x = g.cast(x, g.result.dtype)

    def n(v):
        return g.number(v, x.dtype)

    name = g.name
    if name == "rsqrt":
        return g.op("Reciprocal", g.op("Sqrt", x))
    if name == "square":
        return g.op("Mul", x, x)
    if name in ("log2", "log10"):
        return g.op("Mul", g.op("Log", x), n(1 / math.log(2 if name == "log2" else 10)))
    if name == "log1p":
        return g.op("Log", g.op("Add", x, n(1)))
    if name == "expm1":
        return g.op("Sub", g.op("Exp", x), n(1))
    if name == "exp2":
        return g.op("Pow", n(2), x, shape=x.shape)
    whole = g.op("Mul", g.op("Floor", g.op("Abs", x)), g.op("Sign", x))
    return whole if name == "trunc" else g.op("Sub", x, whole)


# --- activations


@translation("gelu")
def _gelu(g, x, approximate="none"):
    half, one = g.number(0.5, x.dtype), g.number(1, x.dtype)
    if approximate == "tanh":
        cube = g.op("Mul", g.op("Mul", x, x), x)
        inner = g.op("Add", x, g.op("Mul", cube, g.number(0.044715, x.dtype)))
        inner = g.op("Tanh", g.op("Mul", inner, g.number(math.sqrt(2 / math.pi), x.dtype)))
    else:
        inner = g.op("Erf", g.op("Mul", x, g.number(math.sqrt(0.5), x.dtype)))
    return g.op("Mul", g.op("Mul", x, half), g.op("Add", inner, one))


@translation("silu")
def _silu(g, x):
    return g.op("Mul", x, g.op("Sigmoid", x))


@translation("mish")
def _mish(g, x):
    return g.op("Mul", x, g.op("Tanh", g.op("Softplus", x)))


@translation("softplus")
def _softplus(g, x, beta=1, threshold=20):
    if beta == 1:
        return g.op("Softplus", x)
    scaled = g.op("Softplus", g.op("Mul", x, g.number(beta, x.dtype)))
    return g.op("Div", scaled, g.number(beta, x.dtype))


@translation("logsigmoid log_sigmoid")
def _log_sigmoid(g, x):
    return g.op("Neg", g.op("Softplus", g.op("Neg", x)))


@translation("elu")
def _elu(g, x, alpha=1, scale=1, input_scale=1):
    return g.op("Elu", x, alpha=float(alpha))


@translation("celu")
def _celu(g, x, alpha=1.0):
    return g.op("Celu", x, alpha=float(alpha))


@translation("leaky_relu")
def _leaky_relu(g, x, slope=0.01):
    return g.op("LeakyRelu", x, alpha=float(slope))


@translation("prelu _prelu_kernel")
def _prelu(g, x, weight):
    if weight.rank == 1 and x.rank > 2:
        weight = g.unsqueeze(weight, list(range(1, x.rank - 1)))
    return g.op("PRelu", x, weight)


@translation("hardsigmoid")
def _hardsigmoid(g, x):
    return g.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@translation("relu6")
def _relu6(g, x):
    return _clip(g, x, 0, 6)


@translation("hardtanh")
def _hardtanh(g, x, low=-1, high=1):
    return _clip(g, x, low, high)


@translation("glu")
def _glu(g, x, dim=-1):
    dim %= x.rank
    half = x.shape[dim] // 2
    gate = g.op("Sigmoid", g.slice(x, dim, half, 2 * half))
    return g.op("Mul", g.slice(x, dim, 0, half), gate)


@translation("tanhshrink")
def _tanhshrink(g, x):
    return g.op("Sub", x, g.op("Tanh", x))


@translation("hardshrink softshrink")
def _shrink(g, x, lambd=0.5):
    return g.op("Shrink", x, lambd=float(lambd), bias=0.0 if g.name == "hardshrink" else float(lambd))


@translation("threshold")
def _threshold(g, x, threshold, value):
    keep = g.op("Greater", x, g.number(threshold, x.dtype), dtype=dtypes.bool)
    return g.op("Where", keep, x, g.number(value, x.dtype), shape=x.shape, dtype=x.dtype)


# --- two operands


def _common(g, *values):
    """The values in the dtype that they are promoted to."""
    import ftorch as torch

    tensors = [v for v in values if isinstance(v, Value)]
    wide = [v for v in tensors if v.rank] or tensors
    dtype = wide[0].dtype
    for v in wide[1:]:
        dtype = torch.promote_types(dtype, v.dtype)
    for v in values:
        if isinstance(v, Value) and v.dtype.category > dtype.category:
            dtype = v.dtype
        if isinstance(v, float) and not dtype.is_floating_point:
            dtype = torch.get_default_dtype()
        if isinstance(v, int) and not isinstance(v, bool) and dtype is dtypes.bool:
            dtype = dtypes.int64
    return [g.cast(v, dtype) for v in values]


def _scaled(g, value, alpha):
    if alpha == 1:
        return value
    if isinstance(value, Value):
        return g.op("Mul", value, g.number(alpha, value.dtype))
    return value * alpha


@translation("add sub rsub")
def _add(g, x, y, alpha=1):
    if g.name == "rsub":
        x, y = y, x
        x, y = _common(g, x, y)
        return g.op("Sub", x, _scaled(g, y, alpha), shape=g.result.shape)
    x, y = _common(g, x, _scaled(g, y, alpha))
    if x.dtype is dtypes.bool:
        return g.op("Or", x, y, shape=g.result.shape)
    return g.op("Add" if g.name == "add" else "Sub", x, y, shape=g.result.shape)


@translation("mul")
def _mul(g, x, y):
    x, y = _common(g, x, y)
    return g.op("And" if x.dtype is dtypes.bool else "Mul", x, y, shape=g.result.shape)


@translation("div true_divide divide")
def _div(g, x, y, rounding_mode=None):
    if rounding_mode is None:
        x, y = g.cast(x, g.result.dtype), g.cast(y, g.result.dtype)
        return g.op("Div", x, y, shape=g.result.shape)
    x, y = _common(g, x, y)
    if x.dtype.is_floating_point:
        quotient = g.op("Div", x, y, shape=g.result.shape)
        if rounding_mode == "floor":
            return g.op("Floor", quotient)
        return g.op("Mul", g.op("Floor", g.op("Abs", quotient)), g.op("Sign", quotient))
    if rounding_mode == "trunc":
        return g.op("Div", x, y, shape=g.result.shape)
    return _floor_of_ints(g, x, y)


def _floor_of_ints(g, x, y):
    rest = g.op("Mod", x, y, shape=g.result.shape)  # has the divisor's sign
    return g.op("Div", g.op("Sub", x, rest, shape=g.result.shape), y)


@translation("floor_divide")
def _floor_divide(g, x, y):
    return _div(g, x, y, "floor")


@translation("remainder fmod")
def _remainder(g, x, y):
    x, y = _common(g, x, y)
    if g.name == "fmod" or not x.dtype.is_floating_point:
        return g.op("Mod", x, y, shape=g.result.shape, fmod=int(g.name == "fmod"))
    floor = g.op("Floor", g.op("Div", x, y, shape=g.result.shape))
    return g.op("Sub", x, g.op("Mul", floor, y), shape=g.result.shape)


@translation("copysign")
def _copysign(g, x, y):
    y = g.cast(y, g.result.dtype)
    size = g.op("Abs", g.cast(x, g.result.dtype))
    below = g.op("Less", y, g.number(0, y.dtype), dtype=dtypes.bool)
    return g.op("Where", below, g.op("Neg", size), size, shape=g.result.shape, dtype=size.dtype)


@translation("pow")
def _pow(g, x, y):
    x, y = _common(g, x, y)
    return g.op("Pow", x, y, shape=g.result.shape)


@translation("maximum minimum")
def _extreme(g, x, y):
    x, y = _common(g, x, y)
    return g.op("Max" if g.name == "maximum" else "Min", x, y, shape=g.result.shape)


_COMPARISONS = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
                "ge": "GreaterOrEqual"}


@translation("eq ne lt le gt ge")
def _compare(g, x, y):
    x, y = _common(g, x, y)
    kind = _COMPARISONS.get(g.name, "Equal")
    if x.dtype is dtypes.bool and g.name not in ("eq", "ne"):
        x, y = g.cast(x, dtypes.int32), g.cast(y, dtypes.int32)
    out = g.op(kind, x, y, shape=g.result.shape, dtype=dtypes.bool)
    return g.op("Not", out) if g.name == "ne" else out


_LOGICAL = {"and": "And", "or": "Or", "xor": "Xor"}


@translation("logical_and logical_or logical_xor")
def _logical(g, x, y):
    x, y = g.cast(x, dtypes.bool), g.cast(y, dtypes.bool)
    return g.op(_LOGICAL[g.name.removeprefix("logical_")], x, y, shape=g.result.shape)


@translation("bitwise_and bitwise_or bitwise_xor __and__ __or__ __xor__")
def _bitwise(g, x, y):
    x, y = _common(g, x, y)
    kind = _LOGICAL[g.name.removeprefix("bitwise_").strip("_")]
    if x.dtype is not dtypes.bool:
        kind = f"Bitwise{kind}"
    return g.op(kind, x, y, shape=g.result.shape)


@translation("bitwise_not")
def _bitwise_not(g, x):
    return g.op("Not" if x.dtype is dtypes.bool else "BitwiseNot", x)


@translation("lerp")
def _lerp(g, x, end, weight):
    x, end = _common(g, x, end)
    step = g.op("Mul", g.op("Sub", end, x, shape=g.result.shape), g.cast(weight, x.dtype),
                shape=g.result.shape)
    return g.op("Add", x, step, shape=g.result.shape)


@translation("addcmul addcdiv")
def _addc(g, x, a, b, value=1):
    kind = "Mul" if g.name == "addcmul" else "Div"
    both = g.op(kind, a, b, shape=g.result.shape)
    return g.op("Add", x, _scaled(g, both, value), shape=g.result.shape)


# --- choices


@translation("where")
def _where(g, condition, x, y):
    x, y = g.cast(x, g.result.dtype), g.cast(y, g.result.dtype)
    return g.op("Where", g.cast(condition, dtypes.bool), x, y, shape=g.result.shape, dtype=x.dtype)


@translation("masked_fill")
def _masked_fill(g, x, mask, value):
    value = g.cast(value, x.dtype)
    return g.op("Where", g.cast(mask, dtypes.bool), value, x, shape=g.result.shape, dtype=x.dtype)


def _clip(g, x, low, high):
    x = g.cast(x, g.result.dtype)
    if any(isinstance(v, Value) and v.rank for v in (low, high)):
        for kind, bound in (("Max", low), ("Min", high)):
            if bound is not None:
                x = g.op(kind, x, g.cast(bound, x.dtype), shape=g.result.shape)
        return x
    bounds = ["" if b is None else g.cast(b, x.dtype).name for b in (low, high)]
    return g.op("Clip", x, *bounds)


@translation("clamp clip")
def _clamp(g, x, low=None, high=None):
    return _clip(g, x, low, high)


@translation("clamp_min")
def _clamp_min(g, x, low):
    return _clip(g, x, low, None)


@translation("clamp_max")
def _clamp_max(g, x, high):
    return _clip(g, x, None, high)


@translation("nan_to_num")
def _nan_to_num(g, x, nan=None, posinf=None, neginf=None):
    limits = np.finfo(x.dtype.numpy)
    out = x
    for test, value in (
        (g.op("IsNaN", x, dtype=dtypes.bool), 0.0 if nan is None else nan),
        (g.op("IsInf", x, dtype=dtypes.bool, detect_negative=0),
         float(limits.max) if posinf is None else posinf),
        (g.op("IsInf", x, dtype=dtypes.bool, detect_positive=0),
         float(limits.min) if neginf is None else neginf),
    ):
        out = g.op("Where", test, g.number(value, x.dtype), out, shape=x.shape, dtype=x.dtype)
    return out


# --- copies, casts, creation


@translation("clone detach alias contiguous lift_fresh_copy lift_fresh positive view_as_real "
             "feature_dropout alpha_dropout _unsafe_view_copy")
def _same(g, x, *args, memory_format=None, **options):
    if "dropout" in g.name and args[-1]:
        raise g.error("has no ONNX form in training mode; call model.eval() first")
    return x


@translation("to _to_copy type_as copy")
def _to(g, x, *args, **options):
    if g.name == "copy":
        x = g.cast(args[0], x.dtype)
        if x.shape != tuple(g.result.shape):
            return g.op("Expand", x, g.result_sizes(), shape=g.result.shape)
        return x
    return g.cast(x, g.result.dtype)


def filled(g, value, sizes):
    if isinstance(value, Value):
        return g.op("Expand", g.cast(value, g.result.dtype), sizes, shape=g.result.shape)
    value = np.asarray(value).astype(g.result.dtype.numpy)
    if all(type(n) is int for n in g.result.shape) and math.prod(g.result.shape) <= 1:
        return Value(g.array(np.full(g.result.shape, value)), g.result.shape, g.result.dtype)
    scalar = Value(g.array(value), (), g.result.dtype)
    return g.op("Expand", scalar, sizes, shape=g.result.shape)


@translation("full_like zeros_like ones_like empty_like")
def _like(g, x, value=None, **options):
    value = {"zeros_like": 0, "ones_like": 1, "empty_like": 0}.get(g.name, value)
    return filled(g, value, g.shape_of(x))


@translation("full zeros ones empty scalar_tensor")
def _full(g, size, value=None, **options):
    if g.name == "scalar_tensor":
        size, value = [], size
    return filled(g, {"zeros": 0, "ones": 1, "empty": 0}.get(g.name, value), g.sizes(size))


@translation("new_full new_zeros new_ones new_empty")
def _new(g, x, size, value=None, **options):
    value = {"new_zeros": 0, "new_ones": 1, "new_empty": 0}.get(g.name, value)
    return filled(g, value, g.sizes(size))


@translation("arange")
def _arange(g, start, end=None, step=1, **options):
    if end is None:
        start, end = 0, start
    dtype = g.result.dtype
    if not any(isinstance(v, Value) for v in (start, end, step)):
        return Value(g.array(np.arange(start, end, step).astype(dtype.numpy)), g.result.shape, dtype)
    bounds = [g.cast(v, dtype) for v in (start, end, step)]
    return g.op("Range", *bounds, shape=g.result.shape, dtype=dtype)


@translation("eye")
def _eye(g, n, m=None, **options):
    return Value(g.array(np.eye(n, m).astype(g.result.dtype.numpy)), g.result.shape, g.result.dtype)
