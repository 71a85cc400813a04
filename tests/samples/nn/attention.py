"""Samples of attention."""

from tests.samples import S, T, register

q, k, v = T(2, 3, 4, 8), T(2, 3, 5, 8), T(2, 3, 5, 6)
register(
    "_scaled_dot_product_attention",
    S(q, k, v),
    S(q, k, v, None, None, True),
    S(q, k, v, T(4, 5)),
    S(q, k, v, T(2, 1, 4, 5, dtype="bool")),
    S(q, k, v, T(4, 5, dtype="bool", values=[[False] * 5] * 4)),
    S(q, k, v, scale=0.3),
    S(q, k, v, None, T(2, 3, 4, 5, values=None, low=0.0)),
    S(T(4, 8), T(5, 8), T(5, 6)),
    S(T(2, 4, 4, 8), T(2, 2, 5, 8), T(2, 2, 5, 8), enable_gqa=True),
)
