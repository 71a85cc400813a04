"""What the `DataLoader` is made of: collation, fetching, and worker processes."""

from ftorch._utils import ExceptionWrapper

MP_STATUS_CHECK_INTERVAL = 5.0  # seconds that ending workers are given before they are terminated

from . import collate, fetch, pin_memory, worker  # noqa: E402  (they read the interval)

__all__ = [
    "MP_STATUS_CHECK_INTERVAL", "ExceptionWrapper", "collate", "fetch", "pin_memory", "worker",
]
