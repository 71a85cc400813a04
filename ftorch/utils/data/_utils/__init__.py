"""What the `DataLoader` is made of: collation, fetching, and worker processes."""

import atexit
import sys

from ftorch._utils import ExceptionWrapper

IS_WINDOWS = sys.platform == "win32"
HAS_NUMPY = True  # the package needs it
python_exit_status = False  # whether the interpreter is shutting down
MP_STATUS_CHECK_INTERVAL = 5.0  # seconds that ending workers are given before they are terminated


def _set_python_exit_flag() -> None:
    global python_exit_status
    python_exit_status = True


atexit.register(_set_python_exit_flag)

from . import collate, fetch, pin_memory, signal_handling, worker  # noqa: E402  (they read the interval)

__all__ = [
    "MP_STATUS_CHECK_INTERVAL", "ExceptionWrapper", "collate", "fetch", "pin_memory", "signal_handling", "worker",
]
