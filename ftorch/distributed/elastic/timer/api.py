"""Timers: who asks for them, and who watches them."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from abc import ABC, abstractmethod
from typing import Any

__all__ = ["RequestQueue", "TimerClient", "TimerRequest", "TimerServer", "configure", "expires"]

logger = logging.getLogger(__name__)


class TimerRequest:
    """A worker's block has to end by a time; a negative one: it has ended."""

    __slots__ = ["expiration_time", "scope_id", "worker_id"]

    def __init__(self, worker_id: Any, scope_id: str, expiration_time: float):
        self.worker_id, self.scope_id, self.expiration_time = worker_id, scope_id, expiration_time

    def __eq__(self, other):
        if not isinstance(other, TimerRequest):
            return False
        names = ("worker_id", "scope_id", "expiration_time")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]


class TimerClient(ABC):
    """The worker's side."""

    @abstractmethod
    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """A block begins."""
        ...

    @abstractmethod
    def release(self, scope_id: str) -> None:
        """It has ended."""
        ...


class RequestQueue(ABC):
    """What carries requests."""

    @abstractmethod
    def size(self) -> int:
        """About how many wait."""
        ...

    @abstractmethod
    def get(self, size: int, timeout: float) -> list[TimerRequest]:
        """Up to ``size`` of them, waited for at most ``timeout`` seconds."""
        ...


class TimerServer(ABC):
    """The launcher's side: a thread that looks after timers at least every ``max_interval`` seconds."""

    def __init__(self, request_queue: RequestQueue, max_interval: float, daemon: bool = True):
        self._request_queue, self._max_interval, self._daemon = request_queue, max_interval, daemon
        self._watchdog_thread: threading.Thread | None = None
        self._stop_signaled = False

    @abstractmethod
    def register_timers(self, timer_requests: list[TimerRequest]) -> None:
        """Takes requests."""
        ...

    @abstractmethod
    def clear_timers(self, worker_ids: set) -> None:
        """Forgets workers."""
        ...

    @abstractmethod
    def get_expired_timers(self, deadline: float) -> dict[Any, list[TimerRequest]]:
        """{worker: timers that ended before a time}"""
        ...

    @abstractmethod
    def _reap_worker(self, worker_id) -> bool:
        """Ends a worker; whether it is gone."""
        ...

    def _run_watchdog(self) -> None:
        count = max(1, self._request_queue.size())
        self.register_timers(self._request_queue.get(count, self._max_interval))
        gone = set()
        for worker, timers in self.get_expired_timers(time.time()).items():
            logger.info("worker %s is late: %s", worker, [t.scope_id for t in timers])
            try:
                reaped = self._reap_worker(worker)
            except Exception:
                logger.exception("cannot end worker %s", worker)
                reaped = True
            if reaped:
                gone.add(worker)
        self.clear_timers(gone)

    def _watch(self):
        while not self._stop_signaled:
            try:
                self._run_watchdog()
            except Exception:
                logger.exception("Error running watchdog")

    def start(self) -> None:
        """Begins to watch."""
        self._watchdog_thread = threading.Thread(target=self._watch, daemon=self._daemon)
        self._watchdog_thread.start()

    def stop(self) -> None:
        """Ends watching."""
        self._stop_signaled = True
        if self._watchdog_thread is not None:
            self._watchdog_thread.join(self._max_interval)
            self._watchdog_thread = None


_client: list[TimerClient] = []


def configure(timer_client: TimerClient) -> None:
    """Sets the client that `expires` uses."""
    _client[:] = [timer_client]


@contextlib.contextmanager
def expires(after: float, scope: str | None = None, client: TimerClient | None = None):
    """A block that has to end within ``after`` seconds, else its process is killed.

    Args:
        scope: its name; the place in the source by default.

    Raises:
        RuntimeError: without a client.
    """
    if client is None:
        if not _client or _client[0] is None:
            raise RuntimeError("Configure timer client before using countdown timers.")
        client = _client[0]
    if scope is None:
        frame = sys._getframe(2)
        scope = f"{frame.f_code.co_filename}#{frame.f_lineno}"
    client.acquire(scope, time.time() + after)
    try:
        yield
    finally:
        client.release(scope)
