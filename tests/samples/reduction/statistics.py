"""Samples of quantiles, histograms and covariance."""

from tests.samples import S, T, register

NAN = float("nan")
F, SPECIAL = T(3, 5), T(2, 3, values=[[1.0, NAN, 2.0], [3.0, 0.0, 1.0]], grad=False)
LEVELS = T(3, values=[0.1, 0.5, 1.0], grad=False)

for name in ("quantile", "nanquantile"):
    for interpolation in ("linear", "lower", "higher", "midpoint", "nearest"):
        given = {"interpolation": interpolation}
        register(f"{name}.scalar", S(F, 0.4, **given), S(SPECIAL, 0.3, 1, **given))
        register(name, S(F, LEVELS, **given), S(SPECIAL, LEVELS, 1, True, **given))
    register(f"{name}.scalar", S(T(), 0.5), S(T(5, dtype="float64"), 0, 0, True), S(F, 1.0, 0))
    register(name, S(F, T(values=0.5), 1), S(F, T(0), 1), S(F, LEVELS, None, True))

COUNTS = T(6, dtype="int64", low=0, high=5)
register(
    "bincount", S(COUNTS), S(COUNTS, T(6)), S(COUNTS, None, 9), S(T(0, dtype="int64"), None, 3),
    S(COUNTS, T(6, dtype="int64")), S(T(3, dtype="uint8", values=[0, 200, 3])),
)
register(
    "histc", S(F), S(F, 4), S(F, 4, -1, 1), S(F, 4, 0.5, 1.5), S(T(3, values=[1.0, 1.0, 1.0]), 4),
    S(T(0), 3), S(F, 3, 2, 2),
)
EDGES = T(4, values=[-2.0, 0.0, 0.5, 2.0], grad=False)
register(
    "histogram.bins_tensor", S(F, EDGES), S(F, EDGES, weight=T(3, 5)), S(F, EDGES, density=True)
)
register(
    "histogram.bin_ct", S(F, 4), S(F, 4, range=(-1.0, 1.0)), S(F, 3, weight=T(3, 5), density=True),
    S(T(0), 2), S(F, 2, range=(1.0, 1.0)),
)
POINTS = T(7, 2)
register(
    "_histogramdd", S(POINTS, [2, 3]), S(POINTS, [2, 2], [-1.0, 1.0, -2.0, 2.0]),
    S(POINTS, [2, 3], weight=T(7), density=True),
)
register("_histogramdd_from_bin_tensors", S(POINTS, [EDGES, EDGES]))

FREQUENCIES = T(5, dtype="int64", values=[1, 2, 0, 1, 3])
WEIGHTS = T(5, low=0.5, high=1.5, grad=False)
register(
    "cov", S(F), S(T(5)), S(T(3, 4, dtype="int64")), S(T(3, 4, dtype="complex64")),
    S(F, correction=0), S(F, fweights=FREQUENCIES), S(F, aweights=WEIGHTS),
    S(F, correction=2, fweights=FREQUENCIES, aweights=WEIGHTS),
)
register("corrcoef", S(F), S(T(5)), S(T(3, 4, dtype="int64")), S(T(2, 4, dtype="complex64")))
