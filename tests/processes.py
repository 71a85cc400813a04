"""What a test starts ends with it: processes and threads; and what hangs is ended, wherever it hangs.

A worker of pytest-xdist speaks with its controller through pipes. A forked child has copies of them, and as long as it
lives the controller waits for more, also where the worker itself has ended. So children that tests fork get none.
"""

from __future__ import annotations

import concurrent.futures.thread
import contextlib
import faulthandler
import os
import pathlib
import signal
import stat
import sys
import threading
import time

PATIENCE = 10  # s that what a module of tests leaves behind may take to end
_LONGEST = 600  # s that a forked child may take: longer than any test
_PARENT_DIES = 1  # PR_SET_PDEATHSIG
_CHANNELS: list[int] = []
_prctl = None
_LASTING = (
    "multiprocessing.resource_tracker", "multiprocessing.forkserver",
    "/_utils/server.py",  # which loaders' workers are forked from
    "addr2line ",  # which PyTorch asks for the lines of its C++
)
lasting: set[int] = set()
"""Processes that tests of several modules share."""


def _open_files():
    with contextlib.suppress(OSError):
        yield from map(int, os.listdir("/proc/self/fd"))


def begin() -> None:
    """Called once, before there are tests: what is open now is no test's."""
    global _prctl
    for number in _open_files():
        with contextlib.suppress(OSError):
            mode = os.fstat(number).st_mode
            if number > 2 and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
                _CHANNELS.append(number)
    if sys.platform == "linux":
        import ctypes

        _prctl = ctypes.CDLL(None).prctl
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_in_child)


def _in_child():
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in _CHANNELS:
        os.dup2(nothing, number, inheritable=False)
    os.close(nothing)
    signal.alarm(_LONGEST)
    if threading.current_thread() is threading.main_thread():
        ends_with_parent()


def ends_with_parent() -> None:
    """This process ends when the thread ends that started it (on Linux)."""
    if _prctl is not None:
        _prctl(_PARENT_DIES, signal.SIGKILL)


@contextlib.contextmanager
def ended_after(seconds: float, file):
    """Within, this process is ended after a time, with the stacks of its threads, even where a thread that hangs does
    not give Python's lock back, so that no other (pytest-timeout's) can run."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=file)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


# --- what is left behind


def _children() -> dict[int, str]:
    """{pid: command} of this process's children that have not ended."""
    found = {}
    for tasks in pathlib.Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for pid in map(int, tasks.read_text().split()):
                with contextlib.suppress(OSError):
                    status = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                    command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                    if status not in "ZX":
                        found[pid] = command.decode(errors="replace").strip()[:300]
    return found


def _threads() -> set[threading.Thread]:
    # Those of `concurrent.futures` end with the interpreter, or with their pool (PyTorch's compiler keeps one).
    pools = set(concurrent.futures.thread._threads_queues)
    return {t for t in threading.enumerate() if not t.daemon and not t.name.startswith("pytest_timeout")} - pools


def _is_lasting(pid, command) -> bool:
    """Whether a process is there for good, and ends with this one."""
    return pid in lasting or any(name in command for name in _LASTING)


class Left:
    """What processes and threads there are that were not there when it was made."""

    def __init__(self):
        self._children, self._threads = set(_children()), _threads()

    def found(self) -> list[str]:
        """In words, once they have had some time to end; processes are killed."""
        deadline = time.monotonic() + PATIENCE
        while True:
            children = {
                pid: command for pid, command in _children().items()
                if pid not in self._children and not _is_lasting(pid, command)
            }
            threads = _threads() - self._threads
            if not children and not threads:
                return []
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        for pid in children:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return [f"process {pid}: {command}" for pid, command in children.items()] + [repr(t) for t in threads]
