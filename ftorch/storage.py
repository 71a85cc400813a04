"""Storages of tensors (``torch.storage``)."""

from .eager.storages import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
