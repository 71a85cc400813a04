"""What a test starts ends with it (`tests/processes.py`), and what hangs is ended."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

from . import processes

_linux = pytest.mark.skipif(sys.platform != "linux", reason="children are looked for in /proc")


def _run(program, timeout=60):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=timeout,
                          cwd=os.path.dirname(os.path.dirname(processes.__file__)), stdin=subprocess.DEVNULL)


_FORKS = """
import os, time
from tests import processes
reading, writing = os.pipe()
processes.begin()
child = os.fork()
if not child:
    time.sleep(50)
    os._exit(0)
"""


@_linux
def test_a_forked_child_keeps_no_channel_open():
    done = _run(_FORKS + """
os.close(writing)
print(os.read(reading, 1))  # waits for ever where the child has the other end
os.kill(child, 9)
""", timeout=30)
    assert done.stdout == "b''\n", done.stderr


@_linux
def test_a_forked_child_ends_with_its_parent():
    done = _run(_FORKS + "print(child, flush=True)\nos._exit(1)")
    command = pathlib.Path(f"/proc/{int(done.stdout)}/cmdline")
    for _ in range(200):
        try:
            if not command.read_bytes():  # it has ended, and nobody has asked yet how
                return
        except FileNotFoundError:
            return
        time.sleep(0.05)
    raise AssertionError("it lives")


def test_who_keeps_the_lock_of_python_is_ended():
    done = _run("""
import re, sys
from tests import processes
with processes.ended_after(1, sys.stderr):
    re.match("(a+)+$", "a" * 40 + "b")  # gives the lock to nobody
""")
    assert done.returncode == 1 and "in match" in done.stderr


@_linux
def test_what_is_left_behind_is_found_and_ended(monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE", 0.3)
    left, go_on = processes.Left(), threading.Event()
    assert left.found() == []
    thread = threading.Thread(target=go_on.wait, name="stays")
    thread.start()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        found = left.found()
        assert process.wait(30) < 0
    go_on.set()
    thread.join(30)
    assert len(found) == 2 and "time.sleep(60)" in found[0] and "stays" in found[1]
    assert left.found() == []
