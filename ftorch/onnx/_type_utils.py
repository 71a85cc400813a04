"""The dtypes of PyTorch and ONNX side by side: `JitScalarType`."""

from __future__ import annotations

import enum

from ..eager.core import dtype as _dtype
from ..eager.tensor import TensorBase
from . import errors
from ._symbolic import TensorProtoDataType

# PyTorch's names (of scalars, in C++, of dtypes) and ONNX' name.
_ROWS = {
    "UINT8": ("Byte", "uint8_t", "uint8", "UINT8"), "INT8": ("Char", "int8_t", "int8", "INT8"),
    "INT16": ("Short", "int16_t", "int16", "INT16"), "INT": ("Int", "int", "int32", "INT32"),
    "INT64": ("Long", "int64_t", "int64", "INT64"), "HALF": ("Half", "half", "float16", "FLOAT16"),
    "FLOAT": ("Float", "float", "float32", "FLOAT"), "DOUBLE": ("Double", "double", "float64", "DOUBLE"),
    "COMPLEX32": ("ComplexHalf", "complex32", "complex32", "UNDEFINED"),
    "COMPLEX64": ("ComplexFloat", "complex64", "complex64", "COMPLEX64"),
    "COMPLEX128": ("ComplexDouble", "complex128", "complex128", "COMPLEX128"),
    "BOOL": ("Bool", "bool", "bool", "BOOL"), "QINT8": ("QInt8", "qint8", "qint8", "INT8"),
    "QUINT8": ("QUInt8", "quint8", "quint8", "UINT8"), "QINT32": ("QInt32", "qint32", "qint32", "INT32"),
    "BFLOAT16": ("BFloat16", "bfloat16", "bfloat16", "BFLOAT16"),
    "FLOAT8E5M2": ("Float8E5M2", "float8_e5m2", "float8_e5m2", "FLOAT8E5M2"),
    "FLOAT8E4M3FN": ("Float8E4M3FN", "float8_e4m3fn", "float8_e4m3fn", "FLOAT8E4M3FN"),
    "FLOAT8E5M2FNUZ": ("Float8E5M2FNUZ", "float8_e5m2fnuz", "float8_e5m2fnuz", "FLOAT8E5M2FNUZ"),
    "FLOAT8E4M3FNUZ": ("Float8E4M3FNUZ", "float8_e4m3fnuz", "float8_e4m3fnuz", "FLOAT8E4M3FNUZ"),
    "UNDEFINED": ("Undefined", "undefined", None, "UNDEFINED"),
}


class JitScalarType(enum.IntEnum):
    """Types of scalars as the dispatcher numbers them, and what they are in ONNX.

    >>> import ftorch as torch
    >>> JitScalarType.from_dtype(torch.float32).onnx_type()
    <TensorProtoDataType.FLOAT: 1>
    """

    UINT8 = 0
    INT8 = 1
    INT16 = 2
    INT = 3
    INT64 = 4
    HALF = 5
    FLOAT = 6
    DOUBLE = 7
    COMPLEX32 = 8
    COMPLEX64 = 9
    COMPLEX128 = 10
    BOOL = 11
    QINT8 = 12
    QUINT8 = 13
    QINT32 = 14
    BFLOAT16 = 15
    FLOAT8E5M2 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E5M2FNUZ = 18
    FLOAT8E4M3FNUZ = 19
    UNDEFINED = 20

    @classmethod
    def from_dtype(cls, dtype) -> JitScalarType:
        """The type of a dtype.

        Raises:
            OnnxExporterError: for anything else.
        """
        if isinstance(dtype, _dtype.dtype):
            for name, row in _ROWS.items():
                if row[2] == dtype.name:
                    return cls[name]
        raise errors.OnnxExporterError(f"Unknown dtype: {dtype}")

    @classmethod
    def from_onnx_type(cls, onnx_type) -> JitScalarType:
        """The type of ONNX' number of it."""
        number = getattr(onnx_type, "value", onnx_type)
        for name, row in _ROWS.items():
            if name != "UNDEFINED" and TensorProtoDataType[row[3]].value == number:
                return cls[name]
        raise errors.OnnxExporterError(f"Unknown onnx_type: {onnx_type}")

    @classmethod
    def from_value(cls, value, default=None) -> JitScalarType:
        """The type of a tensor's elements; ``default`` for None."""
        if isinstance(value, TensorBase):
            return cls.from_dtype(value.dtype)
        if value is None and default is not None:
            return default
        raise errors.OnnxExporterError("value must be either torch._C.Value or torch.Tensor objects.")

    def scalar_name(self) -> str:
        """PyTorch's name of the scalar: ``"Float"``."""
        return _ROWS[self.name][0]

    def torch_name(self) -> str:
        """The name in C++: ``"int64_t"``."""
        return _ROWS[self.name][1]

    def onnx_type(self) -> TensorProtoDataType:
        """ONNX' type of elements."""
        if self is JitScalarType.UNDEFINED:
            raise KeyError(self)
        return TensorProtoDataType[_ROWS[self.name][3]]

    def onnx_compatible(self) -> bool:
        """Whether ONNX has the type."""
        return self not in (JitScalarType.UNDEFINED, JitScalarType.COMPLEX32)

    def dtype(self):
        """The dtype."""
        name = _ROWS[self.name][2]
        found = None if name is None else _dtype._NAMES.get(name)
        if found is None:
            raise KeyError(self)
        return found
