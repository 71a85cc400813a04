"""Storage: a mutable cell that holds an immutable array.

Tensors that alias share one storage. The array has the logical shape of the storage's *root*
geometry, whose strides say how its elements lie in (notional) memory; other tensors read and write
through their own geometry (`ftorch.eager.memory.view`). In deferred execution a storage is pending: its
value is a slot of a trace that has not run.
"""

from __future__ import annotations

import sys
import time
import weakref
from typing import Any

import numpy as np
from jax import Array
from jax.errors import JaxRuntimeError

from ..._arrays import aligned_copy, aligned_empty, is_aligned_memory
from ..core import device as _device
from ..core import jax_internals
from ..core.errors import another, translate_error
from ..core.geometry import Geometry, Size, geometry, memory_order
from ..core.refcount import ATTRIBUTE, LISTED

# The version of storages made in inference mode, which stays negative whatever is written to them.
INFERENCE = -(1 << 60)

# Called with a storage whose value somebody looks at, while a program is being captured.
on_look: list[Any] = [None]
on_new: list[Any] = [None]  # the same for a storage that is made with a value at hand

newest_level = [0]  # how many differentiating transforms there have been


_READ_BYTES = 1 << 18  # what is read from the user's memory for one program: up to so many JAX's array costs more than it saves
KEPT_BYTES = 4096  # arrays on the CPU of fewer are left with NumPy, which both tiers take as they are


class PrivateMap(np.memmap):
    """A file's bytes, mapped for this process alone: what is read of them need not be read again.

    A storage over a part of it has a copy from its first read on; writes by other storages over the same bytes
    are not seen there any more (writes by tensors of the storage are).
    """


_WORTH_WAITING = 1 << 20  # bytes from which memory that a program borrowed is waited for
_PART_OF_A_COPY = 8e-11  # s for a byte: a quarter of what a copy takes
_first_told: weakref.WeakValueDictionary[int, Storage] = weakref.WeakValueDictionary()  # of XLA's arrays
_told: weakref.WeakKeyDictionary[Storage, int] = weakref.WeakKeyDictionary()  # addresses that somebody has asked for


class Storage:
    """A cell. Its value is, in this order of precedence:

    - pending: ``slot`` of ``trace``;
    - ``array``: a ``jax.Array`` (or a tracer, inside JAX's transformations), or what the host tier made: an
      ``np.ndarray``, which nobody writes to while anything else holds it (`own_memory`);
    - ``host``: a NumPy buffer shared with the user, read anew each time;
    - nothing (the meta device).

    ``version`` counts writes (from `INFERENCE` on, if the storage was made in inference mode).
    ``error`` is raised by whoever needs a value that could not be computed. ``extra`` is the name
    of the tape's node of the last recorded write, a mark of `jax_trees`, or of a leaf's first gradient
    (the leaf weakly, what it was before). ``level`` is the number of the newest differentiating transform when it
    was made: what is older than a transform was captured.
    """

    __slots__ = (
        "array", "trace", "slot", "root", "version", "host", "error", "extra", "level",
        "__weakref__",
    )
    array: Any
    trace: Any
    root: Geometry
    version: int
    host: Any
    error: Any
    level: int

    def __init__(self, root: Geometry, array=None):
        self.array = array
        self.trace = None
        self.slot = -1
        self.root = root
        self.version = 0
        self.host = None
        self.error = None
        self.extra = None
        self.level = newest_level[0]
        if array is not None and on_new[0] is not None:
            on_new[0](self)

    @property
    def nbytes(self):
        return self.root.numel * self.root.dtype.itemsize

    def value(self):
        """The root's array; runs what is pending.

        Raises:
            RuntimeError: if computing it failed.
        """
        if self.trace is not None:
            self.settle()
        elif on_look[0] is not None:
            on_look[0](self)
        array = self.array
        return self.load() if array is None else array

    def as_jax(self):
        """`value` as a ``jax.Array``: what the host tier made is handed over without a copy where it is aligned."""
        array = self.value()
        if array.__class__ is np.ndarray:
            own = is_aligned_memory(array.base)  # such is handed over without a copy each time, and stays
            array = _device.put(array, self.root.device)
            if self.trace is None and self.array is not None and not own:
                self.array = array
        return array

    def settle(self):
        """Runs what is pending.

        Raises:
            Exception: what of it failed.
        """
        trace = self.trace
        while trace is not None:
            trace.flush()
            before, trace = trace, self.trace
            if trace is before:
                if not trace.take_over(self):  # there is nothing to run: a value of JAX's transformations
                    return
                trace = self.trace

    def ready(self):
        """`value`, computed: programs run beside Python. Waiting can be interrupted.

        Raises:
            RuntimeError: if computing it failed.
        """
        array = self.value()
        if isinstance(array, Array):
            if _device.forked[0] and not jax_internals.is_ready(array):
                raise RuntimeError(_device.NOT_COMPUTED)
            try:
                jax_internals.wait_for(array)
            except JaxRuntimeError as error:
                raise translate_error(error) from None
        return array

    def load(self):
        """The array of a storage that has none at hand: from the shared host buffer.

        A buffer that nobody else holds any more is taken over, so that later reads are free.
        """
        if self.error is not None:
            raise another(self.error)  # storages may share it
        host = self.host
        if host is None:
            if self.root.device is _device.META:
                raise NotImplementedError("Cannot copy out of meta tensor; no data!")
            raise RuntimeError("the tensor has a non-zero number of elements, but its data is not "
                               "allocated yet")
        array = aligned_copy(self._logical(host))
        del host
        is_taken = type(self.host) is PrivateMap or (
            self.host.flags.owndata and sys.getrefcount(self.host) == ATTRIBUTE
        )
        if array.nbytes > (KEPT_BYTES if is_taken else _READ_BYTES) or self.root.device is not _device.CPU:
            array = _device.put(array, self.root.device)
        if is_taken:
            self.array, self.host = array, None
        return array

    def _logical(self, memory):
        """A buffer in memory order, seen in the root's logical shape."""
        if self.root.is_contiguous:
            return memory.reshape(self.root.shape)
        order = memory_order(self.root.stride, self.root.shape)
        inverse = sorted(range(len(order)), key=order.__getitem__)
        return memory.reshape([self.root.shape[d] for d in order]).transpose(inverse)

    def memory_order(self):
        """The root's dimensions as they follow each other in memory, outermost first."""
        return memory_order(self.root.stride, self.root.shape)

    def address(self) -> int:
        """The address of the first element in memory; 0 if there is none.

        On the CPU it is that of JAX's buffer, which stays until somebody writes, or of the NumPy buffer that
        is shared. On other devices a number that identifies the storage.
        """
        if not self.root.numel or self.root.device is _device.META:
            return 0
        if self.root.device is not _device.CPU:
            return id(self) * 64
        if self.host is None:
            if self.root.is_contiguous or self.memory_order() == (*range(len(self.root.shape)),):
                value = self.value()
                if value.__class__ is np.ndarray and self.root.is_contiguous:
                    address = value.ctypes.data
                    if _told.get(self) == address and is_aligned_memory(value.base):
                        return address  # whoever holds the array now: nobody writes there while others do
                    del value
                    # Two storages may share an array until one is written to. What is aligned is not moved by the next
                    # program that reads it.
                    address = _told[self] = self.own_memory().ctypes.data
                    return address
                if value.__class__ is np.ndarray:
                    value = self.as_jax()
                if hasattr(value, "unsafe_buffer_pointer"):
                    return self._own_address(value)
                return id(self) * 64  # a tracer: its memory is not there yet
            self.share_host()
        return self.host.ctypes.data

    def _own_address(self, value: Array) -> int:
        """The address of an array of XLA's, which two storages may share until one is written to: told of one of them only."""
        address = value.unsafe_buffer_pointer()
        first = _first_told.get(address)
        if first not in (None, self) and isinstance(first.array, Array) and first.array.unsafe_buffer_pointer() == address:
            if self.root.is_contiguous:
                return self.own_memory().ctypes.data
        else:
            _first_told[address] = self
        return address

    def reinterpret(self, dtype) -> None:
        """Takes bytes of a file that nobody has read yet for elements of a dtype, which reads them as they are."""
        root = self.root
        if root.dtype.itemsize != 1 or root.numel % dtype.itemsize or not root.is_contiguous:
            return
        if self.host.ctypes.data % dtype.itemsize == 0 and not dtype.stored and dtype.category != 0:
            self.host = self.host.reshape(-1).view(dtype.numpy)
            self.root = geometry(Size((root.numel // dtype.itemsize,)), dtype, root.device)

    def own_memory(self, copies=True) -> np.ndarray | None:
        """The flat memory of a contiguous CPU storage that is not pending, in which a part may be changed: nothing else
        reads it.

        Args:
            copies: whether the storage gets a copy where something else does, or it is XLA's; without, None is given.
        """
        if self.host is not None:
            self.array = None
            return self.host
        if not self.owns_memory():
            if not copies:
                return None
            if not self._comes_back():
                memory = aligned_empty(self.root.shape, self.root.dtype.numpy)
                memory[...] = np.asarray(self.ready())
                self.array = memory
        if weakref.getweakrefcount(self.array):  # what was found out about its values holds no longer
            self.array = self.array.view()
        return self.array.reshape(-1)

    def _comes_back(self):
        """Whether a program that borrowed the memory lets go of it in less time than a copy takes.

        A result may be there before the thread that made it has dropped what it read.
        """
        jax_internals.collect_garbage()  # JAX lets go of arrays that it borrowed when it has time
        if self.owns_memory() or self.array.__class__ is not np.ndarray or self.array.nbytes < _WORTH_WAITING:
            return self.owns_memory()
        deadline = time.perf_counter() + self.array.nbytes * _PART_OF_A_COPY
        while time.perf_counter() < deadline:
            time.sleep(2e-5)
            jax_internals.collect_garbage()
            if self.owns_memory():
                return True
        return False

    def has_memory(self):
        """Whether there are elements, or will be: not those of wrapper subclasses, and not on the meta device."""
        return self.array is not None or self.trace is not None or self.host is not None

    def owns_memory(self):
        """Whether the array's memory is of `aligned_empty`, and held by nothing but this storage."""
        array = self.array
        if array.__class__ is not np.ndarray or sys.getrefcount(array) != LISTED or not array.flags.c_contiguous:
            return False
        memory = array.base
        return is_aligned_memory(memory) and sys.getrefcount(memory) == LISTED

    def share_host(self) -> np.ndarray:
        """The flat NumPy buffer, in memory order, that this CPU storage's memory is from now on."""
        if self.host is not None and on_look[0] is not None:
            on_look[0](self)
        if self.host is None and self.root.is_contiguous and self.trace is None and self.owns_memory():
            self.host = self.array.reshape(-1)
        if self.host is None:
            value = np.asarray(self.ready())
            if self.root.is_contiguous:
                memory = value.flatten()
            else:
                order = memory_order(self.root.stride, self.root.shape)
                memory = np.empty(self.root.numel, value.dtype)
                memory.reshape([value.shape[d] for d in order])[...] = value.transpose(order)
            self.host = memory
        self.array = None
        return self.host

    def set(self, array):
        """Replaces the value by a ready array and counts a write."""
        self.version += 1
        if self.host is not None:
            self._logical(self.host)[...] = np.asarray(array)
            array = None
        self.array = array
        self.trace = None


def strided(memory: np.ndarray, g: Geometry, offset: int) -> np.ndarray:
    """What a tensor's geometry says of a flat buffer, as an array that shares it."""
    if not g.numel:
        return np.empty(g.shape, g.dtype.numpy)
    item = memory.itemsize
    strides = [s * item for s in g.stride]
    return np.ndarray(g.shape, memory.dtype, memory, offset * item, strides)


def from_array(array, dtype, where=None) -> Storage:
    """A storage around a JAX array, contiguous."""
    where = where or _device.CPU
    return Storage(geometry(array.shape, dtype, where), array)
