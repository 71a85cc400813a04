"""Timers of the processes of one machine, over a queue of ``multiprocessing``."""

from __future__ import annotations

import os
import queue
import signal
import time

from .api import RequestQueue, TimerClient, TimerRequest, TimerServer

__all__ = ["LocalTimerClient", "LocalTimerServer", "MultiprocessingRequestQueue"]


class LocalTimerClient(TimerClient):
    """Puts requests into a queue."""

    def __init__(self, mp_queue):
        self._mp_queue = mp_queue

    def acquire(self, scope_id, expiration_time):
        """A block begins."""
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, expiration_time))

    def release(self, scope_id):
        """It has ended."""
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, -1))


class MultiprocessingRequestQueue(RequestQueue):
    """Takes requests out of a queue."""

    def __init__(self, mp_queue):
        self._mp_queue = mp_queue

    def size(self):
        """About how many wait."""
        return self._mp_queue.qsize()

    def get(self, size, timeout):
        """Up to ``size`` of them within ``timeout`` seconds."""
        found, limit = [], time.monotonic() + timeout
        while len(found) < size and (left := limit - time.monotonic()) > 0:
            try:
                found.append(self._mp_queue.get(timeout=left))
            except queue.Empty:
                break
        return found


class LocalTimerServer(TimerServer):
    """Kills processes of this machine that are late."""

    def __init__(self, mp_queue, max_interval: float = 60, daemon: bool = True):
        super().__init__(MultiprocessingRequestQueue(mp_queue), max_interval, daemon)
        self._timers: dict[tuple, TimerRequest] = {}

    def register_timers(self, timer_requests):
        """Takes requests."""
        for request in timer_requests:
            key = request.worker_id, request.scope_id
            if request.expiration_time < 0:
                self._timers.pop(key, None)
            else:
                self._timers[key] = request

    def clear_timers(self, worker_ids):
        """Forgets processes."""
        self._timers = {k: v for k, v in self._timers.items() if k[0] not in worker_ids}

    def get_expired_timers(self, deadline):
        """{process: timers that ended before a time}"""
        late: dict = {}
        for request in self._timers.values():
            if request.expiration_time <= deadline:
                late.setdefault(request.worker_id, []).append(request)
        return late

    def _reap_worker(self, worker_id):
        try:
            os.kill(worker_id, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return True
