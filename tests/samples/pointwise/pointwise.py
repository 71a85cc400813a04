"""Samples of elementwise functions of one tensor."""

from tests.samples import S, T, register

UNIT = {"low": -0.95, "high": 0.95}
POSITIVE = {"low": 0.1, "high": 4.0}
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, float("inf"), -float("inf"), float("nan")]

_RANGES = {
    "log": POSITIVE,
    "log2": POSITIVE,
    "log10": POSITIVE,
    "sqrt": POSITIVE,
    "rsqrt": POSITIVE,
    "reciprocal": POSITIVE,
    "log1p": {"low": -0.9, "high": 3.0},
    "asin": UNIT,
    "acos": UNIT,
    "atanh": UNIT,
    "acosh": {"low": 1.1, "high": 4.0},
    "tan": UNIT,
}
_COMPLEX = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sigmoid",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "sinc",
]

for name in (*_COMPLEX, "deg2rad", "rad2deg"):
    limits = _RANGES.get(name, {})
    register(
        name,
        S(T(2, 3, **limits)),
        S(T(**limits)),
        S(T(0, 2)),
        S(T(4, dtype="bfloat16", **limits)),
        S(T(3, dtype="int64", low=1, high=4)),
        S(T(3, dtype="bool")),
        S(T(values=EDGES, grad=False)),
    )
    if name in _COMPLEX:
        register(name, S(T(2, 3, dtype="complex64")))

POWERS = [2.0**k for k in range(-20, 21)]
register("log2", S(T(values=POWERS)))
register("exp2", S(T(values=[float(k) for k in range(-20, 21)])))
register("log10", S(T(values=[10.0**k for k in range(-10, 11)])))

for name in ("floor", "ceil", "trunc", "round", "frac", "abs", "sign", "sgn", "neg", "square"):
    register(
        name,
        S(T(2, 3)),
        S(T()),
        S(T(0)),
        S(T(4, dtype="float16")),
        S(T(values=EDGES, grad=False)),
    )
    if name != "frac":
        register(name, S(T(3, dtype="int64")), S(T(3, dtype="uint8", low=0, high=5)))
register("round", S(T(5), decimals=1), S(T(5, low=-200, high=200), decimals=-2))
for name in ("abs", "sgn", "neg", "square", "angle", "conj_physical"):
    register(name, S(T(2, 3, dtype="complex64")), S(T(3)))
register("angle", S(T(3, dtype="int64")), S(T(values=EDGES, grad=False)))
register("sgn", S(T(values=[0j, 3 + 4j], dtype="complex64")))

register(
    "nan_to_num",
    S(T(values=EDGES)),
    S(T(values=EDGES), 1.0, 2.0, 3.0),
    S(T(3, dtype="int64")),
    S(T(values=EDGES, dtype="bfloat16"), nan=2.0),
)
register("frexp.Tensor", S(T(2, 3)), S(T(values=EDGES, grad=False)), S(T(3, dtype="float16")))
register("bitwise_not", S(T(3, dtype="int64")), S(T(3, dtype="bool")), S(T(3, dtype="uint8")))

for name in ("isnan", "isinf", "isfinite", "isreal", "isposinf", "isneginf", "signbit"):
    register(name, S(T(values=EDGES)), S(T(3, dtype="int64")), S(T(3, dtype="bool")))
register("logical_not", S(T(values=EDGES)), S(T(3, dtype="int64")), S(T(3, dtype="complex64")))
for name in ("isnan", "isinf", "isfinite", "isreal"):
    register(name, S(T(values=[1 + 0j, complex("nan"), complex("inf")], dtype="complex64")))
