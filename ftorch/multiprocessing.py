"""Processes (``torch.multiprocessing``): Python's ``multiprocessing``, with tensors sent by value.

JAX runs threads, so processes that use tensors must be spawned, not forked.
"""

from __future__ import annotations

import multiprocessing as _python
import signal
import traceback
from multiprocessing import *  # noqa: F403

__all__ = [
    *_python.__all__, "ProcessContext", "ProcessExitedException", "ProcessRaisedException",  # noqa: F405
    "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn",
    "start_processes",
]  # fmt: skip

_strategy = ["file_system"]


def get_all_sharing_strategies() -> set[str]:
    """The ways of sending tensors; all send their values."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """What was given to `set_sharing_strategy`."""
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Notes a way of sending tensors; their values are sent in any case."""
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"unknown sharing strategy: {new_strategy}")
    _strategy[0] = new_strategy


class ProcessException(Exception):
    """A process failed.

    Attributes:
        error_index: the number of the process; ``pid``: its id.
    """

    def __init__(self, msg, error_index, pid):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process raised an exception."""


class ProcessExitedException(ProcessException):
    """A process ended with a status other than 0, or by a signal."""

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn, index, args, errors):
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.put(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """Several processes that run the same function."""

    def __init__(self, processes, errors):
        self.processes, self._errors = processes, errors

    def pids(self) -> list[int]:
        """The processes' ids."""
        return [p.pid for p in self.processes]

    def join(self, timeout: float | None = None) -> bool:
        """Waits for the processes; True once all have ended.

        Raises:
            ProcessRaisedException, ProcessExitedException: if one fails; the others are ended.
        """
        from multiprocessing.connection import wait

        pending = [p.sentinel for p in self.processes if p.exitcode is None]
        if pending:
            wait(pending, timeout)
        failed = next((i for i, p in enumerate(self.processes) if p.exitcode not in (None, 0)), None)
        if failed is None:
            return all(p.exitcode == 0 for p in self.processes)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join()
        self._raise(failed)
        return False

    def _raise(self, index):
        process = self.processes[index]
        if not self._errors[index].empty():
            text = self._errors[index].get()
            raise ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{text}", index,
                process.pid,
            )  # fmt: skip
        if process.exitcode < 0:
            name = signal.Signals(-process.exitcode).name
            raise ProcessExitedException(
                f"process {index} terminated with signal {name}", index, process.pid,
                process.exitcode, name,
            )  # fmt: skip
        raise ProcessExitedException(
            f"process {index} terminated with exit code {process.exitcode}", index, process.pid,
            process.exitcode,
        )  # fmt: skip


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Runs ``fn(i, *args)`` in processes 0 ... ``nprocs - 1``.

    Args:
        join: wait for all of them; else give a `ProcessContext`.

    Raises:
        ProcessRaisedException, ProcessExitedException: if one fails (with ``join``).
    """
    context = _python.get_context(start_method)
    processes, errors = [], []
    for i in range(nprocs):
        queue = context.SimpleQueue()
        process = context.Process(target=_run, args=(fn, i, args, queue), daemon=daemon)
        process.start()
        processes.append(process)
        errors.append(queue)
    started = ProcessContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """`start_processes` by spawning, as in PyTorch."""
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
