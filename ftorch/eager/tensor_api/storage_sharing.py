"""Shared storages: memory that other processes have, too, and whose it is."""

from __future__ import annotations

import os
import sys

from ..._arrays import is_aligned_memory
from ..core import device as _device
from ..core.refcount import ATTRIBUTE, LISTED, RELIABLE
from ..memory import shared_memory
from ..memory.storage import Storage
from .storage_memory import is_meta


class SharedMemory:
    """What storages have that concerns other processes, over `_cell`."""

    _cell: Storage

    @property
    def device(self):
        return self._cell.root.device

    def is_shared(self) -> bool:
        """Whether other processes may have the same memory: that of mapped files."""
        return shared_memory.is_shared(self._cell)

    def share_memory_(self):
        """Moves the memory to where other processes have it, too."""
        self._check_place("_share_fd_", and_devices=False)
        if self.device.type == "cpu":
            shared_memory.share(self._cell)
        return self

    def _check_place(self, name, and_devices=True):
        if is_meta(self._cell) or (and_devices and self.device.type != "cpu"):
            raise RuntimeError(f"{name}: only available on CPU")

    def _share_fd_cpu_(self) -> tuple[int, int]:
        """A descriptor of the shared memory, which is the caller's to close, and its size in bytes.

        Raises:
            RuntimeError: it is not on the CPU, or was shared by a name.
        """
        self._check_place("_share_fd_")
        return self._share_by("file_descriptor"), self._cell.nbytes

    def _share_filename_cpu_(self) -> tuple[bytes, bytes, int]:
        """Who watches over the file (nobody here), the name of the file, and its size in bytes.

        Raises:
            RuntimeError: it is not on the CPU, or was shared without a name.
        """
        self._check_place("_share_filename_")
        return b"", os.fsencode(self._share_by("file_system")), self._cell.nbytes

    def _share_by(self, how):
        before, shared_memory.strategy[0] = shared_memory.strategy[0], how
        try:
            shared_memory.share(self._cell)
        finally:
            shared_memory.strategy[0] = before
        found = shared_memory.mapping(self._cell)
        if found is None or (found.name is None) is (how == "file_system"):
            raise RuntimeError(f"the storage is shared already, but not by the strategy {how}")
        return found.name if how == "file_system" else os.dup(found.file)

    def resizable(self) -> bool:
        """Whether `resize_` may be called: not where the memory is somebody else's, an array of NumPy's or a file."""
        return owns_memory(self._cell)

    def is_pinned(self, device=None) -> bool:
        """Whether transfers to devices are made of this memory itself: never; JAX sees to that."""
        return False

    def pin_memory(self, device=None):
        """The storage itself.

        Raises:
            TypeError: it is on the meta device.
        """
        if is_meta(self._cell):
            raise TypeError("cannot pin 'torch.storage.UntypedStorage' only CPU memory can be pinned")
        return self


def owns_memory(cell: Storage) -> bool:
    """Whether a storage's memory is its own: no buffer of somebody else's, and no array of NumPy's over it, as far as can be
    seen."""
    if cell.host is None or shared_memory.mapping(cell) is not None or not RELIABLE:
        return True
    if cell.host.flags.owndata:
        return sys.getrefcount(cell.host) == ATTRIBUTE
    memory = cell.host.base
    return is_aligned_memory(memory) and sys.getrefcount(memory) == LISTED


def check_resizable(cell: Storage) -> None:
    """Raises PyTorch's error where the memory cannot grow or shrink."""
    if cell.root.device is _device.CPU and not owns_memory(cell):
        raise RuntimeError("Trying to resize storage that is not resizable")
