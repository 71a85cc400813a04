"""Workers of one machine: where their output goes, how they are started, watched and ended."""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any

from ....multiprocessing.spawn import ProcessContext, ProcessException
from ....multiprocessing.spawn import start_processes as spawn_processes
from ....numa.binding import _maybe_apply_numa_binding_to_current_process
from .errors import ProcessFailure, record
from .redirects import redirect_stderr, redirect_stdout
from .subprocess_handler import SubprocessHandler, get_subprocess_handler
from .tail_log import TailLog

__all__ = [
    "DefaultLogsSpecs", "LogsDest", "LogsSpecs", "MultiprocessContext", "PContext", "RunProcsResult",
    "SignalException", "Std", "SubprocessContext", "get_std_cm", "to_map",
]

logger = logging.getLogger(__name__)
_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"

_VALUE, _MAPPING = "^[0123]$", r"^(\d:[0123],)*(\d:[0123])$"


class SignalException(Exception):
    """A signal came."""

    def __init__(self, msg: str, sigval: signal.Signals):
        super().__init__(msg)
        self.sigval = sigval


def _terminate_process_handler(signum: int, frame) -> None:
    sigval = signal.Signals(signum)
    raise SignalException(f"Process {os.getpid()} got signal: {sigval}", sigval)


class Std(IntFlag):
    """Streams.

    >>> Std.from_str("0:3,1:0")
    {0: <Std.ALL: 3>, 1: <Std.NONE: 0>}
    """

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm: str) -> Any:
        """The streams of ``"3"``, or those of each worker of ``"0:3,1:0"``.

        Raises:
            ValueError: for other texts.
        """
        if re.match(_VALUE, vm):
            return Std(int(vm))
        if re.match(_MAPPING, vm):
            pairs = (pair.split(":") for pair in vm.split(","))
            return {int(rank): Std(int(value)) for rank, value in pairs}
        raise ValueError(f"{vm} does not match: <{_VALUE}> or <{_MAPPING}>")


def to_map(val_or_map, local_world_size: int) -> dict[int, Std]:
    """The streams of each worker, of one value or of some workers'."""
    if isinstance(val_or_map, Std):
        return dict.fromkeys(range(local_world_size), val_or_map)
    return {i: val_or_map.get(i, Std.NONE) for i in range(local_world_size)}


def _validate_full_rank(d: dict[int, Any], nprocs: int, what: str) -> None:
    actual, expected = set(d), set(range(nprocs))
    if actual != expected:
        raise RuntimeError(f"{what}, local rank mapping mismatch, expected: {expected}, actual: {actual}")


@dataclass
class LogsDest:
    """Files of workers by local rank: their output (empty: the console), what is also shown, and their errors."""

    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)
    tee_stdouts: dict[int, str] = field(default_factory=dict)
    tee_stderrs: dict[int, str] = field(default_factory=dict)
    error_files: dict[int, str] = field(default_factory=dict)
    filtered_stdout: str = ""
    filtered_stderr: str = ""


class LogsSpecs(ABC):
    """Where the output of workers goes.

    Args:
        log_dir: a folder for files.
        redirects: streams that go into files, of all workers or by local rank.
        tee: streams that also go to the console.
        local_ranks_filter: workers whose output is shown; all by default.
    """

    def __init__(self, log_dir: str | None = None, redirects: Std | dict[int, Std] = Std.NONE,
                 tee: Std | dict[int, Std] = Std.NONE, local_ranks_filter: set[int] | None = None):
        self._root_log_dir, self._redirects, self._tee = log_dir, redirects, tee
        self._local_ranks_filter = local_ranks_filter

    @abstractmethod
    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """The files of workers with these environments, which get ``TORCHELASTIC_ERROR_FILE``."""
        ...

    @property
    @abstractmethod
    def root_log_dir(self) -> str:
        """The folder."""
        ...


class DefaultLogsSpecs(LogsSpecs):
    """``<log_dir>/<run id>_<random>/attempt_<restart>/<local rank>/(stdout.log, stderr.log, error.json)``.

    Without a ``log_dir`` files lie in a new folder of the system's for such; ``os.devnull`` makes none.

    Raises:
        NotADirectoryError: if ``log_dir`` is a file.
    """

    def __init__(self, log_dir: str | None = None, redirects: Std | dict[int, Std] = Std.NONE,
                 tee: Std | dict[int, Std] = Std.NONE, local_ranks_filter: set[int] | None = None):
        if not log_dir:
            log_dir = tempfile.mkdtemp(prefix="torchelastic_")
        elif log_dir != os.devnull:
            if os.path.isfile(log_dir):
                raise NotADirectoryError(f"log_dir: {log_dir} is a file")
            os.makedirs(log_dir, exist_ok=True)
        super().__init__(log_dir, redirects, tee, local_ranks_filter)
        self._run_log_dir: str | None = None

    @property
    def root_log_dir(self) -> str:
        """The folder."""
        return str(self._root_log_dir)

    def _make_log_dir(self, log_dir: str | None, rdzv_run_id: str) -> str:
        base = log_dir or tempfile.mkdtemp(prefix="torchelastic_")
        os.makedirs(base, exist_ok=True)
        return tempfile.mkdtemp(prefix=f"{rdzv_run_id}_", dir=base)

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """The files of workers with these environments, which get ``TORCHELASTIC_ERROR_FILE``."""
        count, any_env = len(envs), next(iter(envs.values()), {})
        redirects, tees = to_map(self._redirects, count), to_map(self._tee, count)
        found = LogsDest()
        if self._root_log_dir == os.devnull:
            for rank in range(count):
                found.stdouts[rank] = found.stderrs[rank] = ""
                found.tee_stdouts[rank] = found.tee_stderrs[rank] = found.error_files[rank] = os.devnull
                envs[rank]["TORCHELASTIC_ERROR_FILE"] = ""
            folder = os.devnull
        else:
            if not self._run_log_dir:
                run = any_env.get("TORCHELASTIC_RUN_ID", "test_run_id")
                self._run_log_dir = self._make_log_dir(self._root_log_dir, run)
            folder = os.path.join(self._run_log_dir, f"attempt_{any_env.get('TORCHELASTIC_RESTART_COUNT', '0')}")
            shutil.rmtree(folder, ignore_errors=True)
            for rank in range(count):
                own = os.path.join(folder, str(rank))
                os.makedirs(own)
                found.error_files[rank] = envs[rank]["TORCHELASTIC_ERROR_FILE"] = os.path.join(own, "error.json")
                shown = not self._local_ranks_filter or rank in self._local_ranks_filter
                for name, bit in (("stdout", Std.OUT), ("stderr", Std.ERR)):
                    into = (redirects[rank] | tees[rank]) & bit
                    path = os.path.join(own, f"{name}.log") if into else "" if shown else os.devnull
                    getattr(found, f"{name}s")[rank] = path
                    if tees[rank] & bit and shown:
                        getattr(found, f"tee_{name}s")[rank] = path
        found.filtered_stdout = os.path.join(folder, "filtered_stdout.log")
        found.filtered_stderr = os.path.join(folder, "filtered_stderr.log")
        return found

    def __repr__(self):
        return (
            f"DefaultLogsSpecs(root_log_dir={self._root_log_dir}, redirects={self._redirects}, tee={self._tee}, "
            f"local_ranks_filter={self._local_ranks_filter})"
        )

    def __eq__(self, other):
        if not isinstance(other, DefaultLogsSpecs):
            return False
        names = ("_root_log_dir", "_redirects", "_tee", "_local_ranks_filter")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]


@dataclass
class RunProcsResult:
    """What became of workers: their results, or their failures, and the files of their output."""

    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether one of them failed."""
        return len(self.failures) > 0


class PContext(ABC):
    """Workers of one machine that were started together.

    Args:
        name: what precedes their lines on the console.
        entrypoint: a function or a program.
        args, envs: by local rank.
        duplicate_stdout_filters, duplicate_stderr_filters: lines that have one of these texts also go into a file.
    """

    def __init__(self, name: str, entrypoint: Callable | str, args: dict[int, tuple], envs: dict[int, dict[str, str]],
                 logs_specs: LogsSpecs, log_line_prefixes: dict[int, str] | None = None,
                 duplicate_stdout_filters: list[str] | None = None, duplicate_stderr_filters: list[str] | None = None):
        dest, self.nprocs = logs_specs.reify(envs), len(args)
        _validate_full_rank(dest.stdouts, self.nprocs, "stdouts")
        _validate_full_rank(dest.stderrs, self.nprocs, "stderrs")
        self.name, self.entrypoint, self.args, self.envs = name, entrypoint, args, envs
        self.stdouts, self.stderrs, self.error_files = dest.stdouts, dest.stderrs, dest.error_files
        self.filtered_stdout = self.filtered_stderr = None
        self._tail_logs = [
            TailLog(name, dest.tee_stdouts, sys.stdout, log_line_prefixes),
            TailLog(name, dest.tee_stderrs, sys.stderr, log_line_prefixes),
        ]
        if duplicate_stdout_filters:
            self.filtered_stdout = self._filtered(
                dest.filtered_stdout, dest.tee_stdouts, log_line_prefixes, duplicate_stdout_filters
            )
        if duplicate_stderr_filters:
            self.filtered_stderr = self._filtered(
                dest.filtered_stderr, dest.tee_stderrs, log_line_prefixes, duplicate_stderr_filters
            )

    def _filtered(self, path, files, prefixes, texts):
        file = open(path, "w", errors="replace", buffering=1)
        self._tail_logs.append(TailLog(
            self.name, files, file, prefixes, log_line_filter=lambda line: any(text in line for text in texts)
        ))
        return file

    def start(self) -> None:
        """Starts them; signals to this process are exceptions from then on (`SignalException`)."""
        if threading.current_thread() is threading.main_thread():
            for name in os.environ.get("TORCHELASTIC_SIGNALS_TO_HANDLE", _SIGNALS).split(","):
                try:
                    signal.signal(getattr(signal, name.strip()), _terminate_process_handler)
                except (AttributeError, ValueError, OSError):
                    logger.warning("Failed to register signal handler for %s", name, exc_info=True)
        else:
            logger.warning(
                "Failed to register signal handlers since torchelastic is running on a child thread. "
                "This could lead to orphaned worker processes if the torchrun is terminated."
            )
        self._start()
        for log in self._tail_logs:
            log.start()

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _poll(self) -> RunProcsResult | None: ...

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """What became of them, when all have ended or one has failed (which ends the others); None if they still run.

        Args:
            timeout: seconds; 0 asks once, a negative one waits for ever.
            period: seconds between looks.
        """
        if timeout == 0:
            return self._poll()
        end = time.monotonic() + timeout
        while timeout < 0 or time.monotonic() < end:
            result = self._poll()
            if result is not None:
                return result
            time.sleep(period)
        return None

    @abstractmethod
    def pids(self) -> dict[int, int]:
        """Their process ids by local rank."""
        ...

    def _unfinished(self) -> dict[int, int]:
        """Process ids of those that have not done their work yet, by local rank."""
        return self.pids()

    @abstractmethod
    def _close(self, death_sig: signal.Signals, timeout: int = 30) -> None: ...

    def close(self, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        """Ends them by a signal (SIGTERM by default), and by SIGKILL what still runs after ``timeout`` seconds."""
        self._close(death_sig=death_sig or signal.SIGTERM, timeout=timeout)
        for log in self._tail_logs:
            log.stop()
        for file in (self.filtered_stdout, self.filtered_stderr):
            if file:
                file.close()


def get_std_cm(std_rd: str, redirect_fn):
    """``redirect_fn(std_rd)``; nothing without a file."""
    return redirect_fn(std_rd) if std_rd and sys.platform not in ("win32", "darwin") else nullcontext()


def _wrap(local_rank, fn, args, envs, stdout_redirects, stderr_redirects, ret_vals, finished, numa_options):
    os.environ.update(envs[local_rank])
    with (
        get_std_cm(stdout_redirects[local_rank], redirect_stdout),
        get_std_cm(stderr_redirects[local_rank], redirect_stderr),
    ):
        if numa_options is not None:
            _maybe_apply_numa_binding_to_current_process(gpu_index=local_rank, numa_options=numa_options)
        result = record(fn)(*args[local_rank])
    ret_vals[local_rank].put(result)
    finished.acquire()  # until the parent has read it


class MultiprocessContext(PContext):
    """Workers that call a function."""

    def __init__(self, name: str, entrypoint: Callable, args: dict[int, tuple], envs: dict[int, dict[str, str]],
                 start_method: str, logs_specs: LogsSpecs, log_line_prefixes: dict[int, str] | None = None,
                 numa_options=None, duplicate_stdout_filters: list[str] | None = None,
                 duplicate_stderr_filters: list[str] | None = None):
        super().__init__(
            name, entrypoint, args, envs, logs_specs, log_line_prefixes, duplicate_stdout_filters,
            duplicate_stderr_filters,
        )
        context = multiprocessing.get_context(start_method)
        self.start_method = start_method
        self._ret_vals = {rank: context.SimpleQueue() for rank in range(self.nprocs)}
        self._return_values: dict[int, Any] = {}
        # No event: who sets one waits for those that wait for it, and one of them may be stopped.
        self._worker_finished_event = context.Semaphore(0)
        self._numa_options, self._pc = numa_options, None

    def _start(self):
        if self._pc is not None:
            raise ValueError(
                "The process context already initialized. Most likely the start method got called twice."
            )
        values = (
            self.entrypoint, self.args, self.envs, self.stdouts, self.stderrs, self._ret_vals,
            self._worker_finished_event, self._numa_options,
        )
        self._pc: ProcessContext | None = spawn_processes(
            _wrap, values, self.nprocs, join=False, daemon=False, start_method=self.start_method
        )

    def _poll(self):
        context = self._pc
        if context is None:
            raise AssertionError("the workers were not started")
        try:
            context.join(0)
            for rank, values in self._ret_vals.items():
                if rank not in self._return_values and not values.empty():
                    self._return_values[rank] = values.get()
            if len(self._return_values) < self.nprocs:
                return None
            for _ in range(self.nprocs):
                self._worker_finished_event.release()
            while not context.join(1):
                for process in context.processes:  # nobody looks after one any more that is stopped
                    if process.is_alive():
                        _send(process.pid, signal.SIGCONT)
        except ProcessException as error:
            rank = error.error_index
            code = context.processes[rank].exitcode
            logger.exception(
                "failed (exitcode: %s) local_rank: %s (pid: %s) of fn: %s (start_method: %s)",
                code, rank, error.error_pid, self.entrypoint.__qualname__, self.start_method,
            )
            self.close()
            failure = ProcessFailure(rank, error.error_pid, code, self.error_files[rank])
            return RunProcsResult(failures={rank: failure}, stdouts=self.stdouts, stderrs=self.stderrs)
        self.close()
        return RunProcsResult(return_values=self._return_values, stdouts=self.stdouts, stderrs=self.stderrs)

    def pids(self) -> dict[int, int]:
        """Their process ids by local rank."""
        if self._pc is None:
            raise AssertionError("the workers were not started")
        return dict(enumerate(self._pc.pids()))

    def _unfinished(self):
        return {rank: pid for rank, pid in self.pids().items() if rank not in self._return_values}

    def _close(self, death_sig, timeout=30):
        if self._pc is None:
            return
        running = [p for p in self._pc.processes if p.is_alive()]
        for process in running:
            _send(process.pid, death_sig)
        end = time.monotonic() + timeout
        for process in running:
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                logger.warning("Unable to shutdown process %s via %s", process.pid, death_sig)
                process.kill()
                process.join(timeout)


def _send(pid, number):
    for each in (number, signal.SIGCONT):  # what is stopped goes on, to act on the signal
        try:
            os.kill(pid, each)
        except ProcessLookupError:
            pass


class SubprocessContext(PContext):
    """Workers that are a program."""

    def __init__(self, name: str, entrypoint: str, args: dict[int, tuple], envs: dict[int, dict[str, str]],
                 logs_specs: LogsSpecs, log_line_prefixes: dict[int, str] | None = None, numa_options=None,
                 duplicate_stdout_filters: list[str] | None = None, duplicate_stderr_filters: list[str] | None = None):
        super().__init__(
            name, entrypoint, args, envs, logs_specs, log_line_prefixes, duplicate_stdout_filters,
            duplicate_stderr_filters,
        )
        self._running_local_ranks = set(range(self.nprocs))
        self._failures: dict[int, ProcessFailure] = {}
        self.subprocess_handlers: dict[int, SubprocessHandler] = {}
        self._numa_options = numa_options

    def _start(self):
        if self.subprocess_handlers:
            raise ValueError(
                "The subprocess handlers already initialized. Most likely the start method got called twice."
            )
        for rank in range(self.nprocs):
            self.subprocess_handlers[rank] = get_subprocess_handler(
                self.entrypoint, self.args[rank], self.envs[rank], self.stdouts[rank], self.stderrs[rank], rank,
                self._numa_options,
            )

    def _collect(self):
        for rank in sorted(self._running_local_ranks):
            process = self.subprocess_handlers[rank].proc
            code = process.poll()
            if code is None:
                continue
            self._running_local_ranks.discard(rank)
            if code != 0:
                self._failures[rank] = ProcessFailure(rank, process.pid, code, self.error_files[rank])

    def _poll(self):
        self._collect()
        if self._running_local_ranks and not self._failures:
            return None
        self.close()
        self._collect()  # those that were ended
        result = RunProcsResult(failures=self._failures, stdouts=self.stdouts, stderrs=self.stderrs)
        if result.is_failed():
            first = min(self._failures.values(), key=lambda f: f.timestamp)
            logger.error(
                "failed (exitcode: %s) local_rank: %s (pid: %s) of binary: %s", first.exitcode, first.local_rank,
                first.pid, self.entrypoint,
            )
        else:
            result.return_values = dict.fromkeys(range(self.nprocs))
        return result

    def pids(self) -> dict[int, int]:
        """Their process ids by local rank."""
        return {rank: handler.proc.pid for rank, handler in self.subprocess_handlers.items()}

    def _unfinished(self):
        return {rank: pid for rank, pid in self.pids().items() if rank in self._running_local_ranks}

    def _close(self, death_sig, timeout=30):
        running = [h for h in self.subprocess_handlers.values() if h.proc.poll() is None]
        for handler in running:
            logger.warning("Sending process %s closing signal %s", handler.proc.pid, death_sig.name)
            self._end(handler, death_sig)
        end = time.monotonic() + timeout
        for handler in running:
            try:
                handler.proc.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                logger.warning("Unable to shutdown process %s via %s", handler.proc.pid, death_sig)
                self._end(handler, signal.SIGKILL)
                handler.proc.wait(timeout)

    @staticmethod
    def _end(handler, number):
        try:
            handler.close(number)
        except ProcessLookupError:
            pass
