"""Blocks of code that have to end in time (``torch.distributed.elastic.timer``).

A launcher starts a server; its workers mark blocks with `expires`. A worker whose block does not end in time is killed.
"""

from .api import RequestQueue, TimerClient, TimerRequest, TimerServer, configure, expires
from .file_based_local_timer import FileTimerClient, FileTimerRequest, FileTimerServer
from .local_timer import LocalTimerClient, LocalTimerServer, MultiprocessingRequestQueue

__all__ = [
    "FileTimerClient", "FileTimerRequest", "FileTimerServer", "LocalTimerClient", "LocalTimerServer",
    "MultiprocessingRequestQueue", "RequestQueue", "TimerClient", "TimerRequest", "TimerServer", "configure", "expires",
]
