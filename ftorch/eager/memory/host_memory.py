"""The host allocator: how the C library gives out memory for arrays on the CPU.

glibc takes each block above 32 MB (at first: 128 kB) from the kernel and gives it back when it is freed.
XLA allocates a program's results and temporaries anew in each run, so most of the time of an
elementwise program on large arrays goes into the kernel's clearing of pages: a step with 60 MB of
temporaries takes four times as long as on pages that are in use already. So blocks up to a limit
stay with the process.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import sys
from typing import Any

import numpy as np

from .. import native
from ..core.errors import cannot_allocate

try:
    import resource
except ImportError:  # Windows
    resource: Any = None

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_LIMIT = 1 << 30


def _limit():
    """Bytes: at most an eighth of the machine's memory."""
    try:
        return min(_LIMIT, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8)
    except (ValueError, OSError):
        return _LIMIT


def available():
    """How many bytes a program can hope for: what the kernel says is available, under the process's limits."""
    found = [sys.maxsize]
    try:
        with open("/proc/meminfo") as lines:
            kilobytes = dict(line.split()[:2] for line in lines)
        found.append((int(kilobytes["MemAvailable:"]) + int(kilobytes["SwapFree:"])) << 10)
    except (OSError, KeyError, ValueError):
        pass
    limit = _address_limit()
    if limit is not None:
        found.append(limit - _address_space())
    return min(found)


def _address_limit():
    if resource is None:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _address_space():
    """Bytes that the process has addresses for."""
    return _pages(0)


def _resident():
    """Bytes of memory that the process has."""
    return _pages(1)


def _pages(place):
    """A number of pages that the kernel keeps of the process, in bytes. NumPy opens and closes the file: no interrupt comes
    between."""
    try:
        return int(np.fromfile("/proc/self/statm", np.int64, 2, " ")[place]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
    except SystemError as error:  # another thread's exception came in there, and NumPy went on with it
        raise error.__cause__ or error from None


_CHECKED_BYTES = 1 << 30  # what is smaller is not asked for in advance


def check(shape, dtype) -> None:
    """Raises PyTorch's error if the kernel would not give the memory of an array (of NumPy's dtypes).

    Raises:
        RuntimeError: if the size alone is more than the machine, or the process's limits, allow.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < _CHECKED_BYTES:
        if not nbytes and math.prod([n for n in shape[1:] if n]) >= 1 << 63:
            raise RuntimeError("Stride calculation overflowed")
        return
    if nbytes >= 1 << 63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")
    if not _fits(nbytes):
        free_memory.let_go()
        if not _fits(nbytes):
            raise RuntimeError(cannot_allocate(nbytes))


def _fits(nbytes):
    try:
        mmap.mmap(-1, nbytes).close()  # pages are not touched
    except (OSError, OverflowError, ValueError):
        return False
    return True


def check_countable(shape, itemsize: int) -> None:
    """Raises PyTorch's error if sizes, strides or bytes of a tensor do not fit into 64 bits.

    Raises:
        RuntimeError: by which of them it is.
    """
    numel = math.prod(shape)
    if numel < 1 << 32 and (numel or max(shape, default=0) < 1 << 31):
        return
    if numel >= 1 << 63:
        raise RuntimeError("numel: integer multiplication overflow")
    if math.prod(max(n, 1) for n in shape[1:]) >= 1 << 63:
        raise RuntimeError("Stride calculation overflowed")
    if numel * itemsize >= 1 << 63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")


class Fragmentation:
    """Gives pages of freed memory back where blocks of ever new sizes have torn the heap.

    A step needs about as much memory as the last one, so only what is more than that is given back: when the process
    has clearly more than at the first look after the last time. A look costs microseconds, giving back milliseconds.
    """

    _EVERY = 256  # new plans between two looks
    _SLACK = 1 << 23  # bytes

    def __init__(self):
        self.plans = 0
        self.limit: float | None = None
        library = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._library: Any = library if hasattr(library, "malloc_trim") else None

    def new_plan(self, count=1):
        """Counts plans made for sizes that came for the first time; looks at the process's memory now and then."""
        before = self.plans
        self.plans = before + count
        if before // self._EVERY != self.plans // self._EVERY and self._library is not None:
            self._look()

    def _look(self):
        resident = _resident()
        if self.limit is None:
            self.limit = 1.05 * resident + self._SLACK
        elif resident > self.limit:
            self._library.malloc_trim(0)
            self.limit = None


fragmentation = Fragmentation()


class _Blocks(ctypes.Structure):
    """What mallinfo2(3) says."""

    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


class FreeMemory:
    """Gives free pages back where large programs leave more of them than they need.

    Aligned blocks of a size that was freed just before do not fit into its place with glibc before 2.38, so that free
    memory grows. A program's temporaries are one block; from 64 MB on the kernel gives it to XLA's threads, and gets it
    back. So free pages that are more than smaller temporaries take, and a part of what is used, are given back.

    Attributes:
        given_back: how often pages were.
        kept: functions that let go of copies which are kept to save time; modules that have some add theirs.
        temporary: the most bytes of temporaries that a program has, of those that ran.
    """

    _SLACK, _LARGEST = 1 << 25, 1 << 26  # bytes
    _EVERY = 64  # programs

    def __init__(self):
        self.given_back = self.temporary = self._made = 0
        self.others = 0  # resident bytes that the C library does not give out
        self.kept: list = []  # functions that let go of copies which save time only
        library = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._library: Any = library if hasattr(library, "malloc_trim") and hasattr(library, "mallinfo2") else None
        if self._library is not None:
            self._library.mallinfo2.restype = _Blocks

    def _used(self):
        found = self._library.mallinfo2()
        return found.uordblks + found.hblkhd

    def give_back(self):
        """Gives all pages back in which nothing lies."""
        if self._library is None:
            return
        self._library.malloc_trim(0)
        self.others = _resident() - self._used()
        self.given_back += 1

    def let_go(self):
        """Memory did not suffice: lets go of copies that save time, and gives back what waits to be used again."""
        for forget in self.kept:
            forget()
        self.give_all_back()

    def give_all_back(self):
        """Gives back what waits to be used again, too."""
        if native.module is not None:
            native.module.release_memory()
        self.give_back()

    def look(self):
        """Gives pages back if there are more than the largest program needs."""
        if self._library is None or not self.given_back:
            return
        used = self._used()
        if _resident() - self.others - used > min(self.temporary, self._LARGEST) + self._SLACK + used // 20:
            self.give_back()

    def after_new_program(self):
        """Gives pages back, now and then, that making programs has left scattered among what stays."""
        if not self._made:
            keep_freed_memory()  # not on import: who imports the package may never compute with it
        self._made += 1
        if self._made % self._EVERY == 0:
            self.after_compilation()

    def after_compilation(self):
        """Gives pages back that compiling has left: some ten MB for a training step."""
        if self._library is None:
            return
        found = self._library.mallinfo2()
        if found.fordblks > self._SLACK // 2 + found.uordblks // 10:
            self._library.malloc_trim(0)


free_memory = FreeMemory()


def keep_freed_memory():
    """Lets freed memory stay with the process, on Linux with glibc.

    Settings of one's own win: the environment variables ``MALLOC_MMAP_THRESHOLD_`` and
    ``MALLOC_TRIM_THRESHOLD_`` of glibc, or ``FTORCH_KEEP_MEMORY=0``.

    Returns:
        whether something was set.
    """
    chosen = any(f"MALLOC_{name}_THRESHOLD_" in os.environ for name in ("MMAP", "TRIM"))
    if sys.platform != "linux" or chosen or os.environ.get("FTORCH_KEEP_MEMORY") == "0":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    limit = _limit()
    return all(library.mallopt(name, limit) for name in (_MMAP_THRESHOLD, _TRIM_THRESHOLD))

