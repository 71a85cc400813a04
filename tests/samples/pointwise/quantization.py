"""Samples of fake quantization."""

from tests.samples import S, T, register

NAN = float("nan")
X = T(3, 4, low=-3, high=3)
EDGES = T(9, values=[NAN, 1e30, -1e30, -0.25, 0.25, 0.35, 25.5, 25.54, 25.6])
ZEROS = T(3, dtype="int32", values=[0, 3, 10])
SCALES = T(3, values=[0.1, 0.25, 1.0], grad=False)

register(
    "fake_quantize_per_tensor_affine",
    S(X, 0.1, 0, 0, 255), S(X, 0.25, 5, 0, 10), S(EDGES, 0.1, 0, -5, 255), S(T(0), 0.1, 0, 0, 1),
    S(T(), 0.5, 0, -1, 1), S(T(4, dtype="float64"), 0.1, 1, -5, 5),
    S(T(4, dtype="float16"), 0.1, 1, -5, 5), S(T(4, dtype="int64"), 0.1, 0, 0, 5),
    S(X, 0.1, 0, 10, 5), S(X, 0.1, 300, 0, 255),
)
register(
    "fake_quantize_per_tensor_affine.tensor_qparams",
    S(X, T(1, values=[0.1], grad=False), T(1, dtype="int32", values=[2]), 0, 20),
    S(EDGES, T(values=0.1, grad=False), T(dtype="int32", values=0), -5, 255),
)
register(
    "fake_quantize_per_channel_affine",
    S(X, SCALES, ZEROS, 0, 0, 20), S(T(2, 3), SCALES, ZEROS, -1, 0, 10),
    S(X, SCALES, ZEROS, 1, 0, 20), S(X, SCALES, T(2, dtype="int32"), 0, 0, 20),
    S(X, SCALES, ZEROS, 0, 0, 5), S(X, SCALES, ZEROS, 4, 0, 20),
)
register(
    "fake_quantize_per_tensor_affine_cachemask",
    S(X, 0.1, 0, 0, 20), S(EDGES, 0.1, 0, -5, 255), S(T(0), 0.1, 0, 0, 1), S(T(4, dtype="float64"), 0.1, 1, -5, 5),
    S(T(4, dtype="int64"), 0.1, 0, 0, 5), S(X, 0.1, 300, 0, 255),
)
register(
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    S(X, T(1, values=[0.1], grad=False), T(1, dtype="int32", values=[2]), T(1, dtype="int64", values=[1]), 0, 20),
    S(X, T(1, values=[0.1], grad=False), T(1, dtype="int32", values=[2]), T(1, dtype="int64", values=[0]), 0, 20),
    S(EDGES, T(values=0.1, grad=False), T(dtype="int32", values=0), T(dtype="uint8", values=1), -5, 255),
)
register(
    "fake_quantize_per_channel_affine_cachemask",
    S(X, SCALES, ZEROS, 0, 0, 20), S(X, SCALES, ZEROS, 1, 0, 20), S(X, SCALES, ZEROS, 0, 0, 5),
)
