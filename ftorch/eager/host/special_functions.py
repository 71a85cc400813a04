"""Rules of special functions: SciPy's, and the error function of float32."""

from __future__ import annotations

import numpy as np

from .pointwise import elementwise, in_float32
from .rules import MissingRule, is_narrow, rule

_asarray = np.asarray


def _special(name, primitive, change=None):
    """A primitive that SciPy has as ``name``, which is imported when it is first needed."""

    @rule(primitive)
    def _(params, inputs, outputs):
        from scipy import special

        function, dtype = getattr(special, name), outputs[0].dtype
        function = change(function) if change else function

        def run(*operands):
            return _asarray(function(*operands)).astype(dtype, copy=False)

        if is_narrow(dtype):
            run = in_float32(run, dtype)
        return elementwise(run, outputs)


def _in_double(function):
    """SciPy's loops of float32 are less exact than XLA's: computed in double precision."""
    return lambda *operands: function(*[x.astype(np.float64) for x in operands])


def _away_from_poles(function):
    """digamma and lgamma at minus infinity and the poles, as XLA gives them."""

    def run(x):
        x = x.astype(np.float64)
        found = function(x)
        return np.where((x <= 0) & (x == np.floor(x)), np.nan, found)

    return run


def _infinite_at_infinity(function):
    def run(x):
        x = x.astype(np.float64)
        return np.where(np.isinf(x), np.inf, function(x))

    return run


for _primitive, _name, _change in [
    ("erfc", "erfc", None), ("erf_inv", "erfinv", _in_double),
    ("lgamma", "gammaln", _infinite_at_infinity), ("digamma", "psi", _away_from_poles),
    ("bessel_i0e", "i0e", _in_double), ("bessel_i1e", "i1e", _in_double), ("zeta", "zeta", _in_double),
    ("igamma", "gammainc", _in_double), ("igammac", "gammaincc", _in_double),
    ("regularized_incomplete_beta", "betainc", _in_double),
]:
    _special(_name, _primitive, _change)


# The error function of float32 as x P(x^2) / Q(x^2), which differs from 1 by less than half a unit beyond the bound:
# the coefficients of XLA's and Eigen's approximation, highest powers first.
_ERF_BOUND = np.float32(3.832506856900711)
_ERF_P = [np.float32(c) for c in (
    0.00022905065861350646, 0.0034082910107109506, 0.050955695062380861, 0.18520832239976145, 1.128379143519084,
)]
_ERF_Q = [np.float32(c) for c in (
    -1.1791602954361697e-7, 0.000023547966471313185, 0.0010179625278914885, 0.014070470171167667,
    0.11098505178285362, 0.49746925110067538, 1.0,
)]
_ONE, _MINUS_ONE = np.float32(1), np.float32(-1)
_BLOCK = 1 << 14  # elements that stay in the second cache


def _polynomial(coefficients, x):
    found = np.multiply(x, coefficients[0])
    for c in coefficients[1:-1]:
        np.add(found, c, out=found)
        np.multiply(found, x, out=found)
    return np.add(found, coefficients[-1], out=found)


def erf32(x):
    """The error function of a float32 array, block by block."""
    found = np.empty(x.shape, np.float32)
    flat, out = x.reshape(-1), found.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        y = np.minimum(np.maximum(flat[start : start + _BLOCK], -_ERF_BOUND), _ERF_BOUND)
        square = np.square(y)
        np.multiply(y, _polynomial(_ERF_P, square), out=y)
        np.divide(y, _polynomial(_ERF_Q, square), out=y)
        np.minimum(np.maximum(y, _MINUS_ONE, out=y), _ONE, out=out[start : start + _BLOCK])
    return found


@rule("erf")
def _(params, inputs, outputs):
    dtype = inputs[0].dtype
    if dtype == np.float32:
        return erf32
    if is_narrow(dtype):
        return lambda x: erf32(x.astype(np.float32)).astype(dtype)
    from scipy.special import erf

    return elementwise(erf, outputs)


@rule("polygamma")
def _(params, inputs, outputs):
    from scipy import special

    dtype = outputs[0].dtype

    def polygamma(n, x):
        n, x = n.astype(np.float64), x.astype(np.float64)
        sign = np.where(np.fmod(n, 2) == 0, -1.0, 1.0)
        found = sign * special.gamma(n + 1) * special.zeta(n + 1, x)
        return np.where(n == 0, special.psi(x), found).astype(dtype)

    return elementwise(polygamma, outputs)


@rule("igamma_grad_a", "random_gamma_grad")
def _(params, inputs, outputs):
    raise MissingRule("no rule for derivatives by the order of the incomplete gamma function")
