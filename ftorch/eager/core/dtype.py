"""Data types, their promotion, and numeric limits (``torch.dtype``, ``torch.finfo``, ``torch.iinfo``)."""

from __future__ import annotations

import builtins
import math

import ml_dtypes
import numpy as np

_BOOL, _INT, _FLOAT, _COMPLEX = range(4)


class dtype:
    """A tensor's element type. Instances are singletons: compare with ``is`` or ``==``.

    Attributes:
        itemsize: bytes per element.
        is_floating_point, is_complex: PyTorch's flags.
        numpy: the NumPy (or ``ml_dtypes``) dtype that JAX stores it in.
        category: 0 bool, 1 integer, 2 floating point, 3 complex; promotion never lowers it.
        stored: whether JAX has no such dtype, and ``numpy`` is another one's that stands in for it.
        is_shell: whether tensors of it can be made, viewed and copied, and nothing else.
    """

    __module__ = "ftorch"

    __slots__ = (
        "name", "numpy", "category", "itemsize", "is_floating_point", "is_complex",
        "abbreviation", "scalar_name", "stored", "is_shell", "_index",
    )

    def __init__(self, name, numpy_dtype, category, scalar_name, abbreviation, itemsize=None,
                 is_shell=False):
        self.name = name
        self.numpy = np.dtype(numpy_dtype)
        self.category = category
        self.itemsize = itemsize or self.numpy.itemsize
        self.stored, self.is_shell = is_shell or itemsize is not None, is_shell
        self.is_floating_point = category == _FLOAT
        self.is_complex = category == _COMPLEX
        self.scalar_name = scalar_name
        self.abbreviation = abbreviation
        self._index = len(ALL)
        ALL.append(self)

    @property
    def is_signed(self) -> builtins.bool:
        """Whether there are negative numbers of it.

        Raises:
            RuntimeError: for dtypes of quantized tensors, and of bits that mean nothing.
        """
        if self.is_shell and self.name[0] in "qb":
            if self.name.startswith("q"):
                raise RuntimeError("isSignedType not supported for quantized types")
            raise RuntimeError("Bits types are undefined")
        return self.category >= _FLOAT and self is not float8_e8m0fnu or self.numpy.kind == "i"

    def __repr__(self):
        return f"torch.{self.name}"

    def __reduce__(self):
        return _by_name, (self.name,)

    @property
    def c_name(self) -> str:
        """The C++ type, as PyTorch's messages spell most of them: ``unsigned char``."""
        return _C_NAMES.get(self.name) or f"c10::{self.scalar_name}"

    @property
    def cpp_name(self) -> str:
        """The C++ type as in "cannot be converted to type uint8_t without overflow"."""
        is_sized = self.category == _INT and self is not int32
        return f"{self.name}_t" if is_sized else self.c_name

    def to_real(self) -> dtype:
        """The dtype of the real part."""
        return _TO_REAL.get(self, self)

    def to_complex(self) -> dtype:
        """The complex dtype whose parts have this dtype."""
        if self not in _TO_COMPLEX and not self.is_complex:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.scalar_name}")
        return _TO_COMPLEX.get(self, self)


ALL: list[dtype] = []

uint8 = dtype("uint8", np.uint8, _INT, "Byte", "u8")
int8 = dtype("int8", np.int8, _INT, "Char", "i8")
int16 = dtype("int16", np.int16, _INT, "Short", "i16")
int32 = dtype("int32", np.int32, _INT, "Int", "i32")
int64 = dtype("int64", np.int64, _INT, "Long", "i64")
float16 = dtype("float16", np.float16, _FLOAT, "Half", "f16")
float32 = dtype("float32", np.float32, _FLOAT, "Float", "f32")
float64 = dtype("float64", np.float64, _FLOAT, "Double", "f64")
complex64 = dtype("complex64", np.complex64, _COMPLEX, "ComplexFloat", "c64")
complex128 = dtype("complex128", np.complex128, _COMPLEX, "ComplexDouble", "c128")
bool = dtype("bool", np.bool_, _BOOL, "Bool", "b8")
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, _FLOAT, "BFloat16", "bf16")
uint16 = dtype("uint16", np.uint16, _INT, "UInt16", "u16")
uint32 = dtype("uint32", np.uint32, _INT, "UInt32", "u32")
uint64 = dtype("uint64", np.uint64, _INT, "UInt64", "u64")
float8_e5m2 = dtype("float8_e5m2", ml_dtypes.float8_e5m2, _FLOAT, "Float8_e5m2", "f8e5m2")
float8_e4m3fn = dtype("float8_e4m3fn", ml_dtypes.float8_e4m3fn, _FLOAT, "Float8_e4m3fn", "f8e4m3fn")
float8_e5m2fnuz = dtype(
    "float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, _FLOAT, "Float8_e5m2fnuz", "f8e5m2fnuz"
)
float8_e4m3fnuz = dtype(
    "float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, _FLOAT, "Float8_e4m3fnuz", "f8e4m3fnuz"
)
float8_e8m0fnu = dtype(
    "float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, _FLOAT, "Float8_e8m0fnu", "f8e8m0fnu"
)
# Half-precision complex numbers are computed in single precision and rounded (`planning`).
complex32 = dtype("complex32", np.complex64, _COMPLEX, "ComplexHalf", "c32", itemsize=4)


def _shell(name, numpy_dtype=np.uint8, category=_INT, scalar_name=None):
    if scalar_name is None:
        scalar_name = name[:1].upper() + name[1:]
        for start in ("Uint", "Qint", "Quint"):
            scalar_name = scalar_name.replace(start, start[:-3].upper() + "Int")
    return dtype(name, numpy_dtype, category, scalar_name, name, is_shell=True)


int1, int2, int3, int4, int5, int6, int7 = (_shell(f"int{n}", np.int8) for n in range(1, 8))
uint1, uint2, uint3, uint4, uint5, uint6, uint7 = (_shell(f"uint{n}") for n in range(1, 8))
bits8, bits1x8, bits2x4, bits4x2 = map(_shell, ("bits8", "bits1x8", "bits2x4", "bits4x2"))
bits16 = _shell("bits16", np.uint16)
quint8, quint4x2, quint2x4 = map(_shell, ("quint8", "quint4x2", "quint2x4"))
qint8, qint32 = _shell("qint8", np.int8), _shell("qint32", np.int32)
float4_e2m1fn_x2 = _shell("float4_e2m1fn_x2", np.uint8, _FLOAT)
bit = uint1

# PyTorch's second names, and the Python types it accepts as dtypes.
half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
chalf, cfloat, cdouble = complex32, complex64, complex128

_C_NAMES = {
    "uint8": "unsigned char", "int8": "signed char", "int16": "short int", "int32": "int",
    "int64": "long int", "uint16": "short unsigned int", "uint32": "unsigned int",
    "uint64": "long unsigned int", "float32": "float", "float64": "double", "bool": "bool",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}
_TO_REAL = {complex32: float16, complex64: float32, complex128: float64}
_TO_COMPLEX = {float16: complex32, bfloat16: complex64, float32: complex64, float64: complex128}
_NAMES = {d.name: d for d in ALL}
_FROM_NUMPY = {d.numpy: d for d in ALL if not d.stored}
_FROM_PYTHON = {
    type(True): bool,
    type(1): int64,
    type(1.0): float32,  # replaced by the default dtype in `from_python`
    complex: complex64,
}


def _by_name(name):
    return _NAMES[name]


def from_numpy(numpy_dtype) -> dtype:
    """The ftorch dtype of a NumPy or JAX dtype.

    Raises:
        TypeError: for dtypes that tensors cannot hold (strings, objects, dates).
    """
    try:
        return _FROM_NUMPY[numpy_dtype]
    except (KeyError, TypeError):
        pass
    found = _FROM_NUMPY.get(np.dtype(numpy_dtype).newbyteorder("="))
    if found is None:
        raise TypeError(
            f"can't convert np.ndarray of type {np.dtype(numpy_dtype).type.__module__}."
            f"{np.dtype(numpy_dtype).type.__name__}. The only supported types are: float64, "
            "float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, "
            "uint16, uint8, and bool."
        )
    return found


def from_python(python_type) -> dtype:
    """The dtype of a Python number type, as a wrapped number has it."""
    if python_type is type(1.0):
        return default
    if python_type is complex:
        return default.to_complex()
    return _FROM_PYTHON[python_type]


# --- the default dtype ---------------------------------------------------------------

default = float32
on_default_change: list = []  # called after a change: caches of plans depend on the default


def get_default_dtype() -> dtype:
    """The dtype of new floating-point tensors (``torch.get_default_dtype``).

    >>> import ftorch as torch
    >>> torch.get_default_dtype()
    torch.float32
    """
    return default


def set_default_dtype(d: dtype) -> None:
    """Sets the dtype of new floating-point tensors (``torch.set_default_dtype``).

    Raises:
        TypeError: unless ``d`` is a floating-point dtype.
    """
    global default
    if not isinstance(d, dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    if d is not default:
        default = d
        for callback in on_default_change:
            callback()


# --- promotion -----------------------------------------------------------------------

_SIGNED_ABOVE = {1: int16, 2: int32, 4: int64}
_FLOAT_ORDER = {float16: 1, bfloat16: 1, float32: 2, float64: 3}
_COMPLEX_OF_FLOAT = {
    float16: complex32, bfloat16: complex64, float32: complex64, float64: complex128,
}


def _promote(a: dtype, b: dtype) -> dtype:
    if a is b:
        return a
    _check_shells(a, b)
    if (a in _BARE or b in _BARE) and max(a.category, b.category) == _INT:
        raise RuntimeError(
            f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {a.scalar_name} and "
            f"{b.scalar_name}"
        )
    if a.category > b.category:
        a, b = b, a
    if a.category != b.category:
        if b.is_complex and a.is_floating_point:
            return _promote(_COMPLEX_OF_FLOAT.get(a, complex64), b)
        return b
    if "float8" in a.name or "float8" in b.name:
        raise RuntimeError(
            f"Promotion for Float8 Types is not supported, attempted to promote {a.scalar_name} "
            f"and {b.scalar_name}"
        )
    if a.is_floating_point:
        if _FLOAT_ORDER[a] == _FLOAT_ORDER[b]:
            return float32
        return a if _FLOAT_ORDER[a] > _FLOAT_ORDER[b] else b
    if a.is_complex:
        return complex128 if complex128 in (a, b) else complex64
    if a.is_signed == b.is_signed:
        return a if a.itemsize > b.itemsize else b
    unsigned, signed = (b, a) if a.is_signed else (a, b)
    return signed if signed.itemsize > 1 else _SIGNED_ABOVE[unsigned.itemsize]


_BARE = frozenset((uint16, uint32, uint64))  # without a place among the others


def _check_shells(a, b):
    for d in (a, b):
        if d.is_shell:
            raise RuntimeError(
                f"Promotion from {a.scalar_name} and {b.scalar_name} is unsupported."
            )


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype that both can be cast to (``torch.promote_types``).

    >>> import ftorch as torch
    >>> torch.promote_types(torch.uint8, torch.long)
    torch.int64
    """
    _expect_dtypes("promote_types", type1=type1, type2=type2)
    return _promote(type1, type2)


def can_cast(from_: dtype, to: dtype) -> type(True):  # type: ignore[valid-type]
    """Whether an in-place operation may cast ``from_`` to ``to`` (``torch.can_cast``).

    >>> import ftorch as torch
    >>> torch.can_cast(torch.double, torch.int)
    False
    """
    _expect_dtypes("can_cast", from_=from_, to=to)
    return from_.category <= to.category


def _expect_dtypes(function, **given):
    for i, (name, value) in enumerate(given.items()):
        if not isinstance(value, dtype):
            raise TypeError(
                f"{function}(): argument '{name}' (position {i + 1}) must be torch.dtype, not {type(value).__name__}"
            )


def _of_python(given):
    """The dtype that one of Python's types stands for; others as they are."""
    known = {builtins.float: float64, builtins.int: int64, complex: complex128, builtins.bool: bool}
    return known.get(given, given) if isinstance(given, builtins.type) else given


class _Limits:
    """The common part of `finfo` and `iinfo`."""

    __slots__ = ("_dtype", "_info")

    @property
    def dtype(self):
        return self._dtype.name

    @property
    def bits(self):
        return self._dtype.itemsize * 8

    def __reduce_ex__(self, protocol):
        raise TypeError(f"cannot pickle 'torch.{type(self).__name__}' object")

    def __eq__(self, other):
        return type(self) is type(other) and self._dtype is other._dtype

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self):
        fields = ", ".join(f"{name}={getattr(self, name):g}" for name in self._printed)
        return f"{type(self).__name__}({fields}, dtype={self.dtype})"


class finfo(_Limits):
    """Limits of a floating-point dtype (``torch.finfo``): bits, eps, max, min, tiny, resolution.

    Raises:
        TypeError: for integer and boolean dtypes.

    >>> import ftorch as torch
    >>> torch.finfo(torch.float16).max
    65504.0
    """

    __slots__ = ()
    __module__ = "ftorch"
    _printed = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")

    def __init__(self, type: dtype | None = None):
        type = default if type is None else _of_python(type)
        _expect_dtypes("finfo", type=type)
        if type.category < _FLOAT or type.is_shell:
            raise TypeError("torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'")
        self._dtype = type.to_real()
        self._info = ml_dtypes.finfo(self._dtype.numpy)

    max = property(lambda self: self._number(self._info.max))
    min = property(lambda self: self._number(self._info.min))
    eps = property(lambda self: self._number(self._info.eps))
    tiny = property(lambda self: self._number(self._info.tiny))
    smallest_normal = property(lambda self: self._number(self._info.smallest_normal))
    resolution = property(lambda self: 10.0 ** -math.floor(self._info.nmant * math.log10(2)))

    @staticmethod
    def _number(value):
        return np.float64(value).item()


class iinfo(_Limits):
    """Limits of an integer dtype (``torch.iinfo``): bits, max, min.

    Raises:
        TypeError: for floating-point, complex and boolean dtypes.

    >>> import ftorch as torch
    >>> torch.iinfo(torch.int8).min
    -128
    """

    __slots__ = ()
    __module__ = "ftorch"
    _printed = ("min", "max")

    # What quantized dtypes keep their integers in.
    _KEPT = {"torch.quint8": np.uint8, "torch.qint8": np.int8, "torch.qint32": np.int32}

    def __init__(self, type: dtype):
        type = _of_python(type)
        if kept := self._KEPT.get(str(type)):
            self._dtype, self._info = type, np.iinfo(kept)
            return
        _expect_dtypes("iinfo", type=type)
        if type.category == 0:
            raise TypeError(f"{type} is not supported by torch.iinfo")
        if type.category != _INT or type.is_shell:
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        self._dtype = type
        self._info = np.iinfo(type.numpy)

    max = property(lambda self: self._info.max.__int__())
    min = property(lambda self: self._info.min.__int__())
