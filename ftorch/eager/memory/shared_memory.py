"""Memory that several processes have: ``Tensor.share_memory_``.

A shared storage lies in a file without a name that is mapped; children that are forked have it by inheritance, to others its
descriptor is sent. So nothing is left where processes are killed. With the strategy ``file_system`` it has a name and needs
no descriptor; Python's resource tracker, a process that outlives the others, removes what these leave.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys
import tempfile
import weakref
from multiprocessing import resource_tracker
from typing import Any

import numpy as np

from .storage import PrivateMap, Storage

_FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else None
_mapped: weakref.WeakValueDictionary[tuple, Storage] = weakref.WeakValueDictionary()  # by device and inode
# How the next storages are shared; other systems do not send descriptors, or give few (PyTorch's choice, too).
strategy = ["file_system" if sys.platform in ("darwin", "win32") else "file_descriptor"]

_libc: Any = None
if sys.platform != "win32":
    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.mmap.restype = ctypes.c_void_p
    _libc.mmap.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64
    _libc.munmap.argtypes = ctypes.c_void_p, ctypes.c_size_t


class Mapping:
    """A file's bytes, mapped as long as an array of them lives (``np.asarray`` gives one).

    Python's own ``mmap`` would keep another descriptor for each, of which a process has few.

    Args:
        file: the descriptor, which the mapping closes at its end; at once where it is found by its name.
        name: where the file is, if it has a name.

    Raises:
        OSError: if it cannot be mapped; the descriptor stays open.
    """

    def __init__(self, file: int, nbytes: int, name: str | None = None):
        found = os.fstat(file)
        self.name, self.file, self.key = name, file, (found.st_dev, found.st_ino)
        if _libc is None:
            memory = np.frombuffer(mmap.mmap(file, nbytes), np.uint8)
            self.__array_interface__ = {**memory.__array_interface__, "version": 3}
            self._memory = memory
            os.close(file)
            return
        address = _libc.mmap(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file, 0)
        if address == ctypes.c_void_p(-1).value:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        weakref.finalize(self, _libc.munmap, address, nbytes).atexit = False  # arrays may be read until the end
        if name is None:
            weakref.finalize(self, os.close, file).atexit = False
        else:
            os.close(file)
        self.__array_interface__ = {"data": (address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}


def mapping(cell: Storage) -> Mapping | None:
    """What a shared storage is a mapping of; None if it is none that `share` or `open_shared` made."""
    found = cell.host
    while isinstance(found, np.ndarray):
        found = found.base
    return found if isinstance(found, Mapping) else None


def is_shared(cell: Storage) -> bool:
    """Whether other processes may have the same memory."""
    found = cell.host
    while isinstance(found, np.ndarray):
        if isinstance(found, np.memmap):
            return type(found) is not PrivateMap and found.mode != "c"
        found = found.base
    return isinstance(found, Mapping)


def share(cell: Storage) -> None:
    """Moves a CPU storage to where other processes have it, if it is not there.

    Raises:
        RuntimeError: if there is no room for it; the storage stays where it was.
    """
    if not cell.nbytes or is_shared(cell):
        return
    own = cell.share_host()
    name = f"/torch_{os.getpid()}_{id(cell)}"  # for the message
    try:
        memory = np.asarray(_named(own.nbytes) if strategy[0] == "file_system" else _anonymous(own.nbytes))
    except OSError as error:
        raise RuntimeError(
            f"unable to allocate shared memory(shm) for file <{name}>: {error.strerror} ({error.errno})"
        ) from None
    shared = memory.view(own.dtype)
    shared[...] = own.reshape(-1)
    cell.host = shared
    _mapped[mapping(cell).key] = cell  # type: ignore[union-attr]


def _anonymous(nbytes):
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("torch_shared")
    else:
        file, name = tempfile.mkstemp(prefix="torch_", dir=_FOLDER)
        os.unlink(name)
    try:
        _allocate(file, nbytes)
        return Mapping(file, nbytes)
    except BaseException:
        os.close(file)
        raise


def _named(nbytes):
    file, name = tempfile.mkstemp(prefix=f"torch_{os.getpid()}_", dir=_FOLDER)
    try:
        if _FOLDER:
            resource_tracker.register(f"/{os.path.basename(name)}", "shared_memory")
        _allocate(file, nbytes)
        made = Mapping(file, nbytes, name)
    except BaseException:
        os.close(file)
        _remove(name, os.getpid())
        raise
    weakref.finalize(made, _remove, name, os.getpid())
    return made


def _allocate(file, nbytes):
    # A file that is only made so long gets its pages when they are written: where there is no room, the process ends.
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, nbytes)
    else:  # macOS
        os.ftruncate(file, nbytes)


def _remove(name, process):
    if os.getpid() == process:  # children have the finalizer, too
        with contextlib.suppress(OSError):
            os.unlink(name)
        if _FOLDER:
            resource_tracker.unregister(f"/{os.path.basename(name)}", "shared_memory")


def open_shared(file: int, like, name: str | None = None) -> Storage:
    """The storage of a file that another process shares.

    Args:
        file: its descriptor, which is the storage's from now on.
        like: the geometry of the storage.
        name: where it is, if it has a name.
    """
    try:
        found = os.fstat(file)
        known = _mapped.get((found.st_dev, found.st_ino))
        if known is None:
            memory = Mapping(file, like.numel * like.dtype.itemsize, name)
    except BaseException:
        os.close(file)
        raise
    if known is not None:
        os.close(file)
        return known
    cell = Storage(like)
    cell.host = np.asarray(memory).view(like.dtype.numpy)
    _mapped[memory.key] = cell
    return cell
