"""Samples of norms and distances."""

from tests.samples import S, T, register

INF = float("inf")
ZERO = T(2, 3, values=[[0.0, 0.0, 0.0], [3.0, -4.0, 0.0]])
TIES = T(4, values=[3.0, -3.0, 1.0, 3.0])
for order in (0, 1, 2, 3, 0.5, 1.5, -1, -2, INF, -INF):
    register(
        "linalg_vector_norm", S(ZERO, order, -1, True), S(TIES, order),
        S(T(2, 3, dtype="complex64"), order, 0),
    )
register(
    "linalg_vector_norm", S(T()), S(T(0)), S(T(2, 0), 2, 1), S(T(2, 3, dtype="bfloat16"), 2, 1),
    S(T(2, 3), 2, [0, 1], True), S(T(2, 3), dtype="float64"), S(T(2, 3), 2, ()),
)
register(
    "renorm", S(T(3, 4), 2, 0, 1.0), S(T(2, 3, 4), 1, 1, 3.0), S(T(3, 4), INF, -1, 0.5),
    S(ZERO, 2, 0, 1), S(T(2, 3, dtype="bfloat16"), 2, 0, 1.0),
)
register(
    "dist", S(T(3), T(3)), S(T(2, 3), T(3), 1), S(T(2, 1), T(3), INF), S(TIES, TIES),
    S(T(3), T(3, dtype="int64"), 3), S(T(3), T(3), 0),
)
register(
    "normalize", S(T(2, 3)), S(ZERO), S(T(2, 3, 4), 1.0, 2), S(T(3), dim=0), S(T(2, 3), dim=None),
    S(T(2, 3), INF, 0, 1e-3), S(T(2, 3, dtype="bfloat16")), S(T(2, 3, dtype="complex64")),
    S(T(2, 2, 3), dim=(0, 1)),
)
register(
    "cosine_similarity", S(T(2, 3), T(2, 3)), S(T(2, 3, 4), T(3, 1), -1), S(ZERO, T(2, 3)),
    S(T(3), T(3, dtype="int64"), 0), S(T(2, 3), T(2, 3), 0, 0.5), S(T(), T(), 0),
)
register(
    "pairwise_distance", S(T(2, 3), T(2, 3)), S(T(2, 3), T(3), 1.0, keepdim=True), S(ZERO, ZERO),
    S(T(2, 3, dtype="uint8", low=0, high=99), T(2, 3, dtype="uint8", low=0, high=99)),
    S(T(2, 3, dtype="int32", low=0, high=9), T(2, 3)),
    S(T(3, dtype="int64"), T(3, dtype="int64")), S(T(2, 2, 3), T(3), INF),
)
REPEATED = T(3, 2, values=[[1.0, 2.0], [1.0, 2.0], [0.0, 3.0]])
for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF):
    register("pdist", S(REPEATED, p))
    register("cdist", S(T(2, 4, 3), T(5, 3), p), S(REPEATED, REPEATED, p))
register("pdist", S(T(1, 3)), S(T(0, 3)), S(T(3, 0)))
register(
    "cdist", S(T(30, 3), T(4, 3)), S(T(3, 0), T(2, 0)), S(T(0, 2), T(3, 2)),
    S(T(4, 3), T(2, 3), 2.0, "use_mm_for_euclid_dist"),
    S(T(30, 3), T(4, 3), 2.0, "donot_use_mm_for_euclid_dist"),
)
