"""Storage: a mutable cell that holds an immutable array.

Tensors that alias share one storage. The array has the logical shape of the storage's *root*
geometry, whose strides say how its elements lie in (notional) memory; other tensors read and write
through their own geometry (`ftorch.eager.view`). In deferred execution a storage is pending: its
value is a slot of a trace that has not run.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .._arrays import aligned_copy
from . import device as _device
from .geometry import Geometry, geometry, memory_order

# The version of storages made in inference mode, which stays negative whatever is written to them.
INFERENCE = -(1 << 60)

# Called with a storage whose value somebody looks at, while a program is being captured.
on_look: list[Any] = [None]
on_new: list[Any] = [None]  # the same for a storage that is made with a value at hand


class Storage:
    """A cell. Its value is, in this order of precedence:

    - pending: ``slot`` of ``trace``;
    - ``array``: a ``jax.Array`` (or a tracer, inside JAX's transformations);
    - ``host``: a NumPy buffer shared with the user, read anew each time;
    - nothing (the meta device).

    ``version`` counts writes (from `INFERENCE` on, if the storage was made in inference mode).
    ``error`` is raised by whoever needs a value that could not be computed. ``extra`` is the name
    of the tape's node of the last recorded write, or a mark of `jax_trees`.
    """

    __slots__ = (
        "array", "trace", "slot", "root", "version", "host", "error", "extra", "__weakref__",
    )  # fmt: skip
    array: Any
    trace: Any
    root: Geometry
    version: int
    host: Any
    error: Any

    def __init__(self, root: Geometry, array=None):
        self.array = array
        self.trace = None
        self.slot = -1
        self.root = root
        self.version = 0
        self.host = None
        self.error = None
        self.extra = None
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
        trace = self.trace
        if trace is not None:
            trace.flush()
        elif on_look[0] is not None:
            on_look[0](self)
        array = self.array
        return self.load() if array is None else array

    def load(self):
        """The array of a storage that has none at hand: from the shared host buffer.

        A buffer that nobody else holds any more is taken over, so that later reads are free.
        """
        if self.error is not None:
            raise self.error.with_traceback(None)  # storages may share it
        host = self.host
        if host is None:
            if self.root.device is _device.META:
                raise NotImplementedError("Cannot copy out of meta tensor; no data!")
            raise RuntimeError("the tensor has a non-zero number of elements, but its data is not "
                               "allocated yet")  # fmt: skip
        array = _device.put(aligned_copy(self._logical(host)), self.root.device)
        del host
        if self.host.flags.owndata and sys.getrefcount(self.host) == 2:
            self.array, self.host = array, None
        return array

    def _logical(self, memory):
        """A buffer in memory order, seen in the root's logical shape."""
        if self.root.is_contiguous:
            return memory.reshape(self.root.shape)
        order = memory_order(self.root.stride, self.root.shape)
        inverse = sorted(range(len(order)), key=order.__getitem__)
        return memory.reshape([self.root.shape[d] for d in order]).transpose(inverse)

    def share_host(self) -> np.ndarray:
        """The flat NumPy buffer, in memory order, that this CPU storage's memory is from now on."""
        if self.host is not None and on_look[0] is not None:
            on_look[0](self)
        if self.host is None:
            order = memory_order(self.root.stride, self.root.shape)
            value = np.asarray(self.value())
            memory = np.empty(self.root.numel, value.dtype)
            memory.reshape([value.shape[d] for d in order])[...] = value.transpose(order)
            self.host, self.array = memory, None
        return self.host

    def set(self, array):
        """Replaces the value by a ready array and counts a write."""
        if self.host is not None:
            self._logical(self.host)[...] = np.asarray(array)
        else:
            self.array = array
        self.trace = None
        self.version += 1


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
