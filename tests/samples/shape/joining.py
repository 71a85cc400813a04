"""Samples for ftorch/eager/kernels/shape/joining.py and diagonal.py."""

from tests.samples import S, T, register

_INDEX = T(4, dtype="int64", low=0, high=3)

register(
    "cat", S([T(2, 3), T(1, 3)]), S([T(2, 3), T(2, 1)], -1), S([T(0), T(2, 3)], 1),
    S([T(2, dtype="int32"), T(3)]), S([T(0), T(0)]), S([T(2, 2, dtype="bfloat16"), T(2, 2)]),
)
register("stack", S([T(2, 3), T(2, 3)]), S([T(), T()]), S([T(2, dtype="bool"), T(2)], -1))
register("flip", S(T(2, 3), [0]), S(T(2, 3, 2), [0, -1]), S(T(2, 3), []), S(T(), [0]))
register("fliplr", S(T(2, 3)), S(T(2, 3, dtype="int64")))
register("flipud", S(T(3)), S(T(2, 3)))
register("roll", S(T(2, 3), 1), S(T(2, 3), [1, -2], [0, 1]), S(T(0, 3), 2, 1), S(T(), 1))
register("rot90", S(T(2, 3)), S(T(2, 3, 2), -1, [0, 2]), S(T(2, 3), 2))
register("repeat", S(T(3), [2, 2]), S(T(2, 3), [1, 0]), S(T(), [2]))
register("tile", S(T(2, 3), [2]), S(T(2), [2, 1, 3]))
register("repeat_interleave.self_int", S(T(2, 3), 2), S(T(2, 3), 3, dim=-1), S(T(), 2))
register(
    "repeat_interleave.self_Tensor", S(T(2, 3), T(2, values=[1, 2], dtype="int64"), dim=0),
    S(T(4), T(4, dtype="int32", low=0, high=3)), S(T(2, 2), T(values=2, dtype="int64"), dim=1),
)
register("repeat_interleave.Tensor", S(_INDEX))
for _name in ("tril", "triu"):
    register(_name, S(T(3, 3)), S(T(2, 3, 4), 1), S(T(2, 3, dtype="bool"), -1), S(T(0, 3)))
register("diag", S(T(3)), S(T(3), -1), S(T(2, 3)), S(T(2, 3), 2), S(T(2, 3), 5))
register("diagflat", S(T(2, 2)), S(T(), 1))
register("diag_embed", S(T(2, 3)), S(T(2, 3), 1, 0, 2), S(T(3), -2))
register("trace", S(T(3, 3)), S(T(2, 3, dtype="int32")), S(T(0, 2)))
register("kron", S(T(2, 3), T(2)), S(T(2, dtype="int64"), T(3)), S(T(), T(2)))
register("cross", S(T(2, 3), T(2, 3)), S(T(3, 3), T(1, 3), 1), S(T(3), T(3)))
register("linalg_cross", S(T(2, 3), T(2, 3)), S(T(3, 2), T(3, 1), dim=0))
register("block_diag", S([T(2, 3), T(2), T()]), S([T(2, dtype="int64"), T(1, 1)]))
register("combinations", S(T(4)), S(T(3), 3, True), S(T(3), 0), S(T(2), 3))
register("vander", S(T(3)), S(T(3), 2, True), S(T(3, dtype="int32"), 0))
register("linalg_vander", S(T(2, 3)), S(T(3, dtype="int32"), N=4))
register("one_hot", S(_INDEX, 3), S(T(values=1, dtype="int64"), 2), S(T(0, dtype="int64"), 2))
