"""How tensors and storages travel between processes (``torch.multiprocessing.reductions``).

A tensor of the CPU that is sent has its memory shared from then on, as in PyTorch: what one process writes the others see. The
bytes of a small one travel with it, for receivers that come when the sender has ended, where PyTorch's fail.
"""

from __future__ import annotations

import os
import threading
import weakref
from multiprocessing.reduction import DupFd, ForkingPickler

import numpy as np

from ..eager.core.device import CPU
from ..eager.core.geometry import Size, geometry
from ..eager.memory import shared_memory
from ..eager.memory.storage import Storage
from ..eager.tensor import Tensor, wrap_view
from ..nn.parameter import Parameter

__all__ = [
    "SharedCache", "StorageWeakRef", "init_reductions", "rebuild_event", "rebuild_storage_empty", "rebuild_tensor",
    "reduce_storage", "reduce_tensor", "shared_cache",
]


class StorageWeakRef:
    """A weak reference to a storage, equal and hashed by the memory it refers to.

    >>> import ftorch as torch
    >>> from ftorch.multiprocessing.reductions import StorageWeakRef
    >>> x = torch.ones(4)
    >>> StorageWeakRef(x.untyped_storage()) == StorageWeakRef(x[1:].untyped_storage())
    True
    """

    __slots__ = ("cdata", "_reference")

    def __init__(self, storage):
        self.cdata = storage._cdata
        self._reference = weakref.ref(storage._cell)

    @classmethod
    def from_weakref(cls, cdata):
        """A reference that was taken apart; it is dead."""
        made = cls.__new__(cls)
        made.cdata, made._reference = cdata, lambda: None
        return made

    def expired(self) -> bool:
        """Whether the memory is gone."""
        return self._reference() is None

    def __hash__(self):
        return self.cdata

    def __eq__(self, other):
        return self is other or self.cdata == other.cdata


class SharedCache(dict):
    """Storages by their handles; nothing is shared here, so nothing is ever found."""

    def __init__(self):
        super().__init__()
        self.limit = 128
        self.lock = threading.Lock()

    def get(self, key):  # type: ignore[override]
        """The reference of a handle, or None."""
        with self.lock:
            return dict.get(self, key)

    def free_dead_references(self) -> None:
        """Forgets the storages that are gone."""
        with self.lock:
            for key, reference in list(self.items()):
                if reference.expired():
                    del self[key]


shared_cache = SharedCache()
_SMALL = 1 << 16  # bytes of storages that travel twice


def reduce_tensor(tensor):
    """(a function, its arguments) that make the tensor again.

    Raises:
        RuntimeError: for a tensor that a graph computed: its history cannot travel.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not "
            "support crossing process boundaries.  If you just want to transfer the data, call detach() on "
            "the tensor before serializing (e.g., putting it on the queue)."
        )
    cell, g = tensor._ftorch_storage, tensor._ftorch_geometry
    if (
        type(tensor) not in (Tensor, Parameter)
        or g.device is not CPU or g.bits or not cell.nbytes or not cell.has_memory()
    ):
        return tensor.__reduce_ex__(2)
    shared_memory.share(cell)
    memory = shared_memory.mapping(cell)
    if memory is None:  # a file of the user's
        return tensor.__reduce_ex__(2)
    data = cell.host.tobytes() if cell.nbytes <= _SMALL else None
    where = DupFd(memory.file) if memory.name is None else memory.name
    return _rebuild_shared, (where, data, cell.root.numel, cell.root.dtype, g.dtype, tensor._ftorch_offset,
                             tuple(g.shape), g.stride, tensor.requires_grad, type(tensor) is Parameter)


def _rebuild_shared(where, data, numel, stored, dtype, offset, size, stride, requires_grad, is_parameter):
    """A tensor of a storage that another process shares; of its bytes, where they are known, if that process has ended."""
    root = geometry(Size((numel,)), stored, CPU)
    try:
        if isinstance(where, str):
            cell = shared_memory.open_shared(os.open(where, os.O_RDWR | os.O_CLOEXEC), root, where)
        else:
            cell = shared_memory.open_shared(where.detach(), root)
    except (OSError, EOFError) as error:
        if data is None:
            if isinstance(where, str) and isinstance(error, OSError):
                raise RuntimeError(
                    f"unable to open shared memory object <{where}> in read-write mode: {error.strerror} ({error.errno})"
                ) from None
            raise
        cell = Storage(root)
        cell.host = np.frombuffer(bytearray(data), stored.numpy)
    made = wrap_view(cell, geometry(Size(size), dtype, CPU, tuple(stride)), offset, None)
    return Parameter(made, requires_grad) if is_parameter else made.requires_grad_(requires_grad)


def init_reductions() -> None:
    """Tells `ForkingPickler` how tensors travel."""
    for kind in (Tensor, Parameter):
        ForkingPickler.register(kind, reduce_tensor)


def rebuild_tensor(cls, storage, metadata):
    """A tensor of a storage: (offset, size, stride, requires_grad)."""
    from .._utils import _rebuild_tensor

    offset, size, stride, requires_grad = metadata
    made = _rebuild_tensor(storage, offset, size, stride)
    return Parameter(made, requires_grad) if cls is Parameter else made.requires_grad_(requires_grad)


def reduce_storage(storage):
    """(a function, its arguments) that make the storage again."""
    return storage.__reduce_ex__(2)


def rebuild_storage_empty(cls):
    """An empty storage."""
    return cls()


def rebuild_event(device, handle):
    """Raises RuntimeError: events of JAX's devices stay in their process."""
    raise RuntimeError("events cannot be sent to other processes: XLA orders the work of a device itself")
