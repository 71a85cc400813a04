"""Storages of tensors (``torch.storage``)."""

from .eager.core import dtype as _dtypes
from .eager.tensor_api.legacy_storages import LegacyStorage as _LegacyStorage  # noqa: F401
from .eager.tensor_api.legacy_storages import (
    dtype_to_storage_type_map as _dtype_to_storage_type_map,  # noqa: F401
)
from .eager.tensor_api.legacy_storages import (
    storage_type_to_dtype_map as _storage_type_to_dtype_map,  # noqa: F401
)
from .eager.tensor_api.storages import TypedStorage, UntypedStorage


class _Instances(type):
    def __instancecheck__(cls, other):
        return isinstance(other, UntypedStorage) if cls is StorageBase else type.__instancecheck__(cls, other)

    def __subclasscheck__(cls, other):
        return issubclass(other, UntypedStorage) if cls is StorageBase else type.__subclasscheck__(cls, other)


class StorageBase(UntypedStorage, metaclass=_Instances):
    """What PyTorch's storages of bytes inherit from: every `UntypedStorage` is an instance. Only subclasses are made."""

    def __new__(cls, *args, **kwargs):
        if cls is StorageBase:
            raise RuntimeError("Cannot directly construct StorageBase; subclass it and then construct that")
        return super().__new__(cls)


__all__ = ["TypedStorage", "UntypedStorage"]


def _load_from_bytes(b: bytes):
    """What PyTorch's pickles (``pickle.dumps(tensor)``) name for a storage: its file as bytes."""
    import io

    from .serialization import load

    return load(io.BytesIO(b), weights_only=False)


def _forget_default():
    import sys

    vars(sys.modules[__package__]).pop("Storage", None)  # looked up again, of the new default


_dtypes.on_default_change.append(_forget_default)


def __getattr__(name):
    if name in ("Storage", "FloatStorage"):  # the older class of the default dtype
        import importlib

        kind = "Float" if name == "FloatStorage" else _dtypes.get_default_dtype().scalar_name
        return getattr(importlib.import_module(__package__), f"{kind}Storage")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
