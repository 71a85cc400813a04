"""Arithmetic of two tensors: sums, products, quotients, remainders, powers.

Arguments arrive cast to the common dtype and known to broadcast. A ``Scalar`` that the caller left
at its default arrives as None.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from ...core.registry import Shape, op
from .._common import (
    broadcast_shapes,
    default_float,
    is_complex,
    is_integral,
    opmath,
    refuse_bool_difference,
    up,
)
from .unary import FORMS, keep, no_derivative, not_implemented, require, require_floating, times

BOOL = np.dtype(bool)


# --- sums, products ------------------------------------------------------------------


_CATEGORIES = {bool: 0, int: 1, float: 2, complex: 3}


def _category(dtype):
    return _CATEGORIES[dtype] if isinstance(dtype, type) else dtype.category


def _check_alpha(self, other, alpha):
    if alpha is None:
        return
    result = max(_category(self), _category(other))
    if alpha is bool and result != 0:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if _category(alpha) >= 2 and result < 2:
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    if _category(alpha) == 3 and result != 3:
        raise RuntimeError(
            "For non-complex input tensors, argument alpha must not be a complex number."
        )


def _scaled(x, alpha):
    """``x * alpha`` in the precision of intermediate results; ``alpha`` itself has that of ``x``."""
    if alpha is None:
        return up(x)
    return up(x) * jnp.asarray(alpha).astype(x.dtype).astype(opmath(x.dtype))


def _refuse_bool_difference(self, other, alpha):
    is_bool = [d is bool or BOOL == getattr(d, "numpy", None) for d in (self, other)]
    refuse_bool_difference(*is_bool)
    _check_alpha(self, other, alpha)


@op("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", promote="common",
    forms=FORMS, dunder="add radd iadd")
def add(self, other, alpha):
    if alpha is None:
        return self + other
    return (up(self) + _scaled(other, alpha)).astype(self.dtype)


add.dtypes(_check_alpha)
add.fits("alpha")


@add.derivative
def _(grad, *, alpha):
    return grad, grad if alpha is None else times(grad, _scaled(jnp.ones((), grad.dtype), alpha))


@op("sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", promote="common",
    forms=FORMS, aliases="subtract", dunder="sub rsub isub")
def sub(self, other, alpha):
    if alpha is None:
        return self - other
    return (up(self) - _scaled(other, alpha)).astype(self.dtype)


sub.dtypes(_refuse_bool_difference)
sub.fits("alpha")


@sub.derivative
def _(grad, *, alpha):
    first, second = add.backward(grad, alpha=alpha)
    return first, -second


@op("rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", promote="common")
def rsub(self, other, alpha):
    return sub(other, self, alpha)


rsub.dtypes(_refuse_bool_difference)
rsub.fits("alpha")


@rsub.derivative
def _(grad, *, alpha):
    return sub.backward(grad, alpha=alpha)[::-1]


@op("mul.Tensor(Tensor self, Tensor other) -> Tensor", promote="common", forms=FORMS,
    aliases="multiply", dunder="mul rmul imul")
def mul(self, other):
    if other.dtype != self.dtype:  # see `wide`
        return (up(self) * other).astype(self.dtype)
    return self * other


mul.wide("other")


@mul.derivative
def _(grad, *, self, other):
    return times(grad, up(other)), times(grad, up(self))


# --- quotients -----------------------------------------------------------------------


def _quotient_slopes(grad, self, other):
    self, other = up(self), up(other)
    return times(grad, 1 / other), times(grad, -((self / other) / other))


def _quotient(x, y):
    """``x / y``, rounded once: with a divisor that it sees to be broadcast, XLA would multiply by the
    reciprocal, and 49 / 49 would not be 1."""
    shape = jnp.broadcast_shapes(x.shape, y.shape)
    return x / lax.optimization_barrier(jnp.broadcast_to(y, shape))


@op("div.Tensor(Tensor self, Tensor other) -> Tensor", promote="float", forms=FORMS,
    aliases="divide true_divide", dunder="truediv rtruediv itruediv")
def div(self, other):
    if other.dtype != self.dtype:  # see `wide`
        return _quotient(up(self), other).astype(self.dtype)
    return _quotient(self, other)


div.wide("other")


@div.derivative
def _(grad, *, self, other):
    return _quotient_slopes(grad, self, other)


def _nonzero_divisor(other):
    """Integer division by 0 is PyTorch's error where values are known; here it must not trap."""
    return jnp.where(other == 0, jnp.ones_like(other), other)


def _floor_quotient(self, other):
    require(self, "div_floor_cpu", boolean=False)
    if is_integral(self):
        return jnp.floor_divide(self, _nonzero_divisor(other))
    x, y = up(self), up(other)
    remainder = lax.rem(*jnp.broadcast_arrays(x, y))
    quotient = (x - remainder) / y
    quotient = jnp.where((remainder != 0) & ((y < 0) != (remainder < 0)), quotient - 1, quotient)
    whole = jnp.floor(quotient)
    whole = jnp.where(quotient - whole > 0.5, whole + 1, whole)
    whole = jnp.where(quotient == 0, jnp.copysign(jnp.zeros_like(whole), x / y), whole)
    return jnp.where(y == 0, x / y, whole).astype(self.dtype)


def _truncated_quotient(self, other):
    require(self, "div_trunc_cpu", boolean=False)
    if is_integral(self):
        return lax.div(*jnp.broadcast_arrays(self, _nonzero_divisor(other)))
    quotient = _quotient(up(self), up(other))
    if self.dtype == other.dtype == np.float16:  # PyTorch's loop rounds here, too
        quotient = quotient.astype(np.float16)
    return jnp.trunc(quotient).astype(self.dtype)


@op("div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", promote="common",
    forms=FORMS, aliases="divide")
def div_mode(self, other, rounding_mode):
    if rounding_mode is None:
        dtype = default_float() if is_integral(self) else self.dtype
        return div(self.astype(dtype), other if other.dtype == np.float32 else other.astype(dtype))
    if rounding_mode == "floor":
        return _floor_quotient(self, other)
    if rounding_mode == "trunc":
        return _truncated_quotient(self, other)
    raise RuntimeError(
        f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
        f"'{rounding_mode}'"
    )


@div_mode.derivative
def _(grad, *, self, other, rounding_mode):
    if rounding_mode is None:
        return _quotient_slopes(grad, self.astype(grad.dtype), other.astype(grad.dtype))
    return jnp.zeros_like(grad), jnp.zeros_like(grad)


@op("floor_divide(Tensor self, Tensor other) -> Tensor", promote="common", forms=FORMS,
    dunder="floordiv rfloordiv ifloordiv")
def floor_divide(self, other):
    return _floor_quotient(self, other)


floor_divide.derivative(no_derivative("floor_divide"))


def _remainder(name, kernel, quotient, **properties):
    @op(f"{name}.Tensor(Tensor self, Tensor other) -> Tensor", promote="common", forms=FORMS,
        **properties)
    def remainder(self, other):
        require(self, f"{name}_cpu", boolean=False)
        if is_integral(self):
            other = _nonzero_divisor(other)
        return kernel(*jnp.broadcast_arrays(up(self), up(other))).astype(self.dtype)

    @remainder.derivative
    def _(grad, *, self, other):
        return grad, -grad * quotient(self, other)

    return remainder


def _python_remainder(x, y):
    remainder = lax.rem(x, y)
    return jnp.where((remainder != 0) & ((y < 0) != (remainder < 0)), remainder + y, remainder)


remainder = _remainder("remainder", _python_remainder, _floor_quotient, dunder="mod rmod imod")
fmod = _remainder("fmod", lax.rem, _truncated_quotient)

div_mode.wide("other")
floor_divide.wide("other")

for _definition in (div_mode, floor_divide, remainder, fmod):

    @_definition.check(passes=lambda self, other: None if other is not None else [("other", 1, 128)])  # in any dtype
    def _(self: Shape, other):
        is_number = isinstance(self, (int, float, complex))
        whole = isinstance(self, int) if is_number else self.dtype.category <= 1 and 0 not in self.shape
        if not whole:
            return
        if isinstance(other, int) and not is_number and self.dtype.category == 1:
            other &= (1 << 8 * self.dtype.itemsize) - 1  # a number wraps into the tensor's dtype
        is_zero = not other if other.__class__ is int else np.asarray(other).dtype.kind in "biu" and not np.all(other)
        if is_zero:
            raise RuntimeError("ZeroDivisionError")


# --- powers --------------------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def pow_static(x, n: float):
    """``x ** n`` for the commonest n without a call of pow; other n work too."""
    if n == 0:
        return jnp.ones_like(x)
    if n == 1:
        return x
    if n == 2:
        return x * x
    if n == 3:
        return x * x * x
    if n == 0.5:
        return jnp.sqrt(x)
    if n == -0.5:
        return lax.rsqrt(x)
    if n == -1:
        return 1 / x
    if n == -2:
        return 1 / (x * x)
    return jnp.power(x, jnp.asarray(n, x.dtype))


@pow_static.defjvp
def _(n, primals, tangents):
    (x,), (t,) = primals, tangents
    return pow_static(x, n), t * (n * pow_static(x, n - 1)) if n else jnp.zeros_like(t)


_PRODUCTS = frozenset((0, 1, 2, 3, 0.5, -0.5, -1, -2))  # exponents that need no call of pow


@op("_pow_static(Tensor self, float exponent) -> Tensor", forms="", layout="pointwise")
def _pow_static(self, exponent):
    return pow_static(up(self), exponent).astype(self.dtype)


@_pow_static.derivative
def _(grad, *, self, exponent):
    if exponent == 0:
        return jnp.zeros_like(grad)
    return times(grad, exponent * pow_static(up(self), exponent - 1))


def _integer_power(x, n):
    """Wrapping power by squaring; a negative exponent leaves only 1 and -1."""
    one = jnp.ones_like(x)
    if np.dtype(x.dtype).kind == "u":
        return _power_by_squaring(x, n)
    odd_sign = jnp.where(n % 2 == 0, one, -one)
    inverse = jnp.where(x == 1, one, jnp.where(x == -1, odd_sign, jnp.zeros_like(x)))
    return jnp.where(n < 0, inverse, _power_by_squaring(x, jnp.where(n < 0, 0, n)))


def _power_by_squaring(x, n):
    """``x ** n`` for n of at least 0, of any size: `jnp.power` looks at six bits of it."""
    def step(state):
        product, square, rest = state
        return (
            jnp.where(rest & 1 == 1, product * square, product),
            square * square,
            lax.shift_right_logical(rest, jnp.ones_like(rest)),
        )

    return lax.while_loop(lambda state: jnp.any(state[2] != 0), step, (jnp.ones_like(x), x, n))[0]


@op("pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", promote="common", forms=FORMS,
    dunder="pow rpow ipow")
def pow(self, exponent):
    if self.dtype == BOOL:
        raise not_implemented("pow", self.dtype)
    if is_integral(self):
        return _integer_power(*jnp.broadcast_arrays(self, exponent))
    return jnp.power(up(self), up(exponent)).astype(self.dtype)


@pow.instead
def _(self, exponent):
    kind = exponent.__class__
    if (kind is float or kind is int or kind is bool) and exponent in _PRODUCTS:
        dtype = self.dtype
        if (dtype.category >= 2 and not dtype.stored) or (dtype.category == 0 and kind is bool):
            return "_pow_static", (self,), (float(exponent),)
    return None


pow.fits("exponent")


@pow.check
def _(self: Shape, exponent: Shape):
    # Only a number is refused: among the elements of a tensor, negative exponents are taken.
    if isinstance(exponent, int) and exponent < 0 and self.dtype.category < 2:
        raise RuntimeError("Integers to negative integer powers are not allowed.")


@jax.custom_jvp
def _power(x, n):
    """`jnp.power` whose derivatives of all orders are PyTorch's: that of ``x ** 0`` is zero, at zero, too."""
    return jnp.power(x, n)


@functools.partial(_power.defjvp, symbolic_zeros=True)
def _(primals, tangents):
    (x, n), given = primals, [not isinstance(t, SymbolicZero) for t in tangents]
    result = _power(x, n)
    slopes = (_base_slope if given[0] else None, functools.partial(_exponent_slope, result) if given[1] else None)
    parts = [t * slope(x, n) for t, slope in zip(tangents, slopes, strict=True) if slope is not None]
    return result, sum(parts[1:], parts[0]) if parts else jnp.zeros_like(result)


def _base_slope(x, n):
    slope = n * _power(x, n - 1)
    return jnp.where(n == 0, jnp.zeros_like(slope), slope)


def _exponent_slope(result, x, n):
    flat = (x == 0) & (n.real >= 0)
    slope = result * jnp.log(jnp.where(flat, jnp.ones_like(x), x))
    return jnp.where(flat, jnp.zeros_like(slope), slope)


def _pow_slopes(grad, self, exponent, result):
    self, exponent, result = up(self), up(exponent), up(result)
    return times(grad, _base_slope(self, exponent)), times(grad, _exponent_slope(result, self, exponent))


@pow.derivative
def _(grad, *, self, exponent, result):
    return _pow_slopes(grad, self, exponent, result)


def _float_power(schema, forms):
    @op(f"float_power.{schema} -> Tensor", forms=forms, layout="pointwise")
    def kernel(self, exponent):
        broadcast_shapes(jnp.shape(self), jnp.shape(exponent))
        dtype = jnp.complex128 if is_complex(self) or is_complex(exponent) else jnp.float64
        # A number is weakly typed: `jnp.asarray` would round it to float32.
        return jnp.power(*(lax.convert_element_type(x, dtype) for x in (self, exponent)))

    @kernel.derivative
    def _(grad, *, self, exponent, result):
        self, exponent = (lax.convert_element_type(x, result.dtype) for x in (self, exponent))
        slopes = _pow_slopes(grad, self, exponent, result)
        tensors = [part.startswith("Tensor") for part in schema.split("(")[1].split(", ")]
        return tuple(s for s, is_tensor in zip(slopes, tensors, strict=True) if is_tensor)


_float_power("Tensor_Tensor(Tensor self, Tensor exponent)", "function method out")
_float_power("Tensor_Scalar(Tensor self, Scalar exponent)", "function method out")
_float_power("Scalar(Scalar self, Tensor exponent)", "function out")


@op("ldexp.Tensor(Tensor self, Tensor other) -> Tensor", promote="float", forms=FORMS)
def ldexp(self, other):
    x, left = up(self), up(other)
    out, two = x, jnp.asarray(2, x.dtype)
    if is_complex(x) or is_complex(left):
        return (x * jnp.power(two, left)).astype(self.dtype)
    limit = 1000 if x.dtype == jnp.float64 else 100
    for _ in range(2):  # in steps that are no infinities themselves
        step = jnp.clip(left, -limit, limit)
        out, left = out * jnp.power(two, step), left - step
    out = out * jnp.power(two, left)
    return jnp.where(x == 0, x, out).astype(self.dtype)


# --- functions with floating-point results -------------------------------------------


@op("hypot(Tensor self, Tensor other) -> Tensor", promote="common", forms=FORMS)
def hypot(self, other):
    require_floating(self, "hypot_cpu")
    return jnp.hypot(up(self), up(other)).astype(self.dtype)


@hypot.derivative
def _(grad, *, self, other, result):
    return times(grad, up(self) / up(result)), times(grad, up(other) / up(result))


@op("atan2(Tensor self, Tensor other) -> Tensor", promote="float", forms=FORMS,
    aliases="arctan2")
def atan2(self, other):
    require(self, "atan2_cpu")
    return jnp.arctan2(up(self), up(other)).astype(self.dtype)


@atan2.derivative
def _(grad, *, self, other):
    y, x = up(self), up(other)
    square = y * y + x * x
    inverse = jnp.where(square == 0, 0, 1 / square)
    return times(grad, x * inverse), times(grad, -y * inverse)


@op("copysign.Tensor(Tensor self, Tensor other) -> Tensor", promote="float", forms=FORMS)
def copysign(self, other):
    require(self, "copysign_cpu")
    return jnp.copysign(self, other)


@copysign.derivative
def _(grad, *, self, result):
    at_zero = self == 0
    ratio = result / jnp.where(at_zero, jnp.ones_like(self), self)
    return keep(~at_zero, grad * ratio), jnp.zeros_like(grad)


@op("nextafter(Tensor self, Tensor other) -> Tensor", promote="common", forms=FORMS)
def nextafter(self, other):
    require_floating(self, "nextafter_cpu")
    return jnp.nextafter(self, other)


@nextafter.derivative
def _(grad, *, self, other):
    return keep(self != other, grad), jnp.zeros_like(grad)


def _log_sum(name, function, slope, complex):
    @op(f"{name}(Tensor self, Tensor other) -> Tensor", promote="common",
        forms="function method out")
    def kernel(self, other):
        require_floating(self, f"{name}_cpu", complex=complex)
        return function(up(self), up(other)).astype(self.dtype)

    @kernel.derivative
    def _(grad, *, self, other):
        gap = up(other) - up(self)
        return times(grad, slope(gap)), times(grad, slope(-gap))


def _logaddexp(x, y):
    if not is_complex(x):
        return jnp.logaddexp(x, y)
    # The imaginary part is not wrapped: the larger one's plus a correction.
    smaller = x.real < y.real
    low, high = jnp.where(smaller, x, y), jnp.where(smaller, y, x)
    return jnp.log1p(jnp.exp(low - high)) + high


_log_sum("logaddexp", _logaddexp, lambda gap: 1 / (1 + jnp.exp(gap)), complex=True)
_log_sum("logaddexp2", jnp.logaddexp2, lambda gap: 1 / (1 + jnp.exp2(gap)), complex=False)
