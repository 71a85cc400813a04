"""ONNX's numbers of dtypes."""

from __future__ import annotations

from ...eager.core import dtype as dtypes

_NAMES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8_e4m3fn",
    18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 23: "float4_e2m1fn_x2",
}
ONNX_DTYPE_TO_TORCH_DTYPE = {number: getattr(dtypes, name) for number, name in _NAMES.items()}
TORCH_DTYPE_TO_ONNX_DTYPE = {dtype: number for number, dtype in ONNX_DTYPE_TO_TORCH_DTYPE.items()} | {str: 8}
# Halves of bytes have no dtype of their own: two elements of 4 bits are held in one of 8.
ONNX_DTYPE_TO_TORCH_DTYPE |= {21: dtypes.uint8, 22: dtypes.uint8}
ONNX_DTYPE_TO_TORCH_DTYPE = dict(sorted(ONNX_DTYPE_TO_TORCH_DTYPE.items()))
