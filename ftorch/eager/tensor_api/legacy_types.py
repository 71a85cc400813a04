"""The older names of tensor types: ``torch.FloatTensor``, ``x.type()``, ``torch.LongTensor(3)``."""

from __future__ import annotations

import numpy as np

from ..core import api
from ..core import device as _device
from ..core import dtype as _dtype
from ..core.geometry import Size
from ..dispatch.overrides import DisableTorchFunction
from ..tensor import DISPATCHING, Tensor, TensorBase, check_free
from .conversions import alias, retyped
from .storages import TypedStorage, UntypedStorage

_BY_NAME = {
    d.scalar_name: d
    for d in (
        _dtype.float32, _dtype.float64, _dtype.float16, _dtype.bfloat16, _dtype.uint8, _dtype.int8,
        _dtype.int16, _dtype.int32, _dtype.int64, _dtype.bool, _dtype.complex64, _dtype.complex128,
    )
}


def type_name(t) -> str:
    """``x.type()``: ``"torch.FloatTensor"``, ``"torch.cuda.LongTensor"``."""
    place = "" if t.device.type == "cpu" else f"{t.device.type}."
    return f"torch.{place}{t.dtype.scalar_name}Tensor"


def type_target(given):
    """The ``to`` arguments of ``x.type(given)``: a dtype, a type's name or a type."""
    if isinstance(given, _dtype.dtype):
        return (given,)
    if isinstance(given, type) and isinstance(given, _TypeMeta):
        return (given.device_type, given.dtype) if given.device_type != "cpu" else (given.dtype,)
    if given in (bool, int, float, complex):
        return (given,)
    if not isinstance(given, (str, type)):
        raise TypeError("dtype must be a type, str, or dtype object")
    name = given if isinstance(given, str) else f"{given.__module__}.{given.__name__}"
    if name == "torch.Tensor":
        return (_dtype.get_default_dtype(),)
    parts = name.split(".")
    dtype = _BY_NAME.get(parts[-1].removesuffix("Tensor"))
    if dtype is None or parts[0] != "torch" or parts[1] == "meta":
        raise ValueError(f"invalid type: '{name}'")
    return (parts[1], dtype) if len(parts) == 3 else (dtype,)


def _construct(args, dtype, where, is_typed=True):
    """A tensor by the older constructors: of sizes, of data, or of another tensor (shared)."""
    if not args:
        return api.empty(0, dtype=dtype, device=where)
    if all(isinstance(a, (int, np.integer)) and not isinstance(a, bool) for a in args):
        return api.empty(*args, dtype=dtype, device=where)
    if len(args) > 1:
        raise TypeError(
            "new() received an invalid combination of arguments - got "
            f"({', '.join(type(a).__name__ for a in args)})"
        )
    (data,) = args
    if isinstance(data, Size):
        return api.empty(data, dtype=dtype, device=where)
    if isinstance(data, TensorBase):
        if is_typed and data.dtype is not dtype:
            raise TypeError(f"expected {_options(dtype)} (got {_options(data.dtype)})")
        return data.detach() if data.__class__ in DISPATCHING else alias(data)
    if isinstance(data, (TypedStorage, UntypedStorage)):
        kind = getattr(data, "dtype", dtype)
        if kind is not dtype:
            raise RuntimeError(f"Expected a Storage of type {dtype.scalar_name} or an UntypedStorage, but got type "
                               f"{kind.scalar_name} for argument 1 'storage'")
        return api.empty(0, dtype=dtype).set_(data)
    if isinstance(data, str):
        raise TypeError("new(): invalid data type 'str'")
    if isinstance(data, (float, bool, np.generic, type(None))):
        raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
    return api.tensor(data, dtype=dtype, device=where)


def _options(dtype):
    return (
        f"TensorOptions(dtype={cpp_name(dtype)}, device=cpu, layout=Strided, "
        "requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt))"
    )


_CPP_NAMES = {
    "Byte": "unsigned char", "Char": "signed char", "Short": "short int", "Long": "long int", "Half": "c10::Half",
    "BFloat16": "c10::BFloat16", "ComplexFloat": "c10::complex<float>", "ComplexDouble": "c10::complex<double>",
    "UInt16": "short unsigned int", "UInt32": "unsigned int", "UInt64": "long unsigned int",
    **{name: f"c10::{name.lower()}" for name in ("QInt8", "QUInt8", "QInt32", "QUInt4x2", "QUInt2x4")},
}


def cpp_name(dtype) -> str:
    """The name of a dtype's elements in C++, as some messages have it."""
    return _CPP_NAMES.get(dtype.scalar_name, dtype.scalar_name.lower())


_KEYWORDS = ("size", "data", "other")


def _with_keyword(args, keywords):
    """The one argument of an older constructor, which may be given by name."""
    if not keywords:
        return args
    name, value = next(iter(keywords.items()))
    if args or len(keywords) > 1 or name not in _KEYWORDS:
        wrong = next((k for k in keywords if k not in _KEYWORDS), name)
        given = [type(a).__name__ for a in args]
        given += [f"{k}={'torch.dtype' if isinstance(v, _dtype.dtype) else type(v).__name__}" for k, v in keywords.items()]
        raise TypeError(
            f"new() received an invalid combination of arguments - got ({', '.join(given)}), but expected one of:\n"
            f" * (*, torch.device device = None)\n      didn't match because some of the keywords were incorrect: {wrong}\n"
            " * (torch.Storage storage)\n * (Tensor other)\n * (tuple of ints size, *, torch.device device = None)\n"
            " * (object data, *, torch.device device = None)\n"
        )
    return (Size(value),) if name == "size" else (value,)


def check_place(device, kind: str, args, form: str = "constructor") -> None:
    """Raises for a ``device=`` that an older constructor cannot take.

    Raises:
        RuntimeError: it is of another type than the constructor's, or there is a tensor to share.
    """
    if device is None:
        return
    given = _device.device(device).type
    if given != kind:
        raise RuntimeError(f"legacy constructor expects device type: {kind} but device type: {given} was passed")
    if len(args) == 1 and isinstance(args[0], TensorBase):
        raise RuntimeError(_SHARING[form])


_SHARING = {
    "constructor": "Legacy tensor constructor of the form torch.Tensor(tensor, device=device) is not supported.  Use "
    "torch.tensor(...) or torch.as_tensor(...) instead.",
    "new": "Legacy tensor new of the form tensor.new(tensor, device=device) is not supported.  Use torch.as_tensor(...) "
    "instead.",
}


# Neither default devices nor modes of functions are asked for the older constructors, of either kind.
def _new(cls, *args, device=None, **keywords):
    """``torch.Tensor(...)``, and the same for subclasses: the default dtype."""
    if cls is Tensor:
        args = _with_keyword(args, keywords)
    check_place(device, "cpu", args)
    with DisableTorchFunction():
        out = _construct(args, _dtype.get_default_dtype(), "cpu" if device is None else device, is_typed=False)
    if cls is Tensor:
        return out
    check_free(out, cls)
    return retyped(out, cls)


Tensor.__new__ = _new  # type: ignore[assignment]


def is_legacy_type(value) -> bool:
    """Whether a class is one of the older types, such as ``torch.FloatTensor``."""
    return isinstance(value, _TypeMeta)


class _TypeMeta(type):
    """``isinstance(x, torch.FloatTensor)`` asks for the dtype and device."""

    dtype: _dtype.dtype
    device_type: str

    def __new__(mcs, name, bases, body):
        for base in bases:
            if isinstance(base, _TypeMeta):
                raise TypeError(f"type '{base.__module__}.{base.__name__}' is not an acceptable base type")
        return type.__new__(mcs, name, bases, body)

    def __instancecheck__(cls, instance):
        return (
            isinstance(instance, TensorBase)
            and instance._ftorch_geometry.dtype is cls.dtype
            and instance._ftorch_geometry.device.type == cls.device_type
        )

    def __call__(cls, *args, device=None, **keywords):
        check_place(device, cls.device_type, args)
        with DisableTorchFunction():
            return _construct(_with_keyword(args, keywords), cls.dtype, cls.device_type if device is None else device)

    def __repr__(cls):
        return f"<class '{cls.__module__}.{cls.__name__}'>"


def tensor_types(device_type: str = "cpu") -> dict[str, type]:
    """{"FloatTensor": type, ...} of one device type."""
    module = "torch" if device_type == "cpu" else f"torch.{device_type}"
    return {
        f"{name}Tensor": _TypeMeta(
            f"{name}Tensor", (), {"dtype": d, "device_type": device_type, "__module__": module}
        )
        for name, d in _BY_NAME.items()
        if not d.is_complex
    }


_CPU_TYPES = tensor_types()
