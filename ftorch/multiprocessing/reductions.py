"""How tensors and storages travel between processes (``torch.multiprocessing.reductions``): as their bytes, or, where
their memory is shared, by its name."""

from __future__ import annotations

import threading
import weakref
from multiprocessing.reduction import ForkingPickler

from ..eager.core.device import CPU
from ..eager.core.geometry import Size, geometry
from ..eager.memory import shared_memory
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
    cell = tensor._ftorch_storage
    name = shared_memory.name_of(cell) if type(tensor) in (Tensor, Parameter) else None
    if name is None:
        return tensor.__reduce_ex__(2)
    g = tensor._ftorch_geometry
    return _rebuild_shared, (name, cell.host.tobytes(), g.dtype, tensor._ftorch_offset, tuple(g.shape), g.stride,
                             tensor.requires_grad, type(tensor) is Parameter)


def _rebuild_shared(name, data, dtype, offset, size, stride, requires_grad, is_parameter):
    """A tensor of a storage that another process shares."""
    cell = shared_memory.opened(name, geometry(Size((len(data) // dtype.itemsize,)), dtype, CPU), data)
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
