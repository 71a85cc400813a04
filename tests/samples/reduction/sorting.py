"""Samples of sorting, selection, search and uniqueness."""

import numpy as np

from tests.samples import S, T, register

INF, NAN = float("inf"), float("nan")


def _distinct(rng, shape):
    return rng.permutation(int(np.prod(shape))).reshape(shape) / 4 - 2


def _distinct_integers(rng, shape):
    return rng.permutation(int(np.prod(shape))).reshape(shape) - 5


F = T(3, 4, make=_distinct)
SCALAR, EMPTY = T(), T(2, 0)
INT, BOOL = T(2, 6, dtype="int64", make=_distinct_integers), T(2, 5, dtype="bool")
BYTE, LOW = T(6, dtype="uint8", values=[3, 255, 0, 7, 9, 1]), T(3, 4, dtype="bfloat16", make=_distinct)
TIES = T(6, values=[2.0, 1.0, 2.0, 1.0, 0.0, -0.0])
SPECIAL = T(6, values=[3.0, NAN, -INF, INF, NAN, 1.0], grad=False)
DOUBLE = T(2, 5, dtype="float64", make=_distinct)
LONG = T(20, make=_distinct)

for name in ("sort", "argsort"):
    register(name, S(F, 0), S(F, -2, True))
    for x in (F, INT, BOOL, BYTE, LOW, TIES, SPECIAL, DOUBLE):
        register(f"{name}.stable", S(x, stable=True), S(x, stable=True, descending=True))
    register(f"{name}.stable", S(SCALAR, stable=False), S(EMPTY, stable=True))
register("msort", S(F), S(SCALAR), S(EMPTY), S(SPECIAL))
register(
    "topk", S(F, 2), S(F, 2, 0), S(F, 3, -1, False), S(INT, 2), S(BYTE, 2, 0, False), S(LOW, 1),
    S(SCALAR, 1), S(F, 0), S(LONG, 2), S(LONG, 2, largest=False), S(DOUBLE, 2, sorted=False),
    S(SPECIAL, 6), S(SPECIAL, 6, largest=False),
)
register(
    "kthvalue", S(F, 2), S(F, 1, 0), S(F, 4, 1, True), S(SCALAR, 1), S(INT, 3), S(SPECIAL, 5),
    S(T(0, 2), 1, 1),
)
for name in ("median", "nanmedian"):
    register(name, S(F), S(INT), S(SCALAR), S(T(0)), S(TIES), S(SPECIAL))
    register(f"{name}.dim", S(F, 0), S(F, 1, True), S(INT, 1), S(SCALAR, 0), S(SPECIAL, 0))
register(
    "mode", S(T(7, values=[2.0, 1.0, 3.0, 1.0, 2.0, 2.0, 0.0])), S(INT, 0), S(F, 1, True), S(SCALAR),
    S(T(6, dtype="int64", values=[2, 2, 1, 1, 3, 3])), S(BOOL, 1),
)

EDGES = T(4, values=[-1.0, 0.0, 1.0, 1.5], grad=False)
ROWS = T(2, 3, values=[[0.0, 1.0, 2.0], [-1.0, 0.5, 0.7]], grad=False)
register(
    "searchsorted.Tensor", S(EDGES, T(2, 3)), S(EDGES, T(2, 3), right=True), S(ROWS, T(2, 5)),
    S(EDGES, T(3, dtype="int64"), out_int32=True), S(EDGES, SPECIAL, side="right"), S(EDGES, T()),
    S(T(3, values=[2.0, 0.0, 1.0]), T(4), sorter=T(3, dtype="int64", values=[1, 2, 0])), S(T(0), T(2)),
)
register("searchsorted.Scalar", S(EDGES, 0.5), S(EDGES, 1, right=True), S(EDGES, 1, side="left"))
register("bucketize.Tensor", S(T(2, 3), EDGES), S(T(3, dtype="int64"), EDGES, right=True))
register("bucketize.Scalar", S(0.5, EDGES), S(1, EDGES, out_int32=True, right=True))
register(
    "isin.Tensor_Tensor", S(INT, T(3, dtype="int64", low=-3, high=3)), S(SPECIAL, SPECIAL),
    S(INT, T(40, dtype="int64", low=-9, high=9)), S(INT, T(0), invert=True), S(TIES, T(40)),
)
register("isin.Tensor_Scalar", S(INT, 1), S(TIES, 2.0, invert=True))
register("isin.Scalar_Tensor", S(1, INT), S(2.0, TIES, invert=True))

REPEATED = T(4, 2, dtype="int64", values=[[1, 2], [1, 2], [0, 5], [1, 2]])
for flags in ((False, False), (True, True)):
    for x in (INT, TIES, SPECIAL, BOOL, LOW, SCALAR, EMPTY, REPEATED):
        register("_unique2", S(x, True, *flags))
        register("unique_consecutive", S(x, *flags))
    for dim in (0, 1):
        register("unique_dim", S(REPEATED, dim, True, *flags))
        register("unique_consecutive", S(REPEATED, *flags, dim))
