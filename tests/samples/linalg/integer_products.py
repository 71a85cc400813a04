"""Samples for ftorch/eager/kernels/linalg/integer_products.py."""

from tests.samples import S, T, register


def _int8(*shape):
    return T(*shape, dtype="int8", low=-128, high=127)


def _bytes(*shape):
    return T(*shape, dtype="uint8", low=0, high=255)


register("_int_mm", S(_int8(3, 5), _int8(5, 4)), S(_int8(17, 2100), _int8(2100, 8)), S(_int8(2, 3), _int8(4, 2)),
         S(_int8(2, 3), T(3, 2, dtype="int32")), S(_int8(3), _int8(3, 2)))
# PyTorch's kernel crashes on memory that is not aligned to 64 bytes: values are compared in
# tests/eager/kernels/test_integer_products.py, on memory of PyTorch's own.
register("_weight_int8pack_mm", S(T(4, 64, grad=False), _int8(16, 64), T(4, grad=False)),
         S(T(4, 64, grad=False), T(16, 64, grad=False), T(16, grad=False)))
register("_convert_weight_to_int4pack_for_cpu", S(T(32, 64, dtype="int32", low=0, high=15), 1),
         S(T(96, 64, dtype="int32", low=0, high=15), 1), S(T(32, 64), 1))
register(
    "_weight_int4pack_mm_for_cpu",
    # Weights are up to 127 times the scale: of such values, sums of 64 round to some 1e-6.
    S(T(3, 64, grad=False), _bytes(32, 32), 32, T(2, 32, 2, grad=False, low=-0.02, high=0.02)),
    S(T(3, 128, dtype="bfloat16", grad=False), _bytes(128, 64), 64, T(2, 128, 2, dtype="bfloat16", grad=False)),
)
