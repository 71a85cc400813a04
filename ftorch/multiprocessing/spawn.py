"""Processes that run one function, each with its number (``torch.multiprocessing.spawn``)."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import warnings

__all__ = [
    "ENV_VAR_PARALLEL_START", "ProcessContext", "ProcessException", "ProcessExitedException",
    "ProcessRaisedException", "SpawnContext", "spawn", "start_processes",
]

ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"


class ProcessException(Exception):
    """A process failed.

    Attributes:
        error_index: its number. error_pid: its process id.
    """

    def __init__(self, msg: str, error_index: int, error_pid: int):
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process ended by an exception."""

    def __init__(self, msg: str, error_index: int, error_pid: int):
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """A process ended by a signal, or with an exit code."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int,
                 signal_name: str | None = None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self):
        return type(self), (
            self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name
        )


def _call(function, i, args, error_file):
    _end_with_parent()
    try:
        function(i, *args)
    except KeyboardInterrupt:
        pass  # the parent was interrupted as well
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


def _end_with_parent():
    """Ends the process when its parent does (Linux)."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGINT)
    if os.getppid() == 1:
        os.kill(os.getpid(), signal.SIGINT)


class ProcessContext:
    """Processes that `start_processes` started."""

    def __init__(self, processes, error_files):
        self.error_files, self.processes = error_files, processes
        self.sentinels = {p.sentinel: i for i, p in enumerate(processes)}

    def pids(self) -> list[int]:
        """The processes' ids."""
        return [int(p.pid) for p in self.processes]

    def _join_procs_with_timeout(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        for process in self.processes:
            process.join(max(0, end - time.monotonic()))

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until a process ends; whether all have ended. The first failure ends the others.

        Raises:
            ProcessRaisedException: with the process' traceback. ProcessExitedException: if a signal or an exit
            code ended it.
        """
        if not self.sentinels:
            return True
        ready = multiprocessing.connection.wait(list(self.sentinels), timeout)
        failed = None
        for sentinel in ready:
            index = self.sentinels.pop(sentinel)
            process = self.processes[index]
            process.join()
            if process.exitcode != 0:
                failed = index
                break
        if failed is None:
            if not self.sentinels:
                self._clean()
            return not self.sentinels
        if grace_period is not None:
            self._join_procs_with_timeout(grace_period)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._join_procs_with_timeout(30 if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()
        self._raise(failed)

    def _clean(self):
        for path in self.error_files:
            if os.path.exists(path):
                os.unlink(path)

    def _raise(self, index):
        process, path = self.processes[index], self.error_files[index]
        text = None
        if os.path.exists(path) and os.path.getsize(path):
            with open(path, "rb") as file:
                text = pickle.load(file)
        self._clean()
        if text is not None:
            raise ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{text}", index, process.pid
            )
        code = process.exitcode
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            raise ProcessExitedException(
                f"process {index} terminated with signal {name}", index, process.pid, code, name
            )
        raise ProcessExitedException(
            f"process {index} terminated with exit code {code}", index, process.pid, code
        )


class SpawnContext(ProcessContext):
    """The older name."""

    def __init__(self, processes, error_files):
        warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=2)
        super().__init__(processes, error_files)


def start_processes(fn, args=(), nprocs: int = 1, join: bool = True, daemon: bool = False,
                    start_method: str = "spawn", numa_options=None):
    """Starts ``nprocs`` processes that call ``fn(i, *args)``.

    Without a token in the environment they get one (`ftorch.distributed`), so that they find each other.

    Args:
        join: whether to wait for all; else a `ProcessContext` comes back.

    Raises:
        ProcessRaisedException, ProcessExitedException: if one fails; the others are ended.
    """
    from ..distributed import _wire

    context = multiprocessing.get_context(start_method)
    processes, files = [], []
    outer = os.environ.get(_wire.TOKEN_VARIABLE)
    if outer is None:
        os.environ[_wire.TOKEN_VARIABLE] = _wire.new_token()
    try:
        for i in range(nprocs):
            handle, path = tempfile.mkstemp(prefix="ftorch-errorfile-", suffix=".pickle")
            os.close(handle)
            process = context.Process(target=_call, args=(fn, i, args, path), daemon=daemon)
            process.start()
            files.append(path)
            processes.append(process)
    finally:
        if outer is None:
            del os.environ[_wire.TOKEN_VARIABLE]
    made = ProcessContext(processes, files)
    if not join:
        return made
    while not made.join():
        pass
    return None


def spawn(fn, args=(), nprocs: int = 1, join: bool = True, daemon: bool = False,
          start_method: str = "spawn"):
    """`start_processes` by ``spawn``.

    Raises:
        ProcessRaisedException, ProcessExitedException: if a process fails.
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
