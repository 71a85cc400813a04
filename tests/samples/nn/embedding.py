"""Samples of embeddings."""

from tests.samples import S, T, register


def rows(*shape, n=5):
    return T(*shape, dtype="int64", make=lambda rng, shape: rng.integers(0, n, shape))


register(
    "embedding",
    S(T(5, 3), rows(4)),
    S(T(5, 3), rows(2, 3), 1),
    S(T(5, 3), rows(2, 6), 2, True),
    S(T(5, 3), rows()),
    S(T(5, 3, dtype="bfloat16"), rows(8)),
    S(T(5, 3), T(0, dtype="int64")),
    S(T(5, 0), rows(4)),
    S(T(5, 0), T(0, dtype="int64")),
)

_OFFSETS = T(4, dtype="int64", values=[0, 3, 3, 6])
for mode in ("sum", "mean", "max"):
    register(
        "_embedding_bag",
        S(T(5, 3), rows(8), _OFFSETS, mode, False, None, False, None),
        S(T(5, 3), rows(8), _OFFSETS, mode, False, None, False, 1),
        S(T(5, 3), rows(6), _OFFSETS, mode, False, None, True, None),
    )
register(
    "_embedding_bag", S(T(5, 3), rows(8), _OFFSETS, "sum", False, T(8), False, 1),
    S(T(5, 3), rows(8), _OFFSETS, "sum", True, None, False, None),
)

