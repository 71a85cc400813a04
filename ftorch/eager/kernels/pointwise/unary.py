"""Elementwise functions of one tensor: exponentials, trigonometry, rounding, signs, predicates.

Most ops are a row of a table: the function, then what PyTorch multiplies the gradient with. The
parameter that this factor names (``self`` or ``result``) is what PyTorch saves for it.
"""

from __future__ import annotations

import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.registry import op
from .._common import dtype_name, is_complex, is_floating, is_integral, up

FORMS = "function method inplace out"
QUERY = "function method out"


# --- how a table row becomes an op ---------------------------------------------------


def not_implemented(kernel: str, dtype) -> NotImplementedError:
    """PyTorch's error for a dtype that the kernel of that name does not take."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{dtype_name(dtype)}'")


def require(x, kernel: str, *, boolean=True, integer=True, half=True, complex=False) -> None:
    """Raises PyTorch's error unless the dtype is among those that a CPU kernel is compiled for."""
    refused = (
        (x.dtype == jnp.bool_ and not boolean)
        or (is_integral(x) and x.dtype != jnp.bool_ and not integer)
        or (is_floating(x) and x.dtype.itemsize < 4 and not half)
        or (is_complex(x) and not complex)
    )
    if refused:
        raise not_implemented(kernel, x.dtype)


def require_floating(x, kernel: str, complex=False) -> None:
    require(x, kernel, boolean=False, integer=False, complex=complex)


def times(grad, slope):
    """``grad * conj(slope)`` in the dtype of ``grad``."""
    slope = lax.conj(slope) if is_complex(slope) else slope
    return (up(grad) * slope).astype(grad.dtype)


def by_factor(factor):
    """The derivative ``grad * conj(factor)``; the factor's parameters say what it reads."""
    reads = tuple(inspect.signature(factor).parameters)
    if reads == ("self",):
        return lambda grad, *, self: times(grad, factor(up(self)))
    if reads == ("result",):
        return lambda grad, *, result: times(grad, factor(up(result)))
    return lambda grad, *, self, result: times(grad, factor(up(self), up(result)))


def keep(mask, grad):
    """``grad`` where the mask holds, else 0."""
    return jnp.where(mask, grad, jnp.zeros_like(grad))


def zero(grad):
    """The derivative of functions that are constant between their jumps."""
    return jnp.zeros_like(grad)


def no_derivative(name: str):
    """The derivative of an op that PyTorch has none for: an error when the backward pass runs."""

    def derivative(grad):
        raise RuntimeError(f"derivative for aten::{name} is not implemented")

    return derivative


def identity(grad):
    return grad


def widened(function):
    """``function`` computed in the precision of intermediate results, rounded once."""
    return lambda self: function(up(self)).astype(self.dtype)


def respell(definition, name: str, forms: str = "function out") -> None:
    """Declares an op again under another name, such as ``special_expit`` for ``sigmoid``."""
    schema = definition.schema
    text = str(schema).replace(schema.name, name, 1)
    twin = op(
        text, forms=forms, differentiable=definition.differentiable, promote=definition.promote,
        promoting=" ".join(definition.argument_names[i] for i in definition.promoting) or None,
        layout=definition.layout,
    )(definition.kernel)
    if definition.backward is not None:
        twin.derivative(definition.backward)


# --- functions with floating-point results -------------------------------------------


def _power_of_two(n, dtype):
    """``2.0 ** n`` for integers whose power is a normal number, exactly."""
    info = jnp.finfo(dtype)
    bits = (n + (1 - info.minexp)).astype(f"int{info.bits}") << info.nmant
    return lax.bitcast_convert_type(bits, dtype)


def _exp2(x):
    if is_complex(x):
        return jnp.exp(x * math.log(2.0))
    # XLA's exp2 misses the powers of two that everybody expects to be exact.
    whole = lax.stop_gradient(jnp.clip(jnp.round(x), -1200, 1200))
    n = jnp.nan_to_num(whole).astype(jnp.int32)
    if x.dtype.itemsize < 8:
        n = jnp.clip(n, -250, 250)
    half = n >> 1
    scaled = jnp.exp((x - n.astype(x.dtype)) * math.log(2.0)) * _power_of_two(half, x.dtype)
    return scaled * _power_of_two(n - half, x.dtype)


_TEN = np.array([float(f"1e{k}") for k in range(-323, 309)])


def _powers_of_ten(k):
    with np.errstate(over="ignore"):  # infinities in narrow dtypes
        table = jnp.asarray(_TEN.astype(k.dtype))
    return table[jnp.clip(jnp.nan_to_num(k) + 323, 0, 631).astype(jnp.int32)]


def _logarithm(base, power):
    """The logarithm to a base, exact at the base's integer powers."""

    def function(x):
        value = jnp.log(x)
        if is_complex(x):  # not divided as a complex number, which makes nan of infinities
            return lax.complex(value.real / math.log(base), value.imag / math.log(base))
        value = value / math.log(base)
        whole = jnp.round(value)
        error = jnp.where((power(whole) == x) & jnp.isfinite(value), whole - value, 0)
        return value + lax.stop_gradient(error)

    return function


def _sinc(x):
    at_zero = x == 0
    angle = math.pi * jnp.where(at_zero, jnp.ones_like(x), x)
    return jnp.where(at_zero, jnp.ones_like(x), jnp.sin(angle) / angle)


def _sinc_slope(self):
    at_zero = self * self * math.pi == 0  # of tiny numbers, too: the divisor is a square
    x = jnp.where(at_zero, jnp.ones_like(self), self)
    angle = math.pi * x
    slope = (angle * jnp.cos(angle) - jnp.sin(angle)) / (angle * x)
    return jnp.where(at_zero, jnp.zeros_like(x), slope)


def _log1p(x):
    if not is_complex(x):
        return jnp.log1p(x)
    re, im = x.real, x.imag
    is_near = lax.abs(x) < 0.5  # there the modulus of 1 + x is near one, whose logarithm loses what x says
    near = jnp.log1p(jnp.where(is_near, re * (re + 2) + im * im, jnp.zeros_like(re))) / 2
    return lax.complex(jnp.where(is_near, near, jnp.log(jnp.hypot(re + 1, im))), jnp.arctan2(im, re + 1))


def _acosh_slope(self):
    if is_complex(self):
        return lax.rsqrt(self - 1) * lax.rsqrt(self + 1)
    return lax.rsqrt(self * self - 1)


_LN2, _LN10 = math.log(2.0), math.log(10.0)

# name: (function, factor of the gradient, aliases)
_FLOAT = {
    "exp": (jnp.exp, lambda result: result, ""),
    "exp2": (_exp2, lambda result: result * _LN2, ""),
    "expm1": (jnp.expm1, lambda result: result + 1, ""),
    "log": (jnp.log, lambda self: 1 / self, ""),
    "log2": (_logarithm(2.0, _exp2), lambda self: 1 / (self * _LN2), ""),
    "log10": (_logarithm(10.0, _powers_of_ten), lambda self: 1 / (self * _LN10), ""),
    "log1p": (_log1p, lambda self: 1 / (self + 1), ""),
    "sqrt": (jnp.sqrt, lambda result: 1 / (2 * result), ""),
    "rsqrt": (lax.rsqrt, lambda result: -0.5 * result * result * result, ""),
    "reciprocal": (lambda x: 1 / x, lambda result: -result * result, ""),
    "sigmoid": (lax.logistic, lambda result: (1 - result) * result, ""),
    "sin": (jnp.sin, lambda self: jnp.cos(self), ""),
    "cos": (jnp.cos, lambda self: -jnp.sin(self), ""),
    "tan": (jnp.tan, lambda result: 1 + result * result, ""),
    "asin": (jnp.arcsin, lambda self: lax.rsqrt(1 - self * self), "arcsin"),
    "acos": (jnp.arccos, lambda self: -lax.rsqrt(1 - self * self), "arccos"),
    "atan": (jnp.arctan, lambda self: 1 / (self * self + 1), "arctan"),
    "sinh": (jnp.sinh, lambda self: jnp.cosh(self), ""),
    "cosh": (jnp.cosh, lambda self: jnp.sinh(self), ""),
    "tanh": (jnp.tanh, lambda result: 1 - result * result, ""),
    "asinh": (jnp.arcsinh, lambda self: lax.rsqrt(self * self + 1), "arcsinh"),
    "acosh": (jnp.arccosh, _acosh_slope, "arccosh"),
    "atanh": (jnp.arctanh, lambda self: 1 / (1 - self * self), "arctanh"),
    "sinc": (_sinc, _sinc_slope, ""),
}
_PUBLIC = {
    "sigmoid": ". nn.functional", "tanh": ". nn.functional", "exp2": ". special",
    "expm1": ". special", "log1p": ". special", "sinc": ". special",
}

for _name, (_function, _factor, _aliases) in _FLOAT.items():
    _definition = op(
        f"{_name}(Tensor self) -> Tensor", promote="float", forms=FORMS, aliases=_aliases,
        public=_PUBLIC.get(_name), layout="pointwise",
    )(widened(_function))
    _definition.derivative(by_factor(_factor))
    if _name == "sigmoid":
        respell(_definition, "special_expit")


def _angle_unit(name, scale):
    @op(f"{name}(Tensor self) -> Tensor", promote="float", forms=FORMS, layout="pointwise")
    def kernel(self):
        if is_complex(self):
            raise RuntimeError(f"{name} is not supported for complex tensors.")
        return (up(self) * scale).astype(self.dtype)

    kernel.derivative(lambda grad: times(grad, jnp.asarray(scale, up(grad).dtype)))


_angle_unit("deg2rad", math.pi / 180)
_angle_unit("rad2deg", 180 / math.pi)


# --- functions that keep the dtype ---------------------------------------------------


def _rounding(name, function, complex_error):
    """Floor and its kin: integers stay as they are, bool and complex are refused."""

    def kernel(self):
        if is_complex(self) and complex_error:
            raise NotImplementedError(complex_error)
        require(self, f"{name}_vml_cpu", boolean=False)
        return self if is_integral(self) else function(self)

    return kernel


for _name, _function in {"floor": jnp.floor, "ceil": jnp.ceil, "trunc": jnp.trunc}.items():
    op(
        f"{_name}(Tensor self) -> Tensor", forms=FORMS, layout="pointwise",
        aliases="fix" if _name == "trunc" else "",
    )(_rounding(_name, _function, f"{_name} is not supported for complex inputs")).derivative(
        zero
    )

_round = _rounding("round", jnp.round, None)


@op("round(Tensor self, *, int decimals=0) -> Tensor", forms=FORMS, layout="pointwise",
    public=". special")
def round(self, decimals):
    if decimals == 0:
        return _round(self)
    if self.dtype == np.bool_:
        raise NotImplementedError("\"round_cpu\" not implemented for 'Bool'")
    require(self, "round_cpu", integer=False)
    x, scale = up(self), 10.0 ** abs(decimals)
    rounded = jnp.round(x * scale) / scale if decimals > 0 else jnp.round(x / scale) * scale
    return rounded.astype(self.dtype)


round.derivative(zero)


@op("frac(Tensor self) -> Tensor", forms=FORMS, layout="pointwise")
def frac(self):
    require_floating(self, "frac_cpu")
    return self - jnp.trunc(self)


frac.derivative(identity)


@op("neg(Tensor self) -> Tensor", forms=FORMS, aliases="negative", dunder="neg",
    layout="pointwise")
def neg(self):
    if self.dtype == jnp.bool_:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )
    return -self


neg.derivative(lambda grad: -grad)


@op("square(Tensor self) -> Tensor", forms=FORMS, promote="common")
def square(self):
    x = self.astype(jnp.int64) if self.dtype == jnp.bool_ else self
    return x * x


square.derivative(by_factor(lambda self: 2 * self))


def sgn_of(x):
    """``x / |x|``, 0 at 0 (and at nan for real numbers)."""
    if is_complex(x):
        size = jnp.abs(x)
        at_zero = size == 0
        return jnp.where(at_zero, jnp.zeros_like(x), x / jnp.where(at_zero, 1, size))
    if x.dtype == jnp.bool_:
        return x
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


@jax.custom_jvp
def magnitude(x):
    """The absolute value, with derivative 0 at 0 (where JAX has 1)."""
    return jnp.abs(x)


@magnitude.defjvp
def _(primals, tangents):
    (x,), (dx,) = primals, tangents
    slope = sgn_of(x)
    change = (lax.conj(slope) * dx).real if is_complex(x) else slope * dx
    return magnitude(x), change


# In place it is a composite, which refuses complex numbers.
@op("abs(Tensor self) -> Tensor", forms=QUERY, aliases="absolute", dunder="abs",
    layout="pointwise")
def abs_(self):
    require(self, "abs_cpu", boolean=False, complex=True)
    return jnp.abs(self) if is_integral(self) else magnitude(self)


@abs_.derivative
def _(grad, *, self):
    return grad * sgn_of(self)


@op("sign(Tensor self) -> Tensor", forms=FORMS, layout="pointwise")
def sign(self):
    if is_complex(self):
        raise NotImplementedError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use "
            "torch.sgn instead."
        )
    return sgn_of(self)


sign.derivative(zero)


@op("sgn(Tensor self) -> Tensor", forms=FORMS, layout="pointwise")
def sgn(self):
    return sgn_of(self)


@sgn.derivative
def _(grad, *, self):
    if not is_complex(self):
        return jnp.zeros_like(grad)
    # Only what is perpendicular to the unit vector turns it.
    size, unit = jnp.abs(self), sgn_of(self)
    at_zero = size == 0
    turned = (grad - (lax.conj(grad) * unit) * unit) / (2 * jnp.where(at_zero, 1, size))
    return jnp.where(at_zero, jnp.zeros_like(grad), turned)


# The function and method are composites: they give a real tensor back as it is.
@op("conj_physical(Tensor self) -> Tensor", forms="inplace out", layout="pointwise")
def conj_physical(self):
    return lax.conj(self) if is_complex(self) else self


conj_physical.derivative(lambda grad: lax.conj(grad) if is_complex(grad) else grad)


@op("angle(Tensor self) -> Tensor", promote="float", forms="function method out",
    layout="pointwise")
def angle(self):
    if is_complex(self):
        return jnp.arctan2(self.imag, self.real)
    turned = jnp.where(self < 0, jnp.asarray(math.pi, self.dtype), jnp.zeros_like(self))
    return jnp.where(jnp.isnan(self), self, turned)


@angle.derivative
def _(grad, *, self):
    if not is_complex(self):
        return jnp.zeros_like(grad)
    squared = self.real * self.real + self.imag * self.imag
    at_zero = squared == 0
    scaled = grad / jnp.where(at_zero, 1, squared)
    slope = lax.complex(-self.imag * scaled, self.real * scaled)
    return jnp.where(at_zero, jnp.zeros_like(slope), slope)


@op("nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
    forms=FORMS, layout="preserve")
def nan_to_num(self, nan, posinf, neginf):
    if is_integral(self):
        return self
    if is_complex(self):
        parts = self.real, self.imag
        return lax.complex(*(nan_to_num(part, nan, posinf, neginf) for part in parts))
    info = jnp.finfo(self.dtype)
    low, high = info.min if neginf is None else neginf, info.max if posinf is None else posinf
    given = {math.nan: 0.0 if nan is None else nan, math.inf: high, -math.inf: low}
    nan, high, low = (jnp.asarray(v, self.dtype) for v in given.values())
    finite = jnp.where(self == math.inf, high, jnp.where(self == -math.inf, low, self))
    return jnp.where(jnp.isnan(self), nan, finite)


@nan_to_num.derivative
def _(grad, *, self):
    return jnp.where(jnp.isfinite(self), grad, jnp.zeros_like(grad))


@op("frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)", forms="function method out",
    layout="pointwise")
def frexp(self):
    if not is_floating(self):
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    mantissa, exponent = jnp.frexp(up(self))
    ordinary = jnp.isfinite(self)
    exponent = jnp.where(ordinary, exponent, 0).astype(jnp.int32)
    return jnp.where(ordinary, mantissa.astype(self.dtype), self), exponent


@frexp.derivative
def _(grad, *, result):
    return (up(grad[0]) * _exp2(-result[1].astype(up(grad[0]).dtype))).astype(grad[0].dtype)


@op("bitwise_not(Tensor self) -> Tensor", forms=FORMS, dunder="invert", layout="pointwise")
def bitwise_not(self):
    if not is_integral(self):
        raise not_implemented("bitwise_not_cpu", self.dtype)
    return ~self


# --- predicates ----------------------------------------------------------------------


def _refuse_complex(message, error=RuntimeError):
    def guard(function):
        def kernel(self):
            if is_complex(self):
                raise error(message)
            return function(self)

        return kernel

    return guard


def _no(x):
    return jnp.zeros(x.shape, jnp.bool_)


@_refuse_complex("signbit is not implemented for complex tensors.", NotImplementedError)
def _signbit(self):
    if self.dtype == jnp.bool_:
        return _no(self)
    return jnp.signbit(self) if is_floating(self) else self < 0


def _infinite(sign_, message):
    @_refuse_complex(message)
    def kernel(self):
        return _no(self) if is_integral(self) else self == sign_ * math.inf

    return kernel


# name: (kernel, forms)
_PREDICATES = {
    "isnan": (lambda self: _no(self) if is_integral(self) else jnp.isnan(self), "function method"),
    "isinf": (lambda self: _no(self) if is_integral(self) else jnp.isinf(self), "function method"),
    "isfinite": (lambda self: jnp.isfinite(self), "function method"),
    "isreal": (
        lambda self: self.imag == 0 if is_complex(self) else ~_no(self), "function method"
    ),
    "isposinf": (_infinite(1, "isposinf does not support complex inputs."), QUERY),
    "isneginf": (_infinite(-1, "isneginf does not support complex inputs."), QUERY),
    "signbit": (_signbit, QUERY),
    "logical_not": (lambda self: self == 0, FORMS),
}

for _name, (_function, _forms) in _PREDICATES.items():
    op(
        f"{_name}(Tensor self) -> Tensor", forms=_forms, differentiable=False, layout="pointwise"
    )(_function)
