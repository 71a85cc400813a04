"""Freed memory stays with the process: `ftorch.eager.host_memory`."""

import subprocess
import sys

import pytest

from ftorch.eager import host_memory

_CHURN = """
import ctypes, resource
from ftorch.eager import host_memory
host_memory.keep_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]
size = 48 << 20
def fill():
    p = library.malloc(size)
    ctypes.memset(p, 1, size)
    library.free(p)
fill()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    fill()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's settings")
def test_settings_of_ones_own_win(monkeypatch):
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    monkeypatch.delenv("FTORCH_KEEP_MEMORY", raising=False)
    assert host_memory.keep_freed_memory()
    monkeypatch.setenv("FTORCH_KEEP_MEMORY", "0")
    assert not host_memory.keep_freed_memory()
    monkeypatch.delenv("FTORCH_KEEP_MEMORY")
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "1000000")
    assert not host_memory.keep_freed_memory()


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's settings")
def test_large_blocks_are_reused():
    run = lambda code: int(subprocess.run(  # noqa: E731
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout)  # fmt: skip
    pages = 5 * (48 << 20) // 4096
    assert run(_CHURN) < pages / 10
    assert run(_CHURN.replace("host_memory.keep_freed_memory()", "")) < pages / 10  # at import, too
