"""``torch.UntypedStorage`` and ``TypedStorage``: a tensor's memory as users see it.

A storage's address is that of its elements: of JAX's buffer on the CPU, until somebody writes, or of the NumPy
buffer that the memory is shared with.
"""

from __future__ import annotations

import os
import weakref

import numpy as np

from ..._arrays import aligned_empty
from .. import native
from ..core import device as _device
from ..core import dtype as _dtype
from ..core.geometry import Size, geometry
from ..core.user_warnings import warn_once
from ..memory import host_memory
from ..memory.storage import Storage
from ..runtime.executor import copied_with
from ..tensor import TensorBase, wrap_view
from .storage_arguments import check_made, check_size, check_wrapped, untyped_argument, where
from .storage_memory import (
    bytes_of,
    cell_of,
    is_meta,
    map_file,
    memory_of_buffer,
    meta_cell,
    new_cell,
    read_bytes,
    write,
)
from .storage_sharing import SharedMemory, check_resizable


class BaseStorage(SharedMemory):
    """What both kinds of storages have in common, over `_cell`."""

    _cell: Storage
    is_sparse = False
    is_sparse_csr = False
    is_hpu = False

    def data_ptr(self) -> int:
        """The address of the first element; 0 where there is none."""
        return self._cell.address()

    @property
    def _cdata(self) -> int:
        return id(self._cell)

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def get_device(self) -> int:
        """The index of the device, -1 on the CPU."""
        return -1 if self.device.index is None else self.device.index

    def nbytes(self) -> int:
        """The size in bytes."""
        return self._cell.nbytes

    @property
    def filename(self) -> str | None:
        """The file that the memory is mapped from, if it is."""
        host = self._cell.host
        while host is not None and not isinstance(host, np.memmap):
            host = getattr(host, "base", None)
        name = getattr(host, "filename", None)
        return None if name is None else os.fspath(name)

    def _fix_weakref(self) -> None:
        """Does nothing: weak references to a storage are Python's own."""

    def _readable(self) -> np.ndarray:
        """The bytes, to be read.

        Raises:
            NotImplementedError: on the meta device.
        """
        if is_meta(self._cell):
            raise NotImplementedError("Not available for 'meta' device type")
        return read_bytes(self._cell)

    def _lines(self) -> str:
        values = "..." if is_meta(self._cell) else " " + "\n ".join(map(str, self.tolist()))  # type: ignore[attr-defined]
        return values + "\n"

    def __sizeof__(self):
        return object.__sizeof__(self) + self.nbytes()

    def __hash__(self):
        return id(self._cell)


def _place(index, size: int, kind: str):
    """An index as an int, with PyTorch's errors."""
    if not hasattr(index, "__index__"):
        raise TypeError(f"can't index a {kind} with {type(index).__name__}")
    place = int(index)
    if not -size <= place < size:
        raise IndexError(f"index {place + size if place < 0 else place} out of range for storage of size {size}")
    return place


_KNOWN: weakref.WeakValueDictionary[int, UntypedStorage] = weakref.WeakValueDictionary()


class UntypedStorage(BaseStorage):
    """The bytes that one or several tensors share.

    Args:
        args: how many, or the bytes as a sequence; nothing for none.
        device: where they are, by default on the CPU.

    >>> import ftorch as torch
    >>> torch.zeros(3).untyped_storage().nbytes()
    12
    """

    __module__ = "ftorch.storage"

    def __init__(self, *args, device=None, _cell=None, **more):
        if _cell is None:
            size = untyped_argument(args, device, more)
            if isinstance(size, int):
                _cell = new_cell(check_size(size), _dtype.uint8, device)
            else:
                _cell = cell_of(size, _dtype.uint8, _device.resolve(device))
        self._cell = _cell

    @staticmethod
    def of(cell: Storage) -> UntypedStorage:
        """The one object that stands for a storage, as long as somebody holds it."""
        known = _KNOWN.get(id(cell))
        if known is None:
            known = _KNOWN[id(cell)] = UntypedStorage(_cell=cell)
        return known

    @staticmethod
    def from_file(filename, shared=False, nbytes=0) -> UntypedStorage:
        """A file's contents, mapped into memory: read when they are used.

        Args:
            shared: whether writes go to the file, which is then made ``nbytes`` long; else they stay here.
            nbytes: how many bytes of the file; 0 for all of them where it is not shared.

        Raises:
            RuntimeError: the file cannot be read, or is too short.
        """
        return UntypedStorage(_cell=cell_of(map_file(filename, shared, nbytes)))

    @staticmethod
    def from_buffer(buffer, byte_order=None, count=-1, offset=0, *, dtype=_dtype.uint8) -> UntypedStorage:
        """A copy of a buffer's bytes.

        Args:
            dtype, byte_order: how its elements are written, ``"native"``, ``"little"`` or ``"big"``.
            count: how many elements, -1 for all; offset: the bytes before them.
        """
        memory = memory_of_buffer(buffer, dtype, byte_order, count, offset)
        return UntypedStorage(_cell=cell_of(memory.view(np.uint8)))

    size = BaseStorage.nbytes
    __len__ = BaseStorage.nbytes

    def element_size(self) -> int:
        """1: elements are bytes."""
        return 1

    def untyped(self):
        """The storage itself."""
        return self

    def __getitem__(self, index):
        if isinstance(index, slice):
            start, stop, step = index.indices(self.nbytes())
            if step != 1:
                raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
            self._readable()
            memory = bytes_of(self._cell)[start:stop] if start < stop else np.empty(0, np.uint8)
            return UntypedStorage(_cell=cell_of(memory, where=self._cell.root.device))
        return int(self._readable()[_place(index, self.nbytes(), "torch.UntypedStorage")])

    def __setitem__(self, index, value):
        if not isinstance(index, (int, slice)):
            raise RuntimeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
        if isinstance(value, int):
            value &= 255
        elif not isinstance(value, BaseStorage):
            raise RuntimeError(f"can only set storage content with a int types, but got {type(value).__name__} instead")
        write(self._cell, index, read_bytes(value._cell) if isinstance(value, BaseStorage) else value)

    def __iter__(self):
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """The bytes as a list."""
        return self._readable().tolist()

    def fill_(self, value):
        """Sets all bytes to a number."""
        if not isinstance(value, int):
            raise RuntimeError(f"fill_ expects int, but got {type(value).__name__}")
        write(self._cell, ..., value)
        return self

    def resize_(self, nbytes):
        """Grows or shrinks the storage; new bytes are zero.

        Raises:
            RuntimeError: it is not `resizable`.
        """
        if not isinstance(nbytes, int):
            raise RuntimeError(f"resize_ expects an int, but got {type(nbytes).__name__}")
        cell = self._cell
        check_size(nbytes)
        if is_meta(cell):
            cell.root = meta_cell(nbytes, cell.root.dtype).root
            return self
        check_resizable(cell)
        host_memory.check((nbytes,), np.dtype(np.uint8))
        old = read_bytes(cell)
        new = aligned_empty((nbytes,))
        new[...] = 0
        new[: min(nbytes, old.size)] = old[:nbytes]
        dtype = _dtype.uint8 if nbytes % cell.root.dtype.itemsize else cell.root.dtype
        cell.root = geometry(Size((nbytes // dtype.itemsize,)), dtype, cell.root.device)
        cell.host, cell.array, cell.trace = new.view(dtype.numpy), None, None
        return self

    def copy_(self, source, non_blocking=None):
        """Copies another storage's bytes."""
        if source.nbytes() != self.nbytes():
            raise RuntimeError(f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes")
        write(self._cell, ..., read_bytes(source._cell) if not is_meta(self._cell) else None)
        return self

    def clone(self):
        """A copy."""
        if is_meta(self._cell):
            return UntypedStorage(_cell=meta_cell(self.nbytes(), _dtype.uint8))
        return UntypedStorage(_cell=cell_of(read_bytes(self._cell).copy(), where=self.device))

    def __copy__(self):
        return self.clone()

    def __reduce__(self):
        return _rebuild, (None, read_bytes(self._cell).tobytes())

    def __deepcopy__(self, memo):
        return UntypedStorage.of(copied_with(self._cell, memo))

    def to(self, *, device, non_blocking=False):
        """The storage on a device: itself if it is there."""
        where = _device.canonical(_device.device(device))
        if where == self.device:
            return self
        return UntypedStorage(_cell=cell_of(read_bytes(self._cell), where=where))

    def cpu(self):
        """The storage on the CPU."""
        return self.to(device="cpu")

    def cuda(self, device=None, non_blocking=False):
        """The storage on a GPU."""
        return self.to(device="cuda" if device is None else _device.device("cuda", device))

    @classmethod
    def _new_shared(cls, size, *, device="cpu"):
        """A storage of a size that other processes can have."""
        return UntypedStorage(size, device=device).share_memory_() if str(device) != "meta" else cls(size, device="meta")

    def new(self):
        """An empty storage on the same device."""
        return UntypedStorage(0, device=self.device)

    def byteswap(self, dtype):
        """Reverses the bytes of each element of a dtype (of each part, if it is complex)."""
        width = dtype.itemsize // (2 if dtype.is_complex else 1)
        memory = bytes_of(self._cell)
        memory.reshape(-1, width)[...] = memory.reshape(-1, width)[:, ::-1].copy()
        self._cell.version += 1

    def type(self, dtype=None, non_blocking=False):
        """The type's name."""
        place = "" if self.device.type in ("cpu", "meta") else f"{self.device.type}."
        return f"torch.{place}UntypedStorage" if self.device.type != "cpu" else "torch.storage.UntypedStorage"

    def _write_file(self, f, is_real_file, save_size, element_size):
        """Writes the bytes to an open file, the number of elements before them if ``save_size``."""
        data = read_bytes(self._cell)
        if save_size:
            f.write((data.size // element_size).to_bytes(8, "little"))
        f.write(data.tobytes())

    def __eq__(self, other):
        return isinstance(other, UntypedStorage) and self._cell is other._cell

    __hash__ = BaseStorage.__hash__

    def __repr__(self):
        return f"{self._lines()}[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


def warn_of_typed() -> None:
    """PyTorch's warning, once in a process."""
    warn_once(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. "
        "This should only matter to you if you are using storages directly.  To access UntypedStorage directly, use "
        "tensor.untyped_storage() instead of tensor.storage()", stacklevel=3)


class TypedStorage(BaseStorage):
    """A storage seen as elements of one dtype (the older interface).

    Args:
        args: how many elements, or the elements; nothing for none.
        wrap_storage: an `UntypedStorage` whose memory it is.

    >>> import warnings; warnings.simplefilter("ignore")
    >>> import ftorch as torch
    >>> torch.zeros(3).storage().size()
    3
    >>> torch.TypedStorage([1, 2], dtype=torch.int16).tolist()
    [1, 2]
    """

    __module__ = "ftorch.storage"

    dtype: _dtype.dtype

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        if args and isinstance(args[0], Storage):  # our own
            self._cell, self.dtype = args[0], dtype
            return
        if wrap_storage is not None:
            check_wrapped(UntypedStorage, args, wrap_storage, dtype, device)
            self._cell, self.dtype = wrap_storage._cell, dtype
            return
        self.dtype = dtype or _dtype.get_default_dtype()
        check_made(args)
        place = where(device)
        if not args or isinstance(args[0], int):
            self._cell = new_cell(check_size((args[0] if args else 0) * self.dtype.itemsize), self.dtype, place)
        else:
            values = np.array(list(args[0])).astype(self.dtype.numpy)
            self._cell = cell_of(values, self.dtype, place)

    @classmethod
    def from_buffer(cls, buffer, byte_order=None, count=-1, offset=0, *, dtype=None, device=None):
        """A copy of a buffer's elements (see `UntypedStorage.from_buffer`)."""
        dtype = getattr(cls, "_dtype", None) or dtype or _dtype.get_default_dtype()
        memory = memory_of_buffer(buffer, dtype, byte_order, count, offset)
        return TypedStorage(cell_of(memory, dtype, _device.resolve(device)), dtype=dtype)

    _from_buffer = from_buffer

    @classmethod
    def from_file(cls, filename, shared=False, size=0, *, dtype=None):
        """A file's elements, mapped into memory (see `UntypedStorage.from_file`)."""
        dtype = getattr(cls, "_dtype", None) or dtype or _dtype.get_default_dtype()
        return TypedStorage(UntypedStorage.from_file(filename, shared, size * dtype.itemsize)._cell, dtype=dtype)

    def untyped(self) -> UntypedStorage:
        """The storage without a dtype."""
        return UntypedStorage.of(self._cell)

    _untyped_storage = property(untyped)

    def size(self) -> int:
        """The number of elements."""
        return self._cell.nbytes // self.dtype.itemsize

    _size = size
    __len__ = size

    def element_size(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    _element_size = element_size
    _data_ptr = BaseStorage.data_ptr
    _nbytes = BaseStorage.nbytes
    _is_shared = BaseStorage.is_shared
    _share_memory_ = BaseStorage.share_memory_

    def _new_shared(self, size, *, device=None):
        """A storage of a size and the same dtype that other processes can have."""
        bytes_ = UntypedStorage._new_shared(size * self.dtype.itemsize, device=device or "cpu")
        return TypedStorage(bytes_._cell, dtype=self.dtype)

    def tensor(self):
        """The elements as a tensor of one dimension that shares the memory."""
        g = geometry(Size((self.size(),)), self.dtype, self.device)
        return wrap_view(self._cell, g, 0, None)

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        return self._readable().view(self.dtype.numpy)[_place(index, self.size(), "torch.TypedStorage")].item()

    _getitem = __getitem__

    def __setitem__(self, index, value):
        if not isinstance(index, (int, slice)):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if isinstance(value, BaseStorage):
            raise RuntimeError(f"cannot set item with value type {type(value)}")
        write(self._cell, index, value, self.dtype.numpy)

    _setitem = __setitem__

    def fill_(self, value):
        """Sets all elements to a number."""
        self[:] = value
        return self

    def copy_(self, source, non_blocking=None):
        """Copies another storage's bytes."""
        self.untyped().copy_(source.untyped())
        return self

    def resize_(self, size):
        """Changes the number of elements."""
        self.untyped().resize_(size * self.dtype.itemsize)

    _resize_ = resize_

    def tolist(self) -> list:
        """The elements as a list."""
        return self._readable().view(self.dtype.numpy).tolist()

    def __iter__(self):
        return iter(self.tolist())

    def _wrapped(self, storage):
        return self if storage._cell is self._cell else TypedStorage(storage._cell, dtype=self.dtype)

    _new_wrapped_storage = _wrapped

    def clone(self):
        """A copy."""
        return self._wrapped(self.untyped().clone())

    def __copy__(self):
        return self.clone()

    def __reduce__(self):
        return _rebuild, (self.dtype, read_bytes(self._cell).tobytes())

    def __deepcopy__(self, memo):
        return self._wrapped(self.untyped().__deepcopy__(memo))

    _deepcopy = __deepcopy__

    def to(self, *, device, non_blocking=False):
        """The storage on a device."""
        return self._wrapped(self.untyped().to(device=device))

    def cpu(self):
        """The storage on the CPU."""
        return self.to(device="cpu")

    def cuda(self, device=None, non_blocking=False):
        """The storage on a GPU."""
        return self._wrapped(self.untyped().cuda(device))

    def _to(self, dtype):
        if dtype is self.dtype:
            return self
        if is_meta(self._cell):
            return TypedStorage(meta_cell(self.size() * dtype.itemsize, dtype), dtype=dtype)
        values = read_bytes(self._cell).view(self.dtype.numpy).astype(dtype.numpy)
        return TypedStorage(cell_of(values, dtype, self.device), dtype=dtype)

    @property
    def _legacy_name(self):
        name = self.dtype.scalar_name if self.dtype in LEGACY else None
        return None if name is None else f"{name}Storage"

    def pickle_storage_type(self) -> str:
        """The class's name in files: ``"FloatStorage"``.

        Raises:
            KeyError: there is none for the dtype.
        """
        if self._legacy_name is None:
            raise KeyError(f"dtype {self.dtype} is not recognized")
        return self._legacy_name

    _pickle_storage_type = pickle_storage_type

    def _write_file(self, f, is_real_file, save_size, element_size):
        """See `UntypedStorage._write_file`."""
        self.untyped()._write_file(f, is_real_file, save_size, element_size)

    def _get_legacy_storage_class(self):
        from .legacy_storages import storage_type

        return storage_type(self)

    def type(self, dtype=None, non_blocking=False):
        """The type's name, ``"torch.FloatStorage"``; with a dtype, the storage converted to it."""
        if dtype is not None:
            return self._to(dtype)
        place = "" if self.device.type in ("cpu", "meta") else f"{self.device.type}."
        return f"torch.{place}{self._legacy_name or 'storage.TypedStorage'}"

    def __eq__(self, other):
        return isinstance(other, TypedStorage) and self._cell is other._cell and self.dtype is other.dtype

    __hash__ = BaseStorage.__hash__

    def __repr__(self):
        return (
            f"{self._lines()}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size "
            f"{self.size()}]"
        )


def _rebuild(dtype, data: bytes):
    """A storage from its pickle: without a dtype an untyped one."""
    memory = aligned_empty((len(data),))
    memory[...] = np.frombuffer(data, np.uint8)
    if dtype is None:
        return UntypedStorage(_cell=cell_of(memory))
    return TypedStorage(cell_of(memory.view(dtype.numpy), dtype), dtype=dtype)


LEGACY = (  # the dtypes of which there are classes (`legacy_storages`), in PyTorch's order
    _dtype.float64, _dtype.float32, _dtype.float16, _dtype.int64, _dtype.int32, _dtype.int16, _dtype.int8, _dtype.uint8,
    _dtype.bool, _dtype.bfloat16, _dtype.complex128, _dtype.complex64, _dtype.qint8, _dtype.qint32, _dtype.quint8,
    _dtype.quint4x2, _dtype.quint2x4,
)
_CONVERSIONS = {
    "double": _dtype.float64, "float": _dtype.float32, "half": _dtype.float16, "bfloat16": _dtype.bfloat16,
    "long": _dtype.int64, "int": _dtype.int32, "short": _dtype.int16, "char": _dtype.int8,
    "byte": _dtype.uint8, "bool": _dtype.bool, "complex_double": _dtype.complex128,
    "complex_float": _dtype.complex64, "float8_e5m2": _dtype.float8_e5m2,
    "float8_e4m3fn": _dtype.float8_e4m3fn, "float8_e5m2fnuz": _dtype.float8_e5m2fnuz,
    "float8_e4m3fnuz": _dtype.float8_e4m3fnuz,
}


def _conversion(name, dtype):
    def typed(self):
        return self._to(dtype)

    def untyped(self):
        return TypedStorage(self._cell, dtype=_dtype.uint8)._to(dtype)

    for cls, function in ((TypedStorage, typed), (UntypedStorage, untyped)):
        function.__name__, function.__qualname__ = name, f"{cls.__name__}.{name}"
        function.__doc__ = f"The elements converted to {dtype}."
        setattr(cls, name, function)


for _name, _to in _CONVERSIONS.items():
    _conversion(_name, _to)
for _class in (UntypedStorage, TypedStorage):
    native.call_in_c(_class, "storage.", is_final=False)


def as_tensor_of(storage, dtype=None) -> TensorBase:
    """A storage as a tensor that shares its memory, whose bytes are taken for elements of a dtype.

    Args:
        dtype: if None that of a list of Python's numbers, int64; the default dtype for storages with a dtype.

    Raises:
        RuntimeError: the storage has another dtype.
    """
    if dtype is None and isinstance(storage, UntypedStorage) and storage.nbytes():
        dtype = _dtype.int64
    dtype = dtype or _dtype.get_default_dtype()
    if isinstance(storage, TypedStorage) and storage.dtype is not dtype:
        raise RuntimeError(f"Expected a Storage of type {dtype.scalar_name} or an UntypedStorage, but got "
                           f"{storage.dtype.scalar_name}")
    return TypedStorage(storage._cell, dtype=dtype).tensor()
