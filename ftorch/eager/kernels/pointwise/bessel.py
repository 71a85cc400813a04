"""Bessel and Airy functions.

Their approximations are Chebyshev series that are computed, when first needed, from definitions
that are exact but slow: power series in rational arithmetic near 0, and far from it the integral

    h(z) = 1 / gamma(v + 1/2) * integral from 0 to infinity of e^-u u^(v-1/2) (1 + u/2z)^(v-1/2) du

which is what remains of K_v (real z) and of the Hankel function (imaginary z) without their
exponential. Airy's function is of order v = 1/3.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np

from ...core.registry import op
from .unary import require

_NEAR = 8.0  # J and Y: power series up to here
_K_NEAR = 2.0
_AIRY_NEAR = 2.0
_AIRY_ZETA = 2 / 3 * _AIRY_NEAR**1.5
_DEGREE = 28
_EULER = 0.57721566490153286061


# --- series --------------------------------------------------------------------------


def _fit(function):
    """Chebyshev coefficients of a function on [-1, 1]."""
    return np.polynomial.chebyshev.chebinterpolate(np.vectorize(function), _DEGREE).tolist()


def _chebyshev(coefficients, t):
    """The value of a Chebyshev series (Clenshaw's recurrence)."""
    last = before = jnp.zeros_like(t)
    for c in coefficients[:0:-1]:
        last, before = 2 * t * last - before + c, last
    return t * last - before + coefficients[0]


def _polynomial(coefficients, x):
    value = jnp.zeros_like(x)
    for c in reversed(coefficients):
        value = value * x + c
    return value


def _series(order, weight, z, sign):
    """Sum of ``weight(k) (sign z)^k / (k! (k + order)!)``, exact up to the last rounding."""
    z, total = sign * Fraction(z), Fraction(0)
    term = Fraction(1, math.factorial(order))
    for k in range(60):
        total += weight(k) * term
        term = term * z / ((k + 1) * (k + 1 + order))
    return float(total)


def _harmonic(k):
    return sum((Fraction(1, i) for i in range(1, k + 1)), Fraction(0))


def _near_weight(order):
    """``psi(k + 1) + psi(k + 1 + order)`` less Euler's constants: weights of Y's and K's series."""
    return functools.cache(lambda k: _harmonic(k) + _harmonic(k + order))


@functools.cache
def _near_j(order):
    """``J(x) / (x/2)^order`` over ``t = x^2 / 32 - 1``, up to `_NEAR`."""
    return _fit(lambda t: _series(order, lambda k: 1, (t + 1) * _NEAR**2 / 8, -1))


@functools.cache
def _near_y(order):
    """The part of Y that is a power series, in the same variable."""
    weight = _near_weight(order)
    return _fit(lambda t: _series(order, weight, (t + 1) * _NEAR**2 / 8, -1))


@functools.cache
def _near_k(order):
    """Power series coefficients in ``x^2 / 4`` of the part of K without logarithm."""
    weight = _near_weight(order)
    return [
        float(weight(k) / (math.factorial(k) * math.factorial(k + order))) for k in range(16)
    ]


_STEP = 1 / 64
_T = np.arange(-5, 5, _STEP)
_U = np.exp(_T - np.exp(-_T))  # the double exponential rule on (0, infinity)
_DU = _U * (1 + np.exp(-_T)) * _STEP


def _integral(order, z):
    """``h(z)``, as the module says; for z an array of real or imaginary numbers."""
    power = order - 0.5
    weights = np.exp(-_U) * _U**power * _DU / math.gamma(order + 0.5)
    return np.sum(weights * (1 + _U / (2 * z)) ** power).item()


@functools.cache
def _far_k(order, near):
    """``h(x)`` over ``t = 2 near / x - 1``."""
    return _fit(lambda t: _integral(order, 2 * near / (t + 1)) if t > -1 else 1.0)


@functools.cache
def _far_h(order, near):
    """``h(-ix).real`` and ``h(-ix).imag * x`` over ``t = 2 (near / x)^2 - 1``."""

    def part(take):
        def function(t):
            x = near / math.sqrt((t + 1) / 2)
            return take(_integral(order, -1j * x), x)

        return _fit(function)

    return part(lambda h, x: h.real), part(lambda h, x: h.imag * x)


# --- J and Y -------------------------------------------------------------------------


def _near_and_far(x, near):
    """(whether near, x where it is near, x where it is not)"""
    is_near = x <= near
    return is_near, jnp.where(is_near, x, 1), jnp.where(is_near, near, x)


def _hankel(order, x, near):
    """``h(-ix)`` as (real, imaginary)."""
    real, imaginary = _far_h(order, near)
    t = 2 * (near / x) ** 2 - 1
    return _chebyshev(real, t), _chebyshev(imaginary, t) / x


def _far_jy(order, x):
    """(J, Y) far from 0."""
    p, q = _hankel(order, x, _NEAR)
    angle = x - math.pi * (0.5 * order + 0.25)
    cos, sin, size = jnp.cos(angle), jnp.sin(angle), jnp.sqrt(2 / (math.pi * x))
    return size * (p * cos - q * sin), size * (p * sin + q * cos)


def _near_t(x):
    return 2 * (x / _NEAR) ** 2 - 1


def _bessel_j(order, x):
    size = jnp.abs(x)
    is_near, near, far = _near_and_far(size, _NEAR)
    value = jnp.where(
        is_near, _chebyshev(_near_j(order), _near_t(near)) * (near / 2) ** order,
        _far_jy(order, far)[0],
    )
    return value * jnp.sign(x) if order % 2 else value


def _bessel_y(order, x):
    is_near, near, far = _near_and_far(x, _NEAR)
    near = jnp.where(near > 0, near, 1)
    t, scale = _near_t(near), (near / 2) ** order
    j = _chebyshev(_near_j(order), t) * scale
    value = (2 / math.pi) * (jnp.log(near / 2) + _EULER) * j
    value -= _chebyshev(_near_y(order), t) * scale / math.pi
    if order == 1:
        value -= 2 / (math.pi * near)
    value = jnp.where(is_near, value, _far_jy(order, far)[1])
    return jnp.where(x == 0, -jnp.inf, jnp.where(x < 0, jnp.nan, value))


# --- K and Airy ----------------------------------------------------------------------


def _bessel_k(order, x, scaled):
    is_near, near, far = _near_and_far(x, _K_NEAR)
    near = jnp.where(near > 0, near, 1)
    z = near * near / 4
    i = jsp.i0(near) if order == 0 else jsp.i1(near)
    sign = -1 if order == 0 else 1
    value = sign * (jnp.log(near / 2) + _EULER) * i
    value -= sign * _polynomial(_near_k(order), z) * (near / 2) ** order / 2
    if order == 1:
        value += 1 / near
    if scaled:
        value *= jnp.exp(near)
    distant = _chebyshev(_far_k(order, _K_NEAR), 2 * _K_NEAR / far - 1) * jnp.sqrt(
        math.pi / (2 * far)
    )
    if not scaled:
        distant *= jnp.exp(-far)
    value = jnp.where(is_near, value, distant)
    return jnp.where(x == 0, jnp.inf, jnp.where(x < 0, jnp.nan, value))


@functools.cache
def _airy_series():
    """Coefficients in ``x^3`` of the two solutions of the Airy equation, with Ai's constants."""
    first = [1 / (3 ** (2 / 3) * math.gamma(2 / 3))]
    second = [-1 / (3 ** (1 / 3) * math.gamma(1 / 3))]
    for k in range(1, 16):
        first.append(first[-1] / ((3 * k) * (3 * k - 1)))
        second.append(second[-1] / ((3 * k) * (3 * k + 1)))
    return first, second


def _airy_ai(x):
    size = jnp.abs(x)
    is_near, near, far = _near_and_far(size, _AIRY_NEAR)
    near = jnp.where(is_near, x, 0)
    far = jnp.where(jnp.isinf(far), _AIRY_NEAR, far)
    first, second = _airy_series()
    cube = near * near * near
    value = _polynomial(first, cube) + near * _polynomial(second, cube)
    zeta = 2 / 3 * far * jnp.sqrt(far)
    root = 1 / (math.sqrt(math.pi) * jnp.sqrt(jnp.sqrt(far)))
    decay = _chebyshev(_far_k(1 / 3, _AIRY_ZETA), 2 * _AIRY_ZETA / zeta - 1)
    decay *= 0.5 * root * jnp.exp(-zeta)
    p, q = _hankel(1 / 3, zeta, _AIRY_ZETA)
    angle = zeta - math.pi / 4
    wave = root * (p * jnp.cos(angle) - q * jnp.sin(angle))
    value = jnp.where(is_near, value, jnp.where(x > 0, decay, wave))
    value = jnp.where(x > 103.892, 0, value)  # where PyTorch's ends
    return jnp.where(jnp.isinf(x), jnp.nan, value)


def _spherical_j0(x):
    small = jnp.abs(x) < 0.5
    squared = jnp.where(small, x * x, 0)
    series = _polynomial([(-1) ** k / math.factorial(2 * k + 1) for k in range(8)], squared)
    far = jnp.where(small | jnp.isinf(x), 1, x)
    return jnp.where(small, series, jnp.where(jnp.isinf(x), 0, jnp.sin(far) / far))


_FUNCTIONS = {
    "bessel_j0": lambda x: _bessel_j(0, x),
    "bessel_j1": lambda x: _bessel_j(1, x),
    "bessel_y0": lambda x: _bessel_y(0, x),
    "bessel_y1": lambda x: _bessel_y(1, x),
    "modified_bessel_i0": jsp.i0,
    "modified_bessel_i1": jsp.i1,
    "modified_bessel_k0": lambda x: _bessel_k(0, x, scaled=False),
    "modified_bessel_k1": lambda x: _bessel_k(1, x, scaled=False),
    "scaled_modified_bessel_k0": lambda x: _bessel_k(0, x, scaled=True),
    "scaled_modified_bessel_k1": lambda x: _bessel_k(1, x, scaled=True),
    "airy_ai": _airy_ai,
    "spherical_bessel_j0": _spherical_j0,
}


def _declare(name, function):
    # ATen calls the argument of some of them x; in Python it is always ``input``.
    @op(f"special_{name}(Tensor self) -> Tensor", promote="float", forms="function out",
        differentiable=False)
    def bessel(self):
        require(self, f"{name}_cpu", half=False)
        return function(self)


for _name, _function in _FUNCTIONS.items():
    _declare(_name, _function)
