"""Freed memory stays with the process: `ftorch.eager.memory.host_memory`."""

import subprocess
import sys

import pytest

from ftorch.eager.memory import host_memory

_CHURN = """
import ctypes, resource
from ftorch.eager.memory import host_memory
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
    ).stdout)
    pages = 5 * (48 << 20) // 4096
    assert run(_CHURN) < pages / 10
    computed = "import ftorch as torch; torch.arange(9.0).sin().sum().item()"
    assert run(_CHURN.replace("host_memory.keep_freed_memory()", computed)) < pages / 10
    assert run(_CHURN.replace("host_memory.keep_freed_memory()", "import ftorch")) > pages / 2  # who does not compute


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_steps_of_new_sizes_leave_no_torn_heap():
    program = """
import random
import ftorch as torch

def resident():
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * 4096 / 2**20

model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step, batch in enumerate(random.Random(0).sample(range(5, 12000), 900)):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(torch.randn(batch, 64)), torch.randint(0, 10, (batch,))).backward()
    optimizer.step()
    if step in (199, 899):
        print(resident())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    early, late = map(float, done.stdout.split())
    assert late < 1.4 * early, done.stderr  # 1.6 and growing where nothing is given back


class Library:
    """The C library's account of memory."""

    def __init__(self):
        self.used, self.free, self.trims = 500 << 20, 0, 0

    def mallinfo2(self):
        return host_memory._Blocks(uordblks=self.used - (100 << 20), hblkhd=100 << 20)

    def malloc_trim(self, _):
        self.free, self.trims = 0, self.trims + 1


def test_free_pages_that_no_program_needs_are_given_back(monkeypatch):
    memory, library, others = host_memory.FreeMemory(), Library(), 200 << 20
    memory._library = library
    monkeypatch.setattr(host_memory, "_resident", lambda: library.used + library.free + others)
    library.free = 400 << 20
    memory.look()
    assert memory.given_back == 0  # what is not the C library's is not known yet
    memory.give_back()
    assert memory.given_back == library.trims == 1 and memory.others == others
    for free, trims in ((50 << 20, 1), (70 << 20, 2), (57 << 20, 2), (400 << 20, 3)):
        library.free = free
        memory.look()
        assert library.trims == trims, free
    memory.temporary = 30 << 20
    library.free = 80 << 20
    memory.look()
    assert library.trims == 3
    memory.temporary = 1 << 30  # the kernel gives this to threads, and gets it back
    library.free = 160 << 20
    memory.look()
    assert library.trims == 4


def test_memory_stays_where_the_library_says_nothing():
    memory = host_memory.FreeMemory()
    memory._library = None
    memory.give_back()
    memory.look()
    assert memory.given_back == 0


def test_an_exception_that_numpy_goes_on_with(monkeypatch):
    """It comes from another thread as NumPy opens a file, and NumPy calls more with it: Python makes a SystemError of it."""
    def fromfile(*_):
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr(host_memory.np, "fromfile", fromfile)
    with pytest.raises(KeyboardInterrupt):
        host_memory._resident()
