"""Files of workers' output, shown while they grow."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["TailLog", "tail_logfile"]

logger = logging.getLogger(__name__)


def tail_logfile(header: str, file: str, dst, finished: threading.Event, interval_sec: float,
                 log_line_filter: Callable[[str], bool] | None = None) -> None:
    """Copies the lines of a file, each with a header, until it is finished and read to its end.

    Args:
        log_line_filter: says of a line whether it is copied; without one nothing is (as in PyTorch).
    """
    while not os.path.exists(file):
        if finished.wait(interval_sec):
            break
    if not os.path.exists(file):
        return
    with open(file, errors="replace") as source:
        while True:
            last = finished.is_set()  # asked before reading: what came until then is read
            while line := source.readline():
                if log_line_filter and log_line_filter(line):
                    dst.write(f"{header}{line}")
            if last:
                return
            finished.wait(interval_sec)


class TailLog:
    """Shows files of several workers.

    Args:
        log_files: {local rank: path}. A file may come later.
        dst: where lines go.
        log_line_prefixes: {local rank: what precedes its lines}; ``[{name}{local rank}]:`` by default.
    """

    def __init__(self, name: str, log_files: dict[int, str], dst: Any, log_line_prefixes: dict[int, str] | None = None,
                 interval_sec: float = 0.1, log_line_filter: Callable[[str], bool] = lambda _: True):
        self._name, self._dst, self._log_files = name, dst, log_files
        self._log_line_prefixes, self._log_line_filter = log_line_prefixes, log_line_filter
        self._interval_sec, self._stopped = interval_sec, False
        self._finished_events = {rank: threading.Event() for rank in log_files}
        self._threads: list[threading.Thread] = []

    def start(self) -> TailLog:
        """Begins, a thread for each file."""
        if self._dst:
            for rank, path in self._log_files.items():
                header = (self._log_line_prefixes or {}).get(rank, f"[{self._name}{rank}]:")
                self._threads.append(threading.Thread(target=self._follow, args=(rank, header, path), daemon=True))
                self._threads[-1].start()
        return self

    def _follow(self, rank, header, path):
        try:
            tail_logfile(header, path, self._dst, self._finished_events[rank], self._interval_sec, self._log_line_filter)
        except Exception:
            logger.exception("error in log tailer for %s%s", self._name, rank)

    def stop(self) -> None:
        """Shows the rest and ends."""
        for event in self._finished_events.values():
            event.set()
        for thread in self._threads:
            thread.join()
        flush = getattr(self._dst, "flush", None)
        if self._threads and flush is not None and not getattr(self._dst, "closed", False):
            flush()
        self._stopped = True

    def stopped(self) -> bool:
        """Whether it has ended."""
        return self._stopped
