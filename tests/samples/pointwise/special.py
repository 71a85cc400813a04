"""Samples of the special functions."""

from tests.samples import SAMPLES, S, T, register

INF, NAN = float("inf"), float("nan")
UNIT = {"low": 0.05, "high": 0.95}
POSITIVE = {"low": 0.3, "high": 4.0}
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, -2.0, INF, -INF, NAN]
_RANGES = {
    "erfinv": {"low": -0.9, "high": 0.9},
    "special_ndtri": UNIT,
    "lgamma": POSITIVE,
    "digamma": POSITIVE,
    "special_entr": POSITIVE,
    "logit": UNIT,
}

for name in (
    "erf",
    "erfc",
    "erfinv",
    "lgamma",
    "digamma",
    "i0",
    "logit",
    "special_i0e",
    "special_i1",
    "special_i1e",
    "special_entr",
    "special_ndtr",
    "special_ndtri",
    "special_log_ndtr",
    "special_erfcx",
):
    limits = _RANGES.get(name, {})
    register(
        name,
        S(T(2, 3, **limits)),
        S(T(dtype="float64", **limits)),
        S(T(0)),
        S(T(3, dtype="int64", low=1, high=3)),
        S(T(values=EDGES, grad=False)),
    )
register("digamma", S(T(6, low=-8.0, high=0.0)))
register("lgamma", S(T(6, low=-8.0, high=0.0)))
register("special_log_ndtr", S(T(8, low=-30.0, high=5.0)))
register("logit", S(T(4, low=-0.5, high=1.5), 0.1))
for n in range(4):
    register(
        "polygamma", S(n, T(2, 3, **POSITIVE)), S(n, T(6, low=-8.0, high=0.0, dtype="float64"))
    )
register("mvlgamma", S(T(2, 3, low=2.0, high=6.0), 3), S(T(3, dtype="int64", low=2, high=5), 1))
register(
    "xlogy.Tensor",
    S(T(2, 3), T(3, **POSITIVE)),
    S(T(values=[0.0, 0.0, 1.0]), T(values=[0.0, NAN, 2.0])),
    S(2, T(3, **POSITIVE)),
    S(T(3), 2.0),
)
register("special_xlog1py", S(T(2, 3), T(3, **POSITIVE)), S(T(3), 2.0))
register(
    "special_zeta",
    S(T(2, 3, low=1.5, high=4.0, grad=False), T(3, **POSITIVE)),
    S(3.0, T(values=[-1.5, -2.5, -7.3])),
    S(T(3, low=1.5, high=4.0, grad=False), 2),
)
for name in ("igamma", "igammac"):
    register(
        name,
        S(T(2, 3, grad=False, **POSITIVE), T(3, **POSITIVE)),
        S(T(values=[0.0, 1.0, INF], grad=False), T(values=[1.0, 0.0, 1.0], grad=False)),
    )

for name in (
    "special_bessel_j0",
    "special_bessel_j1",
    "special_airy_ai",
    "special_modified_bessel_i0",
    "special_modified_bessel_i1",
    "special_spherical_bessel_j0",
):
    register(name, S(T(20, low=-15.0, high=15.0, dtype="float32")), S(T(3, dtype="int64")), S(T(0)))
for name in (
    "special_bessel_y0",
    "special_bessel_y1",
    "special_modified_bessel_k0",
    "special_modified_bessel_k1",
    "special_scaled_modified_bessel_k0",
    "special_scaled_modified_bessel_k1",
):
    register(name, S(T(20, low=0.1, high=15.0)), S(T(values=[0.0, -1.0, NAN])), S(T(0)))
for kind in (
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
):
    register(
        f"special_{kind}",
        S(T(2, 5), T(5, dtype="int64", low=0, high=6)),
        S(T(4), 3),
        S(0.5, T(4, dtype="int64", low=0, high=6)),
        S(T(values=[1.0, -1.0, 0.0]), 9),
    )

for alias, name in {
    "special_gammaln": "lgamma",
    "special_psi": "digamma",
    "special_multigammaln": "mvlgamma",
    "special_gammainc": "igamma",
    "special_gammaincc": "igammac",
}.items():
    register(alias, *SAMPLES[name])
register("special_expit", S(T(2, 3)))
