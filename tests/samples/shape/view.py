"""Samples of views."""

import numpy as np

from tests.samples import S, T, register

_X = T(2, 3, 4)

for _name in ("swapaxes", "swapdims", "transpose.int"):
    register(_name, S(_X, 0, 1), S(_X, -1, 0), S(T(3, 2, dtype="int64"), 1, 1), S(T(), 0, -1),
             S(_X, 0, 3))
for _name in ("expand", "broadcast_to"):
    register(_name, S(T(3, 1), (3, 4)), S(T(3), (2, 3)), S(T(), (2, 0)), S(T(2, 3), (2, 4)))
register("expand", S(T(2, 3), (-1, 3)), S(T(3, 1), (-1, 4), implicit=True), S(T(2), (-1, -1)))

register("alias", S(_X), S(T(dtype="bool")))
register("view", S(_X, (6, 4)), S(_X, (-1,)), S(_X, (2, -1, 2)), S(T(0, 3), (3, 0)), S(T(), (1, 1)),
         S(_X, (5, 5)), S(_X, (-1, -1)))
register("view.dtype", S(T(4, 2), np.dtype("int32")), S(T(4, 2, grad=False), np.dtype("float64")),
         S(T(2, 3, dtype="int16"), np.dtype("int8")), S(T(3, 3, grad=False), np.dtype("float64")))
register("view_as_real", S(T(2, 3, dtype="complex64")), S(T(dtype="complex128")), S(T(2)))
register("view_as_complex", S(T(3, 2)), S(T(2, dtype="float64")), S(T(3)), S(T(2, 2, dtype="int64")))
register("permute", S(_X, (2, 0, 1)), S(_X, (0, -1, 1)), S(T(), ()), S(_X, (0, 0, 1)), S(_X, (0, 1)))
register("t", S(T(2, 3)), S(T(3)), S(T()), S(_X))
register("movedim.intlist", S(_X, (0, 1), (2, 0)), S(_X, (-1,), (0,)), S(_X, (0, 0), (1, 2)))
register("squeeze", S(T(1, 3, 1)), S(T(2, 3)), S(T()))
register("squeeze.dim", S(T(1, 3, 1), 0), S(T(1, 3, 1), -1), S(T(2, 3), 1), S(T(), 0), S(T(2), 3))
register("squeeze.dims", S(T(1, 3, 1), (0, 2)), S(T(1, 3, 1), (0, 1)), S(T(1, 2), ()))
register("unsqueeze", S(T(2, 3), 0), S(T(2, 3), -1), S(T(), 0), S(T(2), 3))
register("select.int", S(_X, 0, 1), S(_X, -1, -2), S(T(3, dtype="int64"), 0, 2), S(_X, 1, 3),
         S(T(), 0, 0))
register("narrow", S(_X, 1, 0, 2), S(_X, -1, 1, 3), S(_X, 0, -1, 1), S(_X, 0, 1, 0), S(_X, 0, 1, 2))
register("diagonal", S(T(3, 4)), S(T(3, 4), 1), S(T(3, 4), -2), S(_X, 0, 1, 2), S(_X, 1, -1, 0),
         S(T(3, 3), 5), S(T(3)))
register("unfold", S(T(7), 0, 3, 2), S(_X, 2, 2, 1), S(_X, -2, 3, 1), S(T(), 0, 1, 1), S(T(3), 0, 4, 1))
register("unflatten.int", S(T(6, 2), 0, (2, 3)), S(T(2, 6), -1, (3, -1)), S(T(2, 6), 1, (4, 2)))
