"""What failed in which worker (``torch.distributed.elastic.multiprocessing.errors``)."""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ...utils.logging import get_logger
from .error_handler import ErrorHandler
from .handlers import get_error_handler

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

logger = get_logger(__name__)
_UNKNOWN = "<N/A>"


@dataclass
class ProcessFailure:
    """A worker that failed: its number, process, exit code, and what it wrote of the error.

    Attributes:
        message: what the worker wrote (a text, or a dictionary with the traceback), or what its exit code says.
        timestamp: seconds since 1970.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict[str, Any] = field(init=False)
    message: Any = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self):
        self.error_file_data, self.message, self.timestamp = {"message": "<NONE>"}, "", int(time.time())
        if os.path.isfile(self.error_file):
            with open(self.error_file) as file:
                self.error_file_data = json.load(file)
            self.message = self.error_file_data["message"]
            said = self.message["extraInfo"] if isinstance(self.message, dict) else self.error_file_data
            self.timestamp = int(said.get("timestamp", 0))
        else:
            self.error_file = _UNKNOWN
        if not self.message and self.exitcode < 0:
            self.message = f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
        elif not self.message:
            self.error_file_data["errorTraits"] = {"category": "system_terminated_error", "retryability": "False"}
            self.message = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"

    def signal_name(self) -> str:
        """The name of the signal that ended it, or ``<N/A>``."""
        try:
            return signal.Signals(-self.exitcode).name if self.exitcode < 0 else _UNKNOWN
        except ValueError:
            return _UNKNOWN

    def timestamp_isoformat(self) -> str:
        """When it failed."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")


class ChildFailedError(Exception):
    """Workers failed.

    Args:
        name: the program. failures: {rank: `ProcessFailure`}.
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]):
        self.name, self.failures = name, failures
        if not failures:
            raise AssertionError
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """(rank, failure) of the one that failed first."""
        rank = min(self.failures, key=lambda r: self.failures[r].timestamp)
        return rank, self.failures[rank]

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """All failures, as text."""
        title, (first, _) = f"{self.name} FAILED", self.get_first_failure()
        shown = {rank: self._shown(i, rank) for i, rank in enumerate(self.failures)}
        longest = max(len(line) for text in (title, *shown.values()) for line in text.split("\n"))
        border, section = (delimiter * min(longest, 60) for delimiter in (boarder_delim, section_delim))
        root = shown.pop(first)
        return "\n".join([
            "", border, title, section, "Failures:", "\n".join(shown.values() or ["  <NO_OTHER_FAILURES>"]), section,
            "Root Cause (first observed failure):", root, border,
        ])

    def _shown(self, index, rank):
        f = self.failures[rank]
        text, name = f.message, f.signal_name()
        if isinstance(text, dict):
            text = text.get("extraInfo", {}).get("py_callstack", text.get("message", _UNKNOWN)).replace("\n", "\n  ")
        return (
            f"[{index}]:\n  time      : {f.timestamp_isoformat()}\n  host      : {socket.getfqdn()}\n"
            f"  rank      : {rank} (local_rank: {f.local_rank})\n"
            f"  exitcode  : {f.exitcode} (pid: {f.pid}) {'' if name == _UNKNOWN else f' ({name})'}\n"
            f"  error_file: {f.error_file}\n  traceback : {text}"
        )


def record(fn, error_handler: ErrorHandler | None = None):
    """A function whose exceptions are written to the launcher's error file
    (``torch.distributed.elastic.multiprocessing.errors.record``). ``sys.exit(0)`` within it returns None."""
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as error:
            if error.code == 0:
                return None
            raise
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            if failure.error_file != _UNKNOWN:
                handler.dump_error_file(failure.error_file, failure.exitcode)
            else:
                logger.info("rank %s failed without an error file: decorate its entry point by @record", rank)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return wrapper
