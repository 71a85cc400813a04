"""Samples of products of matrices and vectors."""

from tests.samples import S, T, register

_CASES = {
    "matmul": [
        [(3,), (3,)], [(2, 3), (3,)], [(3,), (3, 2)], [(2, 3), (3, 4)], [(5, 2, 3), (3, 4)],
        [(3,), (5, 3, 2)], [(4, 1, 2, 3), (5, 3, 4)], [(2, 0), (0, 3)],
    ],
    "linalg_matmul": [[(2, 3), (3, 4)]],
    "mm": [[(2, 3), (3, 4)], [(0, 3), (3, 2)]],
    "bmm": [[(2, 3, 4), (2, 4, 5)], [(0, 3, 4), (0, 4, 5)]],
    "mv": [[(2, 3), (3,)]],
    "dot": [[(3,), (3,)], [(0,), (0,)]],
    "vdot": [[(3,), (3,)]],
    "inner": [[(2, 3), (4, 3)], [(2, 3), ()]],
    "outer": [[(2,), (3,)]],
    "ger": [[(2,), (3,)]],
    "linear": [[(2, 3), (5, 3), (5,)], [(4, 2, 3), (5, 3)], [(3,), (5, 3), (5,)], [(2, 3), (3,)]],
    "bilinear": [[(2, 3), (2, 4), (5, 3, 4), (5,)], [(2, 7, 3), (2, 7, 4), (5, 3, 4)]],
    "linalg_vecdot": [[(2, 3), (3,)]],
}
for _name, _shapes in _CASES.items():
    _dtypes = ("float32", "complex64") if _name != "bilinear" else ("float32",)
    register(_name, *(S(*(T(*s, dtype=d) for s in case)) for case in _shapes for d in _dtypes))

register("matmul", S(T(2, 3, dtype="int64"), T(3, 2, dtype="int64")))
register("matmul", S(T(2, 3, dtype="bfloat16"), T(3, 2, dtype="bfloat16")))

_BLENDED = {
    "addmm": [(5,), (2, 3), (3, 5)],
    "addmv": [(2,), (2, 3), (3,)],
    "addr": [(2, 3), (2,), (3,)],
    "addbmm": [(3, 5), (2, 3, 4), (2, 4, 5)],
    "baddbmm": [(3, 5), (2, 3, 4), (2, 4, 5)],
}
for _name, _shapes in _BLENDED.items():
    register(
        _name,
        S(*(T(*s) for s in _shapes)),
        S(*(T(*s) for s in _shapes), beta=0.5, alpha=-2),
        S(*(T(*s, dtype="complex64") for s in _shapes), beta=2, alpha=3),
        S(*(T(*s, dtype="int64") for s in _shapes), beta=0),
    )

register(
    "tensordot",
    S(T(2, 3, 4), T(4, 3, 5), (1, 2), (1, 0)),
    S(T(2, 3, 4), T(1, 3, 5), (1, 2), (1, 0)),
    S(T(2), T(3), (), ()),
)
register(
    "linalg_multi_dot",
    S([T(2, 3), T(3, 4)]),
    S([T(3), T(3, 4), T(4, 5), T(5)]),
)
register(
    "einsum",
    S("ij,jk->ik", [T(2, 3), T(3, 4)]),
    S("...ij,...jk", [T(4, 2, 3), T(3, 5)]),
    S("ii->i", [T(3, 3)]),
    S("ij,ij->i", [T(2, 1), T(2, 3)]),
    S("bn,anm,bm->ba", [T(2, 5), T(3, 5, 4), T(2, 4)]),
    S("ij->", [T(2, 3, dtype="complex64")]),
)

_ENDS = T(3, values=[1, 3, 8], dtype="int32")
for _name in ("_grouped_mm", "nn.functional.grouped_mm"):
    register(
        _name,
        S(T(8, 8), T(3, 8, 16), offs=_ENDS), S(T(8, 8), T(8, 16), offs=_ENDS), S(T(3, 4, 8), T(8, 8), offs=_ENDS),
        S(T(3, 4, 8), T(3, 8, 16)), S(T(8, 8, dtype="bfloat16"), T(3, 8, 16, dtype="bfloat16"), offs=_ENDS),
        S(T(8, 8), T(3, 8, 16)), S(T(8, 8), T(3, 4, 16), offs=_ENDS), S(T(8, 8), T(2, 8, 16), offs=_ENDS),
        S(T(8, 8, dtype="float64"), T(3, 8, 16, dtype="float64"), offs=_ENDS),
    )
