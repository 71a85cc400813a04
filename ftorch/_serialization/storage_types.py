"""Storages as files name them: a class for each of some dtypes."""

from __future__ import annotations

from .._old_names import place_in
from ..eager.core import dtype as _dtype

# Dtypes that files name by the class of a typed storage; the others come as UntypedStorage.
_TYPED = frozenset(
    (
        "Double Float Half BFloat16 Long Int Short Char Byte Bool ComplexDouble ComplexFloat QUInt8 QInt8 QInt32 "
        "QUInt4x2 QUInt2x4"
    ).split()
)


class StorageType:
    """A storage class as files name it; ``dtype`` is None for UntypedStorage."""

    def __init__(self, name: str, dtype: _dtype.dtype | None):
        self.name, self.dtype = name, dtype
        self.itemsize = dtype.itemsize if dtype else 1

    def __str__(self):
        return f"StorageType(dtype={self.dtype})"


UNTYPED = StorageType("UntypedStorage", None)
STORAGE_TYPES = {
    f"{d.scalar_name}Storage": StorageType(f"{d.scalar_name}Storage", d)
    for d in _dtype.ALL
    if d.scalar_name in _TYPED
}
STORAGE_TYPE_OF = {s.dtype: s for s in STORAGE_TYPES.values()}

place_in("serialization", StorageType)
