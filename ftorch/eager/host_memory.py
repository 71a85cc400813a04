"""How the C library gives out memory for arrays on the CPU.

glibc takes each block above 32 MB (at first: 128 kB) from the kernel and gives it back when it is freed.
XLA allocates a program's results and temporaries anew in each run, so most of the time of an
elementwise program on large arrays goes into the kernel's clearing of pages: a step with 60 MB of
temporaries takes four times as long as on pages that are in use already. So blocks up to a limit
stay with the process.
"""

from __future__ import annotations

import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_LIMIT = 1 << 30


def _limit():
    """Bytes: at most an eighth of the machine's memory."""
    try:
        return min(_LIMIT, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8)
    except (ValueError, OSError):
        return _LIMIT


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

