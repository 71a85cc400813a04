"""Timers of the processes of one machine, over a named pipe: workers need nothing but its path."""

from __future__ import annotations

import json
import os
import select
import signal as signals
import threading
import time
from collections.abc import Callable

from ..utils.logging import get_logger
from .api import TimerClient, TimerRequest
from .debug_info_logging import log_debug_info_for_expired_timers

__all__ = ["FileTimerClient", "FileTimerRequest", "FileTimerServer"]

logger = get_logger(__name__)


class FileTimerRequest(TimerRequest):
    """A block begins, or (with a negative time) ends.

    Args:
        signal: what ends the process if the block does not end in time; 0: nothing.
    """

    __slots__ = ["signal", "version"]

    def __init__(self, worker_pid: int, scope_id: str, expiration_time: float, signal: int = 0):
        super().__init__(worker_pid, scope_id, expiration_time)
        self.version, self.signal = 1, signal

    @property
    def worker_pid(self) -> int:
        """The process."""
        return self.worker_id

    def __eq__(self, other):
        if not isinstance(other, FileTimerRequest):
            return False
        return super().__eq__(other) and self.version == other.version and self.signal == other.signal

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> str:
        """The request as JSON."""
        return json.dumps({
            "version": self.version, "pid": self.worker_pid, "scope_id": self.scope_id,
            "expiration_time": self.expiration_time, "signal": int(self.signal),
        })


class FileTimerClient(TimerClient):
    """Writes requests into a pipe that a server has made.

    Args:
        signal: what ends this process if a block does not end in time.
    """

    def __init__(self, file_path: str, signal: int = getattr(signals, "SIGKILL", signals.SIGTERM)):
        self._file_path, self.signal = file_path, signal

    def _send_request(self, request: FileTimerRequest) -> None:
        for attempt in range(10):
            try:
                number = os.open(self._file_path, os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError as error:
                if attempt == 9:
                    raise BrokenPipeError(
                        "Could not send the FileTimerRequest because FileTimerServer is not available."
                    ) from error
                time.sleep(0.1)
        with os.fdopen(number, "w") as file:
            text = request.to_json()
            if len(text) > select.PIPE_BUF:  # longer ones may be mixed with another process'
                raise RuntimeError(f"FileTimerRequest larger than {select.PIPE_BUF} bytes is not supported: {text}")
            file.write(text + "\n")

    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """A block begins."""
        self._send_request(FileTimerRequest(os.getpid(), scope_id, expiration_time, self.signal))

    def release(self, scope_id: str) -> None:
        """It has ended."""
        self._send_request(FileTimerRequest(os.getpid(), scope_id, -1, 0))


class FileTimerServer:
    """Ends processes of this machine that are late, and then its own: their launcher starts them again.

    Args:
        file_path: the pipe that it makes.
        max_interval: seconds between looks.
        log_event: is called with an event's name and the request.
    """

    def __init__(self, file_path: str, run_id: str, max_interval: float = 10, daemon: bool = True,
                 log_event: Callable[[str, FileTimerRequest | None], None] | None = None):
        self._file_path, self._run_id = file_path, run_id
        self._max_interval, self._daemon = max_interval, daemon
        self._log_event = log_event or (lambda name, request: None)
        self._timers: dict[tuple[int, str], FileTimerRequest] = {}
        self._stop_signaled = self._run_once = self._is_client_started = False
        self._watchdog_thread: threading.Thread | None = None
        self._request_count, self._last_progress_time = 0, int(time.time())
        if os.path.exists(file_path):
            os.remove(file_path)
        os.mkfifo(file_path)

    def start(self) -> None:
        """Begins to watch."""
        self._watchdog_thread = threading.Thread(target=self._watchdog_loop, daemon=self._daemon)
        self._watchdog_thread.start()
        self._log_event("watchdog started", None)

    def stop(self) -> None:
        """Ends watching and removes the pipe."""
        self._stop_signaled = True
        self._finish(self._max_interval)
        self._log_event("watchdog stopped", None)

    def run_once(self) -> None:
        """Reads what was requested, looks once and ends."""
        self._run_once = True
        self._finish(None)

    def _finish(self, limit):
        if self._watchdog_thread is not None:
            self._watchdog_thread.join(limit)
            self._watchdog_thread = None
        if os.path.exists(self._file_path):
            os.remove(self._file_path)

    @staticmethod
    def is_process_running(pid: int) -> bool:
        """Whether a process is there."""
        try:
            os.kill(pid, 0)
        except OSError:
            return False
        return True

    def _watchdog_loop(self):
        with open(self._file_path) as pipe:  # waits for the first worker
            self._is_client_started = True
            while not self._stop_signaled:
                last = self._run_once
                try:
                    self._run_watchdog(pipe)
                    self._last_progress_time = int(time.time())
                except Exception:
                    logger.exception("Error running watchdog")
                if last:
                    return

    def _run_watchdog(self, pipe):
        self.register_timers(self._get_requests(pipe, self._max_interval))
        expired, ended = self.get_expired_timers(time.time()), 0
        log_debug_info_for_expired_timers(self._run_id, {p: [t.to_json() for t in ts] for p, ts in expired.items()})
        for pid, timers in expired.items():
            timers.sort(key=lambda timer: timer.expiration_time)
            deadly = next((t for t in timers if t.signal > 0), None)
            for timer in timers[: timers.index(deadly) + 1 if deadly else None]:
                self._log_event("timer expired", timer)
            if deadly is None:
                logger.info("No signal specified with worker=[%s]. Do not reap it.", pid)
            elif self._reap_worker(pid, deadly.signal):
                self._log_event("kill worker process", deadly)
                ended = deadly.signal
        if ended:
            logger.info("Terminating the server process=[%s] because of expired timers", os.getpid())
            self._reap_worker(os.getpid(), ended)
        self.clear_timers(set(expired))

    def _get_requests(self, pipe, max_interval):
        limit, found = time.monotonic() + max_interval, []
        while not self._stop_signaled or self._run_once:
            line = pipe.readline()
            if line:
                values = json.loads(line)
                names = ("pid", "scope_id", "expiration_time", "signal")
                found.append(FileTimerRequest(*(values[name] for name in names)))
            elif self._run_once:
                break
            else:
                time.sleep(min(max_interval, 1))
            if time.monotonic() > limit:
                break
        return found

    def register_timers(self, timer_requests: list[FileTimerRequest]) -> None:
        """Takes requests."""
        for request in timer_requests:
            self._request_count += 1
            key = request.worker_pid, request.scope_id
            if request.expiration_time < 0:
                self._timers.pop(key, None)
            else:
                self._timers[key] = request

    def clear_timers(self, worker_pids: set[int]) -> None:
        """Forgets processes, and those that have ended."""
        self._timers = {
            key: timer for key, timer in self._timers.items()
            if key[0] not in worker_pids and self.is_process_running(key[0])
        }

    def get_expired_timers(self, deadline: float) -> dict[int, list[FileTimerRequest]]:
        """{process: timers that ended before a time}"""
        late: dict[int, list[FileTimerRequest]] = {}
        for request in self._timers.values():
            if request.expiration_time <= deadline:
                late.setdefault(request.worker_pid, []).append(request)
        return late

    def _reap_worker(self, worker_pid: int, signal: int) -> bool:
        try:
            os.kill(worker_pid, signal)
        except ProcessLookupError:
            logger.info("Process with pid=%s does not exist. Skipping", worker_pid)
        except Exception:
            logger.exception("Error terminating pid=%s", worker_pid)
            return False
        return True

    def get_last_progress_time(self) -> int:
        """When it last looked, in seconds since 1970; now while no worker has come."""
        return self._last_progress_time if self._is_client_started else int(time.time())
