"""Special functions with derivatives: the families of erf, gamma, zeta and Bessel's I."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from jax import lax

from ...core.registry import OPS, op
from .._common import up
from .unary import FORMS, by_factor, keep, require, require_floating, respell, times

_SQRT_PI = math.sqrt(math.pi)


# --- the error function and its kin --------------------------------------------------


def _ndtr(x):
    return 0.5 * lax.erfc(-x * math.sqrt(0.5))


def _log_ndtr(x):
    low = x < -1
    tail = jnp.where(low, x, -1)
    body = jnp.where(low, -1, x)
    scaled = jnp.log(jsp.erfcx(-tail * math.sqrt(0.5)) / 2) - tail * tail / 2
    return jnp.where(low, scaled, jnp.log1p(-lax.erfc(body * math.sqrt(0.5)) / 2))


def _entr(x):
    positive = x > 0
    value = -x * jnp.log(jnp.where(positive, x, 1))
    value = jnp.where(x == 0, 0, jnp.where(positive, value, -jnp.inf))
    return jnp.where(jnp.isnan(x), x, value)


# --- gamma ---------------------------------------------------------------------------


_MOST_SHIFTS = 1 << 14


@jax.custom_jvp
def _zeta(x, q):
    """Hurwitz's zeta function. XLA's is only right to the right of 0: shift there first."""
    pole = ~(x <= 1) & (q <= 0) & (q == jnp.floor(q))
    start = jnp.where(pole | ~jnp.isfinite(q), 1, q)

    def left(state):
        i, a, _ = state
        return (i < _MOST_SHIFTS) & jnp.any(a < 1)

    def shift(state):
        i, a, total = state
        return i + 1, jnp.where(a < 1, a + 1, a), total + jnp.where(a < 1, jnp.power(a, -x), 0)

    _, a, total = lax.while_loop(left, shift, (0, start, jnp.zeros_like(start)))
    value = total + lax.zeta(x, jnp.where(jnp.isfinite(q), a, q))
    value = jnp.where((q == jnp.inf) & (x > 1), jnp.nan, value)  # as PyTorch's series, which begins with 0 times inf
    return jnp.where(pole | (x == jnp.inf) & (q > 0) & (q < 1), jnp.inf, value)


@_zeta.defjvp
def _(primals, tangents):
    # Neither PyTorch nor JAX has a derivative with respect to x.
    x, q = primals
    return _zeta(x, q), tangents[1] * -x * _zeta(x + 1, q)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _polygamma(n, x):
    if n == 0:
        return jnp.where(x == 0, jnp.copysign(jnp.inf, -x), lax.digamma(x))
    if n == 1:
        # Close to the poles on the left, reflecting is more accurate than shifting.
        left = x < 0.5
        shifted = jnp.where(left, 1 - x, x)
        right = jnp.where(jnp.isinf(shifted), 0, _zeta(jnp.full_like(x, 2), shifted))
        sine = jnp.sin(math.pi * jnp.where(left, x, 0.5))
        return jnp.where(left, math.pi**2 / (sine * sine) - right, right)
    sign = 1 if n % 2 else -1
    return sign * math.gamma(n + 1) * _zeta(jnp.full_like(x, n + 1), x)


@_polygamma.defjvp
def _(n, primals, tangents):
    (x,), (dx,) = primals, tangents
    return _polygamma(n, x), dx * _polygamma(n + 1, x)


def _digamma(x):
    return _polygamma(0, x)


# --- modified Bessel functions of the first kind -------------------------------------


def _scaled_i1_slope(self, result):
    far = jnp.abs(self) > jnp.finfo(self.dtype).eps
    x = jnp.where(far, self, 1)
    return jnp.where(far, lax.bessel_i0e(x) - result * (jnp.sign(x) + 1 / x), 0.5)


def _i1_slope(self, result):
    far = jnp.abs(self) > jnp.finfo(self.dtype).eps
    x = jnp.where(far, self, 1)
    return jnp.where(far, jsp.i0(x) - result / x, 0.5)


def _lgamma(x):
    """In double precision, since near 1 and 2 XLA's is off by some 5e-7."""
    return lax.lgamma(x.astype(np.float64)).astype(x.dtype)


# --- the table of functions of one tensor --------------------------------------------

# name: (function, factor of the gradient, name of PyTorch's CPU kernel)
_TABLE = {
    "erf": (lax.erf, lambda self: 2 / _SQRT_PI * jnp.exp(-self * self), "erf_vml_cpu"),
    "erfc": (lax.erfc, lambda self: -2 / _SQRT_PI * jnp.exp(-self * self), "erfc_vml_cpu"),
    "erfinv": (
        lax.erf_inv, lambda self: _SQRT_PI / 2 * jnp.exp(lax.erf_inv(self) ** 2), "erfinv_vml_cpu"
    ),
    "lgamma": (_lgamma, lambda self: _digamma(self), "lgamma_vml_cpu"),
    "digamma": (_digamma, lambda self: _polygamma(1, self), "digamma"),
    "i0": (jsp.i0, lambda self: jsp.i1(self), "i0_vml_cpu"),
    "special_i0e": (
        lax.bessel_i0e, lambda self, result: lax.bessel_i1e(self) - jnp.sign(self) * result,
        "i0e_cpu",
    ),
    "special_i1": (jsp.i1, _i1_slope, "i1_cpu"),
    "special_i1e": (lax.bessel_i1e, _scaled_i1_slope, "i1e_cpu"),
    "special_entr": (_entr, lambda self: -(1 + jnp.log(self)), "entr_cpu"),
    "special_ndtr": (
        _ndtr, lambda self: jnp.exp(-self * self / 2) / math.sqrt(2 * math.pi), "erf_vml_cpu"
    ),
    "special_ndtri": (
        jsp.ndtri, lambda result: math.sqrt(2 * math.pi) * jnp.exp(result * result / 2),
        "ndtri_cpu",
    ),
    "special_log_ndtr": (
        _log_ndtr, lambda self: math.sqrt(2 / math.pi) / jsp.erfcx(-self * math.sqrt(0.5)),
        "log_ndtr_cpu",
    ),
    "special_erfcx": (
        jsp.erfcx, lambda self, result: 2 * self * result - 2 / _SQRT_PI, "erfcx_cpu"
    ),
}
_NO_HALF = ("special_ndtri", "special_log_ndtr", "special_erfcx")
_BOTH_NAMESPACES = ("erf", "erfc", "erfinv", "digamma", "i0")


def _unary(name, function, factor, kernel):
    special = name.startswith("special_")

    @op(f"{name}(Tensor self) -> Tensor", promote="float",
        forms="function out" if special else FORMS,
        public=". special" if name in _BOTH_NAMESPACES else None)
    def unary(self):
        require(self, kernel, half=name not in _NO_HALF)
        return function(up(self)).astype(self.dtype)

    unary.derivative(by_factor(factor))


for _name, _row in _TABLE.items():
    _unary(_name, *_row)


# --- with static parameters ----------------------------------------------------------


@op("logit(Tensor self, float? eps=None) -> Tensor", promote="float", forms=FORMS,
    public=". special")
def logit(self, eps):
    require(self, "logit_cpu")
    x = up(self)
    if eps is not None:
        x = jnp.minimum(jnp.maximum(x, eps), 1 - eps)
    return jnp.log(x / (1 - x)).astype(self.dtype)


@logit.derivative
def _(grad, *, self, eps):
    x = up(self)
    slope = 1 / (x * (1 - x))
    if eps is None:
        return times(grad, jnp.where((x < 0) | (x > 1), jnp.nan, slope))
    return keep((x >= eps) & (x <= 1 - eps), times(grad, slope))


@op("polygamma(int n, Tensor self) -> Tensor", promote="float", forms="function out",
    public=". special")
def polygamma(n, self):
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    require(self, "digamma" if n == 0 else "polygamma" if n > 1 else "trigamma")
    return _polygamma(n, up(self)).astype(self.dtype)


@polygamma.derivative
def _(grad, *, n, self):
    return times(grad, _polygamma(n + 1, up(self)))


@op("mvlgamma(Tensor self, int p) -> Tensor", promote="float", forms=FORMS)
def mvlgamma(self, p):
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    require(self, "lgamma_vml_cpu")
    x = up(self)
    total = sum(lax.lgamma(x - j / 2) for j in range(p))
    return (total + p * (p - 1) / 4 * math.log(math.pi)).astype(self.dtype)


@mvlgamma.dtypes
def _(self):
    if self.name == "bool":
        raise RuntimeError("The input tensor may not be a boolean tensor.")
    if self.is_complex:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{self.scalar_name}'")


@mvlgamma.derivative
def _(grad, *, self, p):
    x = up(self)
    return times(grad, sum(_digamma(x - j / 2) for j in range(p)))


# --- functions of two tensors --------------------------------------------------------


def _x_log(name, logarithm, slope, edge, **properties):
    """``self * log(other)``: 0 where ``self`` is 0, whatever the logarithm is."""

    @op(f"{name}(Tensor self, Tensor other) -> Tensor", promote="float", **properties)
    def x_log(self, other):
        require(self, f"{name.removeprefix('special_')}_cpu")
        x, y = up(self), up(other)
        # Half precision rounds the logarithm, too, as PyTorch's loop does.
        value = jnp.where(x == 0, jnp.zeros_like(x), x * up(logarithm(y).astype(self.dtype)))
        return jnp.where(jnp.isnan(y), y, value).astype(self.dtype)

    name = name.split(".")[0]

    @x_log.derivative
    def _(grad, *, self, other):
        x, y, g = up(self), up(other), up(grad)
        to_x = jnp.where((x == 0) & (y <= edge), 0, g * logarithm(y))
        return to_x.astype(grad.dtype), (g * x * slope(y)).astype(grad.dtype)


_x_log("xlogy.Tensor", jnp.log, lambda y: 1 / y, 0, forms=FORMS, public=". special")
_x_log("special_xlog1py", jnp.log1p, lambda y: 1 / (y + 1), -1, forms="function out")


def _missing(what):
    raise NotImplementedError(f"the derivative for '{what}' is not implemented.")


@op("special_zeta(Tensor self, Tensor other) -> Tensor", promote="float", forms="function out")
def zeta(self, other):
    require(self, "zeta_cpu", half=False)
    return _zeta(*jnp.broadcast_arrays(self, other))


@zeta.derivative
def _(grad, *, self, other, needs):
    if needs[0]:
        _missing("zeta")
    return None, times(grad, -self * _zeta(*jnp.broadcast_arrays(self + 1, other)))


def _incomplete_gamma(name, function, at_infinity, sign):
    @op(f"{name}(Tensor self, Tensor other) -> Tensor", promote="common", forms=FORMS)
    def incomplete(self, other):
        require_floating(self, f"{name}_cpu")
        a, x = jnp.broadcast_arrays(up(self), up(other))
        legal = (a >= 0) & (x >= 0) & ~(jnp.isinf(a) & jnp.isinf(x)) & ~((a == 0) & (x == 0))
        # At the edges all of the distribution, or nothing, lies below x.
        below = (a == 0) | jnp.isinf(x)
        edge = below | (x == 0) | jnp.isinf(a)
        inner = legal & ~edge
        value = function(jnp.where(inner, a, 1), jnp.where(inner, x, 1))
        value = jnp.where(edge, jnp.where(below, 1 - at_infinity, at_infinity), value)
        return jnp.where(legal, value, jnp.nan).astype(self.dtype)

    @incomplete.derivative
    def _(grad, *, self, other, needs):
        if needs[0]:
            _missing(f"{name}: input")
        a, x = up(self), up(other)
        return None, times(grad, sign * jnp.exp((a - 1) * jnp.log(x) - x - lax.lgamma(a)))


_incomplete_gamma("igamma", lax.igamma, 0, 1)
_incomplete_gamma("igammac", lax.igammac, 1, -1)


# --- other names ---------------------------------------------------------------------

for _name, _alias in {
    "lgamma": "special_gammaln", "digamma": "special_psi", "mvlgamma": "special_multigammaln",
    "igamma": "special_gammainc", "igammac": "special_gammaincc",
}.items():
    respell(OPS[_name], _alias)
