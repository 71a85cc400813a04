"""Storages of tensors (``torch.storage``)."""

from .eager.tensor_api.storages import TypedStorage, UntypedStorage


class _Instances(type):
    def __instancecheck__(cls, other):
        return isinstance(other, UntypedStorage)

    def __subclasscheck__(cls, other):
        return cls is StorageBase and issubclass(other, UntypedStorage)


class StorageBase(metaclass=_Instances):
    """What PyTorch's storages of bytes inherit from: every `UntypedStorage` is an instance."""

    def __new__(cls, *args, **kwargs):
        raise RuntimeError("StorageBase cannot be constructed: use torch.UntypedStorage.")


__all__ = ["TypedStorage", "UntypedStorage"]


def _load_from_bytes(b: bytes):
    """What PyTorch's pickles (``pickle.dumps(tensor)``) name for a storage: its file as bytes."""
    import io

    from .serialization import load

    return load(io.BytesIO(b), weights_only=False)


def __getattr__(name):
    if name in ("Storage", "FloatStorage"):  # the older class of the default dtype
        import importlib

        return importlib.import_module(__package__).FloatStorage
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
