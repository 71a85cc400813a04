"""Samples for ftorch/eager/kernels/indexing/scatter.py, selecting.py and masking.py."""

from tests.samples import S, T, register


def _index(*shape, below, dtype="int64"):
    return T(*shape, dtype=dtype, low=0, high=below)


_DISTINCT = T(2, values=[2, 0], dtype="int64")
_ZERO = T(values=0, dtype="int64")
_MASK = T(2, 3, dtype="bool")

register(
    "gather", S(T(2, 3), 0, _index(2, 3, below=2)), S(T(2, 3), -1, _index(2, 5, below=3)),
    S(T(2, 3, dtype="bfloat16"), 1, _index(1, 2, below=3, dtype="int32")),
    S(T(), 0, _ZERO), S(T(2, 3), 0, T(0, 3, dtype="int64")),
)
register(
    "scatter.src", S(T(3, 2), 0, T(2, 2, values=[[0, 2], [1, 0]], dtype="int64"), T(2, 2)),
    S(T(2, 3), 1, T(1, 2, values=[[2, 0]], dtype="int64"), T(2, 3)), S(T(), 0, _ZERO, T()),
)
register("scatter.value", S(T(2, 3), 1, _index(2, 2, below=3), 2.5),
         S(T(2, 3, dtype="int32"), 0, _index(1, 3, below=2), 2.5))
register("scatter_add", S(T(2, 3), 0, _index(4, 3, below=2), T(4, 3)),
         S(T(2, 3, dtype="bfloat16"), 1, _index(2, 6, below=3), T(2, 6, dtype="bfloat16")),
         S(T(3), 0, _index(2, below=3), T(4)))
for _reduce in ("sum", "prod", "mean", "amax", "amin"):
    register("scatter_reduce.two", S(T(2, 3), 0, _index(4, 3, below=2), T(4, 3), _reduce),
             S(T(2, 3), 1, _index(2, 2, below=3), T(2, 2), _reduce, include_self=False)
    )
register(
    "scatter_reduce.two", S(T(3), 0, _index(4, below=2), T(4, values=[0, 2, 0, 3]), "prod"),
    S(T(3, values=[1, 1, 1]), 0, _index(4, below=2), T(4, values=[1, 1, 0, 1]), "amax"),
)
register("scatter.reduce", S(T(2, 3), 0, _index(2, 3, below=2), T(2, 3), reduce="add"),
         S(T(2, 3), 0, _index(2, 3, below=2), T(2, 3), reduce="multiply"))
register("scatter.value_reduce", S(T(2, 3), 0, _index(2, 3, below=2), 2, reduce="multiply"))

register("index_select", S(T(2, 3), 1, _index(4, below=3)), S(T(2, 3), 0, T(0, dtype="int64")),
         S(T(), 0, T(values=0, dtype="int32")))
register("index_add", S(T(3, 2), 0, _index(4, below=3), T(4, 2)),
         S(T(2, 3, dtype="int32"), 1, _index(2, below=3), T(2, 2, dtype="int32"), alpha=2)
)
register("index_copy", S(T(3, 2), 0, _DISTINCT, T(2, 2)), S(T(), 0, _ZERO, T()))
register("index_fill.int_Scalar", S(T(2, 3), 1, _DISTINCT, 2.5), S(T(2, 3), -1, _ZERO, 1))
register("index_fill.int_Tensor", S(T(2, 3), 1, _index(4, below=3), T()))
for _reduce in ("prod", "mean", "amax", "amin"):
    register("index_reduce", S(T(3, 2), 0, _index(4, below=3), T(4, 2), _reduce),
             S(T(3, 2), 0, _index(4, below=3), T(4, 2), _reduce, include_self=False))
register("take", S(T(2, 3), T(2, 2, values=[[0, 5], [-1, 0]], dtype="int64")))
register("put", S(T(2, 3), T(2, values=[0, -1], dtype="int64"), T(2)),
         S(T(2, 3), T(2, values=[1, 1], dtype="int64"), T(2), True))
register("take_along_dim", S(T(2, 3), _index(2, 1, below=3), 1), S(T(2, 3), _index(4, below=6)),
         S(T(2, 3), _index(1, 3, below=2), 0))

for _name in ("masked_fill.Scalar", "masked_fill.Tensor"):
    _value = T() if "Tensor" in _name else float("-inf")
    register(
        _name, S(T(2, 3), _MASK, _value), S(T(3), _MASK, _value), S(T(), T(dtype="bool"), _value)
    )
register("masked_scatter", S(T(2, 3), _MASK, T(6)), S(T(2, 3), T(3, dtype="bool"), T(2, 5)))
register("masked_select", S(T(2, 3), _MASK), S(T(3), _MASK), S(T(), T(values=True, dtype="bool")))
register("argwhere", S(_MASK), S(T()), S(T(0, 2)))
register("nonzero_static", S(_MASK, size=3), S(_MASK, size=8, fill_value=7))
register(
    "index_put", S(T(3, 2), [T(2, values=[0, -1], dtype="int64")], T(2, 2)),
    S(T(3, 2), [T(2, values=[0, 0], dtype="int64"), _ZERO], T(2), True),
    S(T(2, 3), [_MASK], T()),
    S(T(2, 3), [T(2, values=[True, False], dtype="bool")], T(1, 3)),
)
register("select_scatter", S(T(2, 3), T(2), 1, -1))
register("slice_scatter", S(T(4, 2), T(2, 2), 0, 0, 4, 2), S(T(4, 2), T(1, 2), 0, -1))
register("diagonal_scatter", S(T(2, 3), T(2), 1), S(T(2, 3, 2), T(3, 2), 0, 0, 2))
register("as_strided_scatter", S(T(2, 3), T(2, 2), (2, 2), (1, 2), 1))
