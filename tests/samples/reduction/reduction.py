"""Samples of reductions."""

from tests.samples import S, T, register

INF, NAN = float("inf"), float("nan")
F, SCALAR, EMPTY = T(2, 3, 4), T(), T(2, 0)
INT = T(2, 3, dtype="int32", low=-3, high=4)
BOOL, BYTE = T(2, 3, dtype="bool"), T(2, 3, dtype="uint8", high=2)
LOW, COMPLEX = T(3, 4, dtype="bfloat16"), T(2, 3, dtype="complex64")
TIES = T(2, 4, values=[[1.0, 3.0, 3.0, 0.0], [-1.0, -1.0, -2.0, -1.0]])
SPECIAL = T(2, 4, values=[[1.0, NAN, 3.0, NAN], [INF, -INF, 2.0, INF]], grad=False)
ZEROS = T(2, 3, values=[[0.0, 2.0, 3.0], [0.0, 0.0, 4.0]])

for name in ("sum", "prod", "mean"):
    register(name, S(F), S(SCALAR), S(LOW), S(COMPLEX), S(EMPTY), S(INT, dtype="float32"))
for name in ("sum", "prod"):
    register(name, S(INT), S(BOOL), S(BYTE), S(F, dtype="float64"), S(BOOL, dtype="bool"))
register("prod", S(ZEROS))
register("prod.dim_int", S(F, 1), S(F, -1, True), S(ZEROS, 1), S(SCALAR, 0), S(INT, 0))
for name in ("sum.dim_IntList", "mean.dim"):
    register(
        name, S(F, 1), S(F, [0, -1]), S(F, [0, 2], True), S(F, None), S(F, []), S(SCALAR, 0),
        S(EMPTY, 1), S(EMPTY, 0), S(LOW, 1), S(COMPLEX, 0), S(F, 0, dtype="float64"),
    )
for name in ("nansum", "nanmean"):
    register(name, S(F), S(SPECIAL, 1), S(F, [0, 1], True), S(LOW, 0), S(F, dtype="float64"))
register("nansum", S(INT), S(BOOL, 1))
register("count_nonzero", S(INT), S(INT, 0), S(BOOL), S(COMPLEX, 1), S(SCALAR))
register("count_nonzero.dim_IntList", S(INT, [0]), S(INT, (0, 1)), S(F, (0, -1)))
register(
    "logsumexp", S(F, 1), S(F, [0, 2]), S(F, -1, True), S(SCALAR, 0), S(INT, 0), S(EMPTY, 1),
    S(LOW, 0), S(COMPLEX, 0), S(SPECIAL, 1),
    S(T(2, 2, values=[[-INF, 1.0], [800.0, 801.0]]), 1),
)

for name in ("all", "any"):
    register(name, S(BOOL), S(BYTE), S(INT), S(F), S(EMPTY), S(SCALAR), S(COMPLEX))
    register(f"{name}.dim", S(BOOL, 0), S(BYTE, 1, True), S(EMPTY, 1), S(SCALAR, 0))
    register(f"{name}.dims", S(BOOL, (0, 1)), S(BOOL, None, True), S(BOOL, ()), S(F, (0, -1)))

for name in ("max", "min"):
    register(name, S(F), S(TIES), S(SPECIAL), S(INT), S(BOOL), S(LOW), S(SCALAR))
    register(
        f"{name}.dim", S(F, 1), S(TIES, 1), S(TIES, 0, True), S(SPECIAL, -1), S(INT, 0),
        S(BOOL, 1), S(SCALAR, 0), S(SCALAR, -1, True), S(EMPTY, 0),
    )
    register(
        f"{name}.other", S(F, T(3, 1)), S(F, T(2, 3, 4)), S(TIES, TIES), S(INT, T(3)),
        S(SPECIAL, T(4, values=[NAN, 1.0, 3.0, INF], grad=False)), S(BOOL, BOOL), S(SCALAR, SCALAR),
    )
    register(
        f"arg{name}", S(F), S(F, 1), S(F, -1, True), S(TIES, 1), S(SPECIAL, 0), S(INT, 1),
        S(SCALAR), S(SCALAR, 0), S(F, keepdim=True),
    )
    register(
        f"a{name}", S(F), S(F, 1), S(F, (0, 2), True), S(TIES, 1), S(INT, 0), S(BOOL), S(LOW, ()),
        S(SCALAR, 0), S(EMPTY, 0),
    )
register(
    "aminmax", S(F), S(F, dim=1), S(TIES, dim=-1, keepdim=True), S(INT), S(SCALAR, dim=0),
    S(SPECIAL, dim=1),
)

CONSTANT = T(2, 3, values=[[1.0, 1.0, 1.0], [1.0, 2.0, 3.0]])
for name in ("var", "std", "var_mean", "std_mean"):
    register(name, S(F), S(F, False), S(LOW), S(COMPLEX), S(CONSTANT))
    register(
        f"{name}.dim", S(F, 1), S(F, [0, 2], False), S(F, -1, True, True), S(CONSTANT, 1),
        S(F, None, False),
    )
    register(
        f"{name}.correction", S(F), S(F, 1, correction=0), S(F, [0, 1], correction=2, keepdim=True),
        S(F, None, correction=1.5), S(CONSTANT, 1), S(COMPLEX, 1),
    )
