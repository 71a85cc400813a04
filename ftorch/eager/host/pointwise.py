"""Rules of elementwise primitives: arithmetic, comparisons, bits, elementary functions.

Where a rule is one of NumPy's functions, that function itself is what runs.
"""

from __future__ import annotations

import numpy as np

from .rules import IN_PLACE, MissingRule, is_extended, is_integer, is_narrow, rule

_asarray = np.asarray


def elementwise(run, outputs):
    """``run`` as a step: NumPy's functions give scalars, not arrays, for arrays without dimensions."""
    if outputs[0].ndim:
        return run
    return lambda *operands: _asarray(run(*operands))


def _declare(run, *names):
    """Primitives that are ``run`` for every dtype that they take."""

    @rule(*names)
    def _(params, inputs, outputs):
        return elementwise(run, outputs)


for _names, _run in {
    "add add_any": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "neg": np.negative, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "not": np.invert, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "atan2": np.arctan2, "nextafter": np.nextafter,
    "floor": np.floor, "ceil": np.ceil, "is_finite": np.isfinite, "abs": np.abs,
    "shift_left": np.left_shift, "square": np.square, "cbrt": np.cbrt,
}.items():
    _declare(_run, *_names.split())


def _one_minus_square(x, out=None):
    """What newer versions of JAX have in the derivative of `tanh`; they compute it so."""
    one = x.dtype.type(1)
    return np.multiply(one + x, one - x, out=out)


_declare(_one_minus_square, "one_minus_square")


def in_float32(run, dtype):
    """``run``, of one result or a tuple of them, for floats of less than 32 bits: computed in float32, rounded once."""

    def widened(*operands):
        found = run(*[x.astype(np.float32) for x in operands])
        return tuple([y.astype(dtype) for y in found]) if found.__class__ is tuple else found.astype(dtype)

    return widened


def _function(*names):
    """A function of floats and complex numbers, by a factory ``make(dtype)``; narrow floats are widened."""

    def register(make):
        @rule(*names)
        def _(params, inputs, outputs):
            dtype = inputs[0].dtype
            run = make(np.dtype(np.float32)) if is_narrow(dtype) else make(dtype)
            if is_narrow(dtype):
                run = in_float32(run, outputs[0].dtype)
            return elementwise(run, outputs)

        return make

    return register


for _names, _run in {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log1p": np.log1p, "expm1": np.expm1, "sqrt": np.sqrt,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "tanh": np.tanh, "sinh": np.sinh, "cosh": np.cosh,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh,
}.items():
    _function(_names)(lambda dtype, _run=_run: _run)


@_function("logistic")
def _(dtype):
    one = dtype.type(1)

    def logistic(x):
        y = np.exp(np.negative(x))
        if not y.ndim:
            return np.divide(one, y + one)
        np.add(y, one, y)
        return np.divide(one, y, y)

    return logistic


@_function("rsqrt")
def _(dtype):
    one = dtype.type(1)
    return lambda x: np.divide(one, np.sqrt(x))


# --- arithmetic ------------------------------------------------------------------------


@rule("sign")
def _(params, inputs, outputs):
    if inputs[0].dtype.kind in "iuc":
        return elementwise(np.sign, outputs)

    # Of minus zero: minus zero.
    return elementwise(lambda x: np.copysign(np.sign(x), x), outputs)


def _truncated_division(dtype):
    signed = dtype.kind == "i"
    by_zero = dtype.type(-1) if signed else np.iinfo(dtype).max

    def divide(a, b):
        quotient = np.floor_divide(np.subtract(a, np.fmod(a, b)) if signed else a, b)
        if not (b.all() if b.ndim else b):
            quotient = np.where(np.equal(b, 0), by_zero, quotient)
        return quotient

    return divide


@rule("div")
def _(params, inputs, outputs):
    dtype = inputs[0].dtype
    return elementwise(_truncated_division(dtype) if is_integer(dtype) else np.divide, outputs)


@rule("rem")
def _(params, inputs, outputs):
    dtype = inputs[0].dtype
    if is_integer(dtype):

        def remainder(a, b):
            if b.all() if b.ndim else b:
                return np.fmod(a, b)
            zero = np.equal(b, 0)
            return np.where(zero, a, np.fmod(a, np.where(zero, dtype.type(1), b)))

        return elementwise(remainder, outputs)
    run = in_float32(np.fmod, dtype) if is_narrow(dtype) else np.fmod
    return elementwise(run, outputs)


@rule("mulhi")
def _(params, inputs, outputs):
    dtype = inputs[0].dtype
    bits = dtype.itemsize * 8
    if bits > 32:
        raise MissingRule("no rule for the primitive 'mulhi' of 64 bits on the host")
    wide = np.dtype(f"{dtype.kind}8")
    run = lambda a, b: ((a.astype(wide) * b.astype(wide)) >> bits).astype(dtype)  # noqa: E731
    return elementwise(run, outputs)


@rule("pow")
def _(params, inputs, outputs):
    base, exponent = (x.dtype for x in inputs)
    if is_integer(base):
        return elementwise(_integer_power(base), outputs)
    if is_narrow(base):
        return elementwise(in_float32(np.power, base), outputs)
    if base.kind == "c":
        return elementwise(lambda x, y: _complex_power(x, y).astype(base, copy=False), outputs)
    if exponent != base:
        return elementwise(lambda x, y: np.power(x, y.astype(base)), outputs)
    return elementwise(np.power, outputs)


def _integer_power(dtype):
    def power(x, y):
        found = np.power(x, np.maximum(y, 0))
        if dtype.kind == "i" and np.any(np.less(y, 0)):
            reciprocal = np.where(x == 1, 1, np.where(x == -1, np.where(y & 1, -1, 1), 0))
            found = np.where(np.less(y, 0), reciprocal.astype(dtype), found)
        return found

    return power


def _complex_power(x, y):
    wide = np.power(x.astype(np.complex128), y.astype(np.complex128))
    return np.where(np.equal(x, 0) & np.equal(y, 0), 1, wide)


@rule("integer_pow")
def _(params, inputs, outputs):
    exponent = params["y"]
    times, narrow = abs(exponent), inputs[0].dtype
    one = np.ones((), narrow)

    def power(x):  # in XLA's order of multiplications
        found, rest = None, times
        while rest:
            if rest & 1:
                found = x if found is None else np.multiply(found, x)
            rest >>= 1
            if rest:
                x = np.multiply(x, x)
        return np.divide(one, found) if exponent < 0 else found

    if exponent == 0:
        return lambda x: np.ones(x.shape, narrow)
    return elementwise(np.square if exponent == 2 else power, outputs)


@rule("clamp")
def _(params, inputs, outputs):
    return elementwise(lambda low, x, high: np.minimum(np.maximum(x, low), high), outputs)


@rule("round")
def _(params, inputs, outputs):
    if "EVEN" in getattr(params["rounding_method"], "name", str(params["rounding_method"])):
        return elementwise(np.rint, outputs)
    half = inputs[0].dtype.type(0.5)

    def away_from_zero(x):
        whole = np.trunc(x)
        up = np.copysign(np.greater_equal(np.abs(x - whole), half).astype(x.dtype), x)
        return np.where(np.isfinite(x), whole + up, x)

    return elementwise(away_from_zero, outputs)


# --- choices and comparisons -----------------------------------------------------------


@rule("select_n")
def _(params, inputs, outputs):
    which, *cases = inputs
    boolean, scalar, dtype = which.dtype == np.bool_, which.ndim == 0, cases[0].dtype
    if scalar:
        if not outputs[0].ndim:
            return lambda which, *cases: cases[int(which)]

        def chosen(which, *cases):
            found = cases[int(which)]
            if all(case.shape == found.shape for case in cases):
                return found
            return np.broadcast_to(found, np.broadcast_shapes(*[case.shape for case in cases]))

        return chosen
    if boolean and len(cases) == 2:
        if is_extended(dtype):
            bits = np.dtype(f"u{dtype.itemsize}")
            return lambda which, a, b: np.where(which, b.view(bits), a.view(bits)).view(dtype)
        return lambda which, a, b: np.where(which, b, a)
    if len(cases) == 1:
        return lambda which, only: np.broadcast_to(only, np.broadcast_shapes(which.shape, only.shape))

    def choose(which, *cases):
        found = cases[0]
        for i, case in enumerate(cases[1:], 1):
            found = np.where(np.equal(which, i), case, found)
        return found

    return choose


def _choose_in_place(params, inputs, outputs):
    if len(inputs) != 3 or inputs[0].dtype != np.bool_ or is_extended(inputs[1].dtype):
        return None
    return lambda which, x, other: np.copyto(x, other, where=which)


IN_PLACE["select_n"] = 1, _choose_in_place


def total_order(x):
    """Integers that are ordered as XLA's total order orders floats: by sign, NaN beyond infinity."""
    bits = np.dtype(f"i{x.dtype.itemsize}")
    whole = x.view(bits)
    return whole ^ ((whole >> (bits.itemsize * 8 - 1)) & np.iinfo(bits).max)


def _ordered(compare):
    def make(params, inputs, outputs):
        kind = inputs[0].dtype.kind
        if kind == "c":
            raise MissingRule("no rule for the total order of complex numbers on the host")
        if kind in "biu":
            return elementwise(compare, outputs)
        return elementwise(lambda a, b: compare(total_order(a), total_order(b)), outputs)

    return make


rule("lt_to")(_ordered(np.less))
rule("le_to")(_ordered(np.less_equal))
rule("eq_to")(_ordered(np.equal))


# --- bits ------------------------------------------------------------------------------


@rule("shift_right_arithmetic")
def _(params, inputs, outputs):
    dtype = inputs[0].dtype
    if dtype.kind == "i":
        return elementwise(np.right_shift, outputs)
    signed = np.dtype(f"i{dtype.itemsize}")
    run = lambda a, b: np.right_shift(a.view(signed), b.view(signed)).view(dtype)  # noqa: E731
    return elementwise(run, outputs)


@rule("shift_right_logical")
def _(params, inputs, outputs):
    dtype = inputs[0].dtype
    if dtype.kind == "u":
        return elementwise(np.right_shift, outputs)
    plain = np.dtype(f"u{dtype.itemsize}")
    run = lambda a, b: np.right_shift(a.view(plain), b.view(plain)).view(dtype)  # noqa: E731
    return elementwise(run, outputs)


@rule("population_count")
def _(params, inputs, outputs):
    dtype = inputs[0].dtype
    plain = np.dtype(f"u{dtype.itemsize}")
    return elementwise(lambda x: np.bitwise_count(x.view(plain)).astype(dtype), outputs)


@rule("clz")
def _(params, inputs, outputs):
    dtype = inputs[0].dtype
    width = dtype.itemsize * 8
    plain = np.dtype(f"u{dtype.itemsize}")

    def leading_zeros(x):
        filled = x.view(plain)
        for shift in (1, 2, 4, 8, 16, 32):
            if shift < width:
                filled = filled | (filled >> plain.type(shift))
        return (width - np.bitwise_count(filled).astype(np.int64)).astype(dtype)

    return elementwise(leading_zeros, outputs)


@rule("bitcast_convert_type")
def _(params, inputs, outputs):
    source, target = inputs[0].dtype, np.dtype(params["new_dtype"])
    if source.itemsize == target.itemsize:
        return lambda x: x.view(target)

    def reinterpret(x):
        if source.itemsize > target.itemsize:
            shape = (*x.shape, source.itemsize // target.itemsize)
        else:
            shape = x.shape[:-1]
        # ml_dtypes have no views of another width: these go by way of bytes.
        flat = np.ascontiguousarray(x).reshape(-1).view(np.uint8).view(target)
        return flat.reshape(shape)

    return reinterpret


@rule("reduce_precision")
def _(params, inputs, outputs):
    dtype = inputs[0].dtype
    exponent, mantissa = params["exponent_bits"], params["mantissa_bits"]
    layouts = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}
    own = layouts.get(dtype.name)
    if own is None:
        raise MissingRule(f"no rule for the primitive 'reduce_precision' of {dtype} on the host")
    if exponent >= own[0] and mantissa >= own[1]:
        return lambda x: x
    return elementwise(_reduced(dtype, own, exponent, mantissa), outputs)


def _reduced(dtype, own, exponent, mantissa):
    bits = np.dtype(f"u{dtype.itemsize}")
    number = bits.type
    sign = number(1 << (bits.itemsize * 8 - 1))
    infinite = number(((1 << own[0]) - 1) << own[1])
    drop = max(own[1] - mantissa, 0)
    bias, narrow_bias = (1 << (own[0] - 1)) - 1, (1 << (min(exponent, own[0]) - 1)) - 1
    largest = number((bias + narrow_bias) << own[1] | ((1 << own[1]) - 1))
    smallest = number((bias - narrow_bias + 1) << own[1])

    def reduced(x):
        whole = _asarray(x).view(bits)
        magnitude = whole & ~sign
        kept = magnitude
        if drop:  # to the nearest, ties to even
            odd = (magnitude >> number(drop)) & number(1)
            kept = (magnitude + number((1 << (drop - 1)) - 1) + odd) & ~number((1 << drop) - 1)
        if exponent < own[0]:
            kept = np.where(kept > largest, infinite, np.where(kept < smallest, number(0), kept))
        found = (kept | (whole & sign)).view(dtype)
        return np.where(np.isnan(x), x, found)

    return reduced


# --- complex numbers -------------------------------------------------------------------


@rule("real")
def _(params, inputs, outputs):
    return lambda x: x.real


@rule("imag")
def _(params, inputs, outputs):
    return lambda x: x.imag


@rule("conj")
def _(params, inputs, outputs):
    if inputs[0].dtype.kind == "c":
        return elementwise(np.conjugate, outputs)
    dtype = outputs[0].dtype
    return lambda x: x.astype(dtype)


@rule("complex")
def _(params, inputs, outputs):
    dtype = outputs[0].dtype

    def combine(real, imaginary):
        shape = real.shape
        if imaginary.shape != shape:  # either may be a number, or have dimensions of size 1
            shape = np.broadcast_shapes(shape, imaginary.shape)
        found = np.empty(shape, dtype)
        found.real, found.imag = real, imaginary
        return found

    return combine


# --- what changes no value -------------------------------------------------------------


@rule("copy", "copy_p", "stop_gradient", "reduce_replicated", "device_put_single")
def _(params, inputs, outputs):
    return lambda x: x


@rule("optimization_barrier")
def _(params, inputs, outputs):
    return lambda *operands: operands


@rule("device_put")
def _(params, inputs, outputs):
    return lambda *operands: operands


@rule("tie")
def _(params, inputs, outputs):
    return lambda after, x: x
