"""Which processors threads may run on is left as it was: the package's own threads ask to be moved, and are let go again."""

import os
import subprocess
import sys

import pytest

from ftorch.eager import native

PROGRAM = """
import os
import threading

import ftorch as torch

def masks():
    found = {}
    for thread in os.listdir("/proc/self/task"):
        try:
            found[thread] = os.sched_getaffinity(int(thread))
        except ProcessLookupError:
            pass
    return found

def work():
    (torch.randn(700, 700) @ torch.randn(700, 700)).relu().softmax(-1).sum().item()

work()
os.sched_setaffinity(0, one := {min(os.sched_getaffinity(0))})  # this thread's: others keep theirs
before = masks()
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
work()
for thread in threads:
    thread.join()
after = masks()
assert os.sched_getaffinity(0) == one
assert {t: m for t, m in after.items() if t in before} == {t: m for t, m in before.items() if t in after}
print(len(before))
"""


@pytest.mark.skipif(not native.available, reason="installed without a C++ compiler")
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads are not tied to processors here")
def test_no_thread_is_tied_to_a_processor():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1
