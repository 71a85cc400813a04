"""``torch.UntypedStorage`` and ``TypedStorage``: a tensor's memory as users see it."""

from __future__ import annotations

import numpy as np

from . import device as _device
from . import dtype as _dtype
from .geometry import Size, geometry
from .op import to_numpy
from .storage import Storage
from .tensor import wrap_view


def _bytes_of(cell: Storage) -> np.ndarray:
    """The storage's bytes in memory order; shared with it on the CPU."""
    if cell.root.device is _device.CPU:
        return cell.share_host().view(np.uint8)
    g = cell.root
    flat = wrap_view(cell, geometry(Size((g.numel,)), g.dtype, g.device), 0, None)
    return np.array(to_numpy(flat)).view(np.uint8)


class UntypedStorage:
    """The bytes that one or several tensors share.

    >>> import ftorch as torch
    >>> torch.zeros(3).untyped_storage().nbytes()
    12
    """

    def __init__(self, size=0, *, device=None, _cell=None):
        if _cell is None:
            import jax.numpy as jnp

            where = _device.resolve(device)
            values = size if not isinstance(size, int) else None
            data = jnp.zeros(size, np.uint8) if values is None else jnp.asarray(values, np.uint8)
            _cell = Storage(geometry(Size(data.shape), _dtype.uint8, where), data)
        self._cell = _cell

    def nbytes(self):
        """The size in bytes."""
        return self._cell.nbytes

    size = nbytes
    __len__ = nbytes

    def data_ptr(self):
        """A number that identifies the storage."""
        return id(self._cell) * 64 if self._cell.nbytes else 0

    @property
    def device(self):
        return self._cell.root.device

    @property
    def is_cuda(self):
        return self.device.type == "cuda"

    def element_size(self):
        return 1

    def __getitem__(self, index):
        value = _bytes_of(self._cell)[index]
        return int(value) if isinstance(index, int) else UntypedStorage(value.tolist())

    def __setitem__(self, index, value):
        _bytes_of(self._cell)[index] = value
        self._cell.version += 1

    def tolist(self):
        """The bytes as a list."""
        return _bytes_of(self._cell).tolist()

    def resize_(self, nbytes):
        """Grows or shrinks the storage; new bytes are zero."""
        cell = self._cell
        old = _bytes_of(cell).copy() if cell.nbytes else np.empty(0, np.uint8)
        new = np.zeros(nbytes, np.uint8)
        new[: min(nbytes, old.size)] = old[:nbytes]
        item = cell.root.dtype.itemsize
        cell.root = geometry(Size((nbytes // item,)), cell.root.dtype, cell.root.device)
        cell.host, cell.array, cell.trace = new.view(cell.root.dtype.numpy), None, None
        return self

    def copy_(self, source, non_blocking=None):
        """Copies another storage's bytes."""
        _bytes_of(self._cell)[:] = _bytes_of(source._cell)
        self._cell.version += 1
        return self

    def clone(self):
        return UntypedStorage(self.tolist())

    def cpu(self):
        return self

    def untyped(self):
        return self

    def is_shared(self):
        return False

    def share_memory_(self):
        return self

    def __eq__(self, other):
        return isinstance(other, UntypedStorage) and self._cell is other._cell

    def __hash__(self):
        return id(self._cell)

    def __repr__(self):
        lines = "".join(f" {b}\n" for b in self.tolist())
        return f"{lines}[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


class TypedStorage:
    """A storage seen as elements of one dtype (the older interface).

    >>> import ftorch as torch
    >>> torch.zeros(3).storage().size()
    3
    """

    def __init__(self, cell, dtype):
        self._cell = cell
        self.dtype = dtype

    def untyped(self):
        return UntypedStorage(_cell=self._cell)

    _untyped_storage = property(untyped)

    def size(self):
        """The number of elements."""
        return self._cell.nbytes // self.dtype.itemsize

    _size = size
    __len__ = size

    def nbytes(self):
        return self._cell.nbytes

    def element_size(self):
        return self.dtype.itemsize

    def data_ptr(self):
        return self.untyped().data_ptr()

    _data_ptr = data_ptr

    @property
    def device(self):
        return self._cell.root.device

    def _values(self):
        return _bytes_of(self._cell).view(self.dtype.numpy)

    def __getitem__(self, index):
        return self._values()[index].item() if isinstance(index, int) else self.tolist()[index]

    def __setitem__(self, index, value):
        self._values()[index] = value
        self._cell.version += 1

    def tolist(self):
        """The elements as a list."""
        return self._values().tolist()

    def __iter__(self):
        return iter(self.tolist())

    def is_shared(self):
        return False

    def __repr__(self):
        lines = "".join(f" {v}\n" for v in self.tolist())
        return (
            f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size "
            f"{self.size()}]"
        )
