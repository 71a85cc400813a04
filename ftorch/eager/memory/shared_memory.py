"""Memory that several processes have: ``Tensor.share_memory_``.

A shared storage lies in a file that is mapped, in the system's memory where there is such a folder. Children that are
forked have it by inheritance; other processes map the file by its name as long as the process that made it holds it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref

import numpy as np

from .storage import PrivateMap, Storage

_FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else None
_mapped: weakref.WeakValueDictionary[str, Storage] = weakref.WeakValueDictionary()


def is_shared(cell: Storage) -> bool:
    """Whether other processes may have the same memory."""
    return isinstance(cell.host, np.memmap) and not isinstance(cell.host, PrivateMap)


def share(cell: Storage) -> None:
    """Moves a CPU storage to where other processes have it, if it is not there.

    Raises:
        RuntimeError: if there is no room for it; the storage stays where it was.
    """
    if is_shared(cell) or not cell.nbytes:
        return
    own = cell.share_host()
    file, name = tempfile.mkstemp(prefix=f"torch_{os.getpid()}_", dir=_FOLDER)
    try:
        try:
            _allocate(file, own.nbytes)
        finally:
            os.close(file)
        memory = np.memmap(name, np.uint8, "r+", shape=(own.nbytes,))
        weakref.finalize(memory._mmap, _remove, name, os.getpid())  # type: ignore[attr-defined]
    except OSError as error:
        _remove(name, os.getpid())
        raise RuntimeError(
            f"unable to allocate shared memory(shm) for file <{name}>: {error.strerror} ({error.errno})"
        ) from None
    except BaseException:
        _remove(name, os.getpid())
        raise
    shared = memory.view(own.dtype)
    shared[...] = own.reshape(-1)
    cell.host = shared


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


def name_of(cell: Storage) -> str | None:
    """The file of a shared storage."""
    return os.fspath(cell.host.filename) if is_shared(cell) and cell.host.filename else None  # type: ignore[union-attr]


def opened(name: str, like, data: bytes) -> Storage:
    """The storage of a file that another process shares; one with these bytes if that process let go of it.

    Args:
        like: the geometry of the storage.
    """
    known = _mapped.get(name)
    if known is not None:
        return known
    cell = Storage(like)
    try:
        cell.host = np.memmap(name, np.uint8, "r+", shape=(len(data),)).view(like.dtype.numpy)
        _mapped[name] = cell
    except OSError:
        cell.host = np.frombuffer(bytearray(data), like.dtype.numpy)
    return cell
