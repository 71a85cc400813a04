"""Samples of cumulative operators, differences and the trapezoidal rule."""

from tests.samples import S, T, register

INF, NAN = float("inf"), float("nan")
F, SCALAR, EMPTY = T(2, 3, 4), T(), T(2, 0)
INT, BOOL = T(2, 3, dtype="int8", low=-3, high=4), T(2, 3, dtype="bool")
LOW, COMPLEX = T(3, 4, dtype="bfloat16"), T(2, 3, dtype="complex64")
ZEROS = T(5, values=[1.0, 0.0, 3.0, 0.0, 2.0])
TIES = T(6, values=[1.0, 1.0, 0.0, 3.0, 3.0, 2.0])
SPECIAL = T(6, values=[1.0, INF, NAN, 3.0, NAN, -INF], grad=False)

for name in ("cumsum", "cumprod"):
    register(
        name, S(F, 1), S(F, -1), S(SCALAR, 0), S(EMPTY, 1), S(INT, 0), S(BOOL, 1), S(LOW, 0),
        S(COMPLEX, 1), S(ZEROS, 0), S(F, 2, dtype="float64"),
    )
for name in ("cummax", "cummin"):
    register(
        name, S(F, 1), S(SCALAR, -1), S(EMPTY, 1), S(INT, 1), S(BOOL, 0), S(TIES, 0), S(SPECIAL, 0),
        S(LOW, 1),
    )
register(
    "logcumsumexp", S(F, 1), S(SCALAR, 0), S(EMPTY, 1), S(LOW, -1), S(COMPLEX, 1), S(SPECIAL, 0),
    S(T(3, values=[-INF, -INF, 1.0], grad=False), 0),
)
register(
    "diff", S(F), S(F, 2, 1), S(F, 9), S(F, 0), S(INT), S(BOOL), S(EMPTY),
    S(T(2, 3), 1, 1, T(2, 1), T(2, 2)), S(INT, prepend=T(2, 1)),
    S(T(3, dtype="uint8", values=[5, 2, 9])),
)
for name in ("trapezoid", "trapz", "cumulative_trapezoid"):
    register(
        f"{name}.x", S(T(3), T(3)), S(F, T(4)), S(F, T(2), dim=0), S(T(2, 3), T(2, 3)),
        S(T(2, 3, dtype="int64"), T(3)), S(T(2, 3, dtype="int64"), T(3, dtype="int64")),
    )
    register(
        f"{name}.dx", S(F), S(F, dx=0.5, dim=1), S(T(2, 3, dtype="int64"), dx=2), S(EMPTY),
        S(T(2, 3, dtype="int64"), dx=2.5), S(T(1)), S(COMPLEX),
    )
