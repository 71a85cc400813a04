"""What failed in which worker (``torch.distributed.elastic.multiprocessing.errors``)."""

from __future__ import annotations

import functools
import json
import os
import signal
import time
import traceback
from datetime import datetime

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]


class ErrorHandler:
    """Writes an exception to the file that the launcher named (``TORCHELASTIC_ERROR_FILE``)."""

    def _get_error_file_path(self) -> str | None:
        return os.environ.get("TORCHELASTIC_ERROR_FILE")

    def initialize(self) -> None:
        """Lets Python print where it was when a signal ends it."""
        import faulthandler

        try:
            faulthandler.enable(all_threads=True)
        except Exception:
            pass

    def record_exception(self, e: BaseException) -> None:
        """Writes an exception."""
        path = self._get_error_file_path()
        if path:
            data = {
                "message": {
                    "message": f"{type(e).__name__}: {e}",
                    "extraInfo": {
                        "py_callstack": traceback.format_exc(), "timestamp": str(int(time.time())),
                    },
                }
            }
            with open(path, "w") as file:
                json.dump(data, file)


def get_error_handler() -> ErrorHandler:
    """The handler."""
    return ErrorHandler()


class ProcessFailure:
    """A worker that failed: its number, process, exit code, and what it wrote of the error."""

    def __init__(self, local_rank: int, pid: int, exitcode: int, error_file: str):
        self.local_rank, self.pid, self.exitcode, self.error_file = local_rank, pid, exitcode, error_file
        self.error_file_data = {}
        self.timestamp = int(time.time())
        if os.path.isfile(error_file):
            try:
                with open(error_file) as file:
                    self.error_file_data = json.load(file)
                self.timestamp = int(self.error_file_data["message"]["extraInfo"]["timestamp"])
            except (OSError, ValueError, KeyError, TypeError):
                pass
        message = self.error_file_data.get("message")
        if message is not None:
            inner = message.get("message") if isinstance(message, dict) else message
            callstack = message.get("extraInfo", {}).get("py_callstack") if isinstance(message, dict) else ""
            self.message = callstack or inner
        elif exitcode < 0:
            self.message = f"Signal {-exitcode} ({self.signal_name()}) received by PID {pid}"
        else:
            self.message = (
                "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
            )

    def signal_name(self) -> str:
        """The name of the signal that ended it, or ``<N/A>``."""
        if self.exitcode >= 0:
            return "<N/A>"
        try:
            return signal.Signals(-self.exitcode).name
        except ValueError:
            return "<N/A>"

    def timestamp_isoformat(self) -> str:
        """When it failed."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")


class ChildFailedError(Exception):
    """Workers failed.

    Args:
        name: the program. failures: {rank: `ProcessFailure`}.
    """

    def __init__(self, name: str, failures: dict):
        self.name, self.failures = name, failures
        if not failures:
            raise AssertionError("failures must not be empty")
        super().__init__(self.format_msg())

    def get_first_failure(self):
        """(rank, failure) of the one that failed first."""
        rank = min(self.failures, key=lambda r: self.failures[r].timestamp)
        return rank, self.failures[rank]

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """All failures, as text."""
        first, _ = self.get_first_failure()
        lines = [f"{self.name} FAILED", section_delim * 60, "Failures:"]
        others = [self._shown(i, r) for i, r in enumerate(self.failures) if r != first]
        lines += others or ["  <NO_OTHER_FAILURES>"]
        lines += [section_delim * 60, "Root Cause (first observed failure):",
                  self._shown(list(self.failures).index(first), first)]
        border = boarder_delim * 60
        return "\n".join(["", border, *lines, border])

    def _shown(self, index, rank):
        f = self.failures[rank]
        import socket

        return (
            f"[{index}]:\n  time      : {f.timestamp_isoformat()}\n  host      : {socket.getfqdn()}\n"
            f"  rank      : {rank} (local_rank: {f.local_rank})\n  exitcode  : {f.exitcode} (pid: {f.pid})\n"
            f"  error_file: {f.error_file if f.error_file_data else '<N/A>'}\n  traceback : {f.message}"
        )


def record(fn, error_handler: ErrorHandler | None = None):
    """A function whose exceptions are written to the launcher's error file
    (``torch.distributed.elastic.multiprocessing.errors.record``)."""

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        handler = error_handler or get_error_handler()
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as error:
            if error.code not in (0, None):
                handler.record_exception(error)
            raise
        except ChildFailedError as error:
            path = os.environ.get("TORCHELASTIC_ERROR_FILE")
            _, failure = error.get_first_failure()
            if path and failure.error_file_data:
                with open(path, "w") as file:
                    json.dump(failure.error_file_data, file)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return wrapper
