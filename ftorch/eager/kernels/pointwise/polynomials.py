"""Orthogonal polynomials of ``torch.special``: Chebyshev, Hermite, Laguerre, Legendre."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from ...core.registry import op
from .unary import require


def _chebyshev_step(x, k, last, before):
    return 2 * x * last - before


def _hermite_limit(x):
    return 128 if x.dtype.itemsize == 4 else 512


# name: (value at degree 1, step from degrees k and k - 1 to k + 1)
_POLYNOMIALS = {
    "chebyshev_polynomial_t": (lambda x: x, _chebyshev_step),
    "chebyshev_polynomial_u": (lambda x: 2 * x, _chebyshev_step),
    "chebyshev_polynomial_v": (lambda x: 2 * x - 1, _chebyshev_step),
    "chebyshev_polynomial_w": (lambda x: 2 * x + 1, _chebyshev_step),
    "hermite_polynomial_h": (lambda x: 2 * x, lambda x, k, p, q: 2 * (x * p - k * q)),
    "hermite_polynomial_he": (lambda x: x, lambda x, k, p, q: x * p - k * q),
    "laguerre_polynomial_l": (
        lambda x: 1 - x, lambda x, k, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)
    ),
    "legendre_polynomial_p": (
        lambda x: x, lambda x, k, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)
    ),
}


def _by_recurrence(x, n, first, step):
    """The polynomials of degree n (an array), all climbing to the highest degree together."""
    degree = jnp.where(n != n, jnp.asarray(-1, n.dtype), n).astype(jnp.int64)  # NaN has none
    value = jnp.where(degree == 0, jnp.ones_like(x), first(x))

    def climb(k, state):
        value, last, before = state
        now = step(x, jnp.asarray(k, x.dtype), last, before)
        return jnp.where(degree == k + 1, now, value), now, last

    highest = jnp.max(degree, initial=0)
    value, _, _ = lax.fori_loop(1, highest, climb, (value, first(x), jnp.ones_like(x)))
    return jnp.where(degree < 0, 0, value)


def _declare_polynomial(name, first, step, kernel, argument):
    limited = name.startswith("hermite")

    @op(f"special_{name}(Tensor x, Tensor n) -> Tensor", promote="float", forms="function out",
        differentiable=False)
    def polynomial(x, n):
        require(x, kernel, half=False)
        x, n = jnp.broadcast_arrays(x, n)
        if not limited:
            return _by_recurrence(argument(x), n, first, step)
        too_high = n > _hermite_limit(x)
        value = _by_recurrence(argument(x), jnp.where(too_high, 0, n), first, step)
        return jnp.where(too_high, jnp.nan, value)


for _name, (_first, _step) in _POLYNOMIALS.items():
    _declare_polynomial(_name, _first, _step, f"{_name}_cpu", lambda x: x)
    if _name.startswith("chebyshev"):
        _shifted = f"shifted_{_name}"
        _declare_polynomial(_shifted, _first, _step, f"{_shifted}_cpu", lambda x: 2 * x - 1)
