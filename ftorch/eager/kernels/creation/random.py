"""How random samples depend on their parameters: not at all, or at a fixed quantile (gamma, beta)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import digamma

from ...core.registry import op
from .._common import up


def _gradient(alpha, sample):
    return lax.random_gamma_grad(up(alpha), up(sample)).astype(sample.dtype)


@op("_standard_gamma_grad(Tensor self, Tensor output) -> Tensor", differentiable=False)
def _standard_gamma_grad(self, output):
    """How a gamma sample moves with its concentration, at the same quantile."""
    return _gradient(self, output)


@op("_gamma_sample(Tensor self, Tensor sample) -> Tensor")
def _gamma_sample(self, sample):
    """A drawn sample, as a differentiable function of the concentration it was drawn with."""
    return sample


@_gamma_sample.derivative
def _(grad, self, *, result):
    return grad * _gradient(self, result), None


@op("_sampled(Tensor sample, Tensor parameter, Tensor? other=None) -> Tensor")
def _sampled(sample, parameter, other=None):
    """A drawn sample, in the graph of the parameters it was drawn with: their gradients are zero."""
    return sample


@_sampled.derivative
def _(grad, parameter, other):
    return None, jnp.zeros_like(parameter), None if other is None else jnp.zeros_like(other)


def _beta_fraction(p, q, y, slopes):
    """The continued fraction of the incomplete beta function, and its slope as (p, q) move.

    I_y(p, q) = y^p (1 - y)^q / (p B(p, q)) times it. Lentz's algorithm, until both have converged.
    """
    tiny = 1e-30

    def away(x):
        return jnp.where(jnp.abs(x) < tiny, tiny, x)

    def lentz(term, state):
        value, c, d = state
        d = 1 / away(1 + term * d)
        c = away(1 + term / c)
        return value * c * d, c, d

    def double_step(m, p, q, state):
        even = m * (q - m) * y / ((p + 2 * m - 1) * (p + 2 * m))
        odd = -(p + m) * (p + q + m) * y / ((p + 2 * m) * (p + 2 * m + 1))
        return lentz(odd, lentz(even, state))

    def start(p, q):
        d = 1 / away(1 - (p + q) * y / (p + 1))
        return d, jnp.ones_like(d), d

    def unfinished(carry):
        m, _, _, change = carry
        return (m < 20_000) & (change > 1e-12)

    def body(carry):
        m, state, slope, _ = carry
        new, new_slope = jax.jvp(
            lambda p, q, state: double_step(m, p, q, state), (p, q, state), (*slopes, slope)
        )
        moved = jnp.abs(new[0] - state[0]) / (1 + jnp.abs(new[0])) + jnp.abs(
            new_slope[0] - slope[0]
        ) / (1 + jnp.abs(new_slope[0]))
        # NaN compares false: what cannot converge ends the loop too.
        return m + 1, new, new_slope, jnp.max(moved, initial=0.0)

    state, slope = jax.jvp(start, (p, q), slopes)
    carry = (jnp.ones((), p.dtype), state, slope, jnp.full((), jnp.inf, p.dtype))
    _, state, slope, _ = lax.while_loop(unfinished, body, carry)
    return state[0], slope[0]


@op("_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor", differentiable=False)
def _dirichlet_grad(x, alpha, total):
    """How an element of a Dirichlet sample moves with its own concentration, over what it leaves.

    The element is a beta variable of (alpha, total - alpha): at a fixed quantile it moves by
    -(dI/dalpha) / density, I the incomplete beta function. Exact to rounding, where PyTorch has an
    approximation to three digits.
    """
    dtype = x.dtype
    x, alpha, total = (v.astype(jnp.float64) for v in (x, alpha, total))
    beta = total - alpha
    # The fraction converges fast for y below the mean; beyond it I_x(a, b) = 1 - I_(1-x)(b, a).
    below = x < (alpha + 1) / (total + 2)
    p, q = jnp.where(below, alpha, beta), jnp.where(below, beta, alpha)
    y = jnp.where(below, x, 1 - x)
    along_p = below.astype(x.dtype)
    fraction, slope = _beta_fraction(p, q, y, (along_p, 1 - along_p))
    log_slope = jnp.log(x) - digamma(alpha) + digamma(total) - jnp.where(below, 1 / alpha, 0.0)
    sign = jnp.where(below, -1.0, 1.0)
    return (sign * x / p * (fraction * log_slope + slope)).astype(dtype)
