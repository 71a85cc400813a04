"""The older classes of storages, one for each dtype: ``torch.FloatStorage``, ``torch.cuda.LongStorage``."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import dtype as _dtype
from .storages import LEGACY, TypedStorage, UntypedStorage

_NAMES = {d: f"{d.scalar_name}Storage" for d in LEGACY}
_QUANTIZED = {_dtype.qint8, _dtype.qint32, _dtype.quint8, _dtype.quint4x2, _dtype.quint2x4}


def dtype_to_storage_type_map() -> dict[_dtype.dtype, str]:
    """{torch.float32: "FloatStorage", ...}: the dtypes for which there is a class."""
    return dict(_NAMES)


def storage_type_to_dtype_map() -> dict[str, _dtype.dtype]:
    """{"FloatStorage": torch.float32, ...}."""
    return {name: d for d, name in _NAMES.items()}


class _LegacyMeta(type):
    """``torch.FloatStorage(...)`` makes a `TypedStorage` of the dtype, which is an instance of the class."""

    def __call__(cls, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        if cls._dtype is None:
            raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")
        wrong = (
            f"{cls}.__new__ received an invalid combination of arguments. Expected one of:\n * no arguments\n * (int size)\n"
            " * (Sequence data)\n * (*, UntypedStorage wrap_storage)\n"
        )
        for name, value in (("device", device), ("dtype", dtype)):
            if value is not None:
                raise RuntimeError(f"{wrong}Keyword argument '{name}' cannot be specified")
        if wrap_storage is None:
            if len(args) > 1:
                raise RuntimeError(f"{wrong}Too many positional arguments")
            if args and not isinstance(args[0], (int, Sequence)):
                raise TypeError(f"{wrong}Argument type not recognized: {type(args[0])}")
            return TypedStorage(*args, dtype=cls._dtype, device=cls._device)
        if args:
            raise RuntimeError(f"{wrong}No positional arguments should be given when using 'wrap_storage'")
        if not isinstance(wrap_storage, UntypedStorage):
            raise TypeError(f"{wrong}Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}")
        if wrap_storage.device.type != cls._device:
            raise RuntimeError(
                f"{wrong}Device of 'wrap_storage' must be {cls._device}, but got {wrap_storage.device.type}"
            )
        return TypedStorage(wrap_storage=wrap_storage, dtype=cls._dtype)

    def __instancecheck__(cls, instance):
        if cls._dtype is None:
            return type.__instancecheck__(cls, instance)
        return (
            isinstance(instance, TypedStorage) and instance.dtype is cls._dtype and instance.device.type == cls._device
        )

    @property
    def dtype(cls):
        """The dtype of the elements."""
        return cls._dtype


class LegacyStorage(TypedStorage, metaclass=_LegacyMeta):
    """What the older classes inherit from; has no instances."""

    _dtype: _dtype.dtype | None = None
    _device = "cpu"


class CudaLegacyStorage(LegacyStorage):
    """What the older classes of storages on a GPU inherit from."""

    _device = "cuda"

    @classmethod
    def from_buffer(cls, *args, **kwargs):
        """Raises RuntimeError: buffers are on the CPU."""
        raise RuntimeError("from_buffer: Not available for CUDA storage")

    @classmethod
    def _new_with_weak_ptr(cls, *args, **kwargs):
        raise RuntimeError("_new_with_weak_ptr: Not available for CUDA storage")

    @classmethod
    def _new_shared_filename(cls, manager, obj, size, *, device=None, dtype=None):
        raise RuntimeError("_new_shared_filename: Not available for CUDA storage")


LegacyStorage.__name__ = LegacyStorage.__qualname__ = "_LegacyStorage"
LegacyStorage.__module__ = "torch.storage"
CudaLegacyStorage.__name__ = CudaLegacyStorage.__qualname__ = "_CudaLegacyStorage"
CudaLegacyStorage.__module__ = "torch.cuda"


def _types(module: str, base: type, without=()) -> dict[str, type]:
    return {
        name: _LegacyMeta(name, (base,), {"_dtype": d, "__module__": module})
        for d, name in _NAMES.items() if d not in without
    }


_TYPES = {"torch": _types("torch", LegacyStorage), "torch.cuda": _types("torch.cuda", CudaLegacyStorage, _QUANTIZED)}
storage_classes = {UntypedStorage, TypedStorage, *_TYPES["torch"].values(), *_TYPES["torch.cuda"].values()}


def storage_types(module: str = "torch") -> dict[str, type]:
    """{"FloatStorage": type, ...}: the older classes, one for each dtype.

    Args:
        module: where they are: ``"torch"``, or ``"torch.cuda"`` for storages on a GPU.
    """
    return _TYPES[module]


def storage_type(storage: TypedStorage) -> type | None:
    """The older class of a storage; None if there is none."""
    module = {"cpu": "torch", "cuda": "torch.cuda"}.get(storage.device.type)
    return None if module is None else _TYPES[module].get(_NAMES.get(storage.dtype, ""))
