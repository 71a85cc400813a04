"""Samples of fills."""

from tests.samples import S, T, register

register("fill.Scalar", S(T(2, 3), 1.5), S(T(2, dtype="int64"), 3), S(T(0), 1.0), S(T(), True),
         S(T(2, dtype="bool"), 2))
register("fill.Tensor", S(T(2, 3), T()), S(T(2, dtype="int64"), T(dtype="float32")), S(T(2), T(2)))
register("zero", S(T(2, 3)), S(T(3, dtype="bool")), S(T()))
