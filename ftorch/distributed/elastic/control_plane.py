"""A worker that answers how it goes, at a socket that its launcher names (``torch.distributed.elastic.control_plane``)."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from .multiprocessing.errors import record

__all__ = ["worker_main"]

TORCH_WORKER_SERVER_SOCKET = "TORCH_WORKER_SERVER_SOCKET"


@contextmanager
def _worker_server(socket_path: str) -> Generator[None, None, None]:
    from ..debug._worker_server import _WorkerServer

    server = _WorkerServer(socket_path)
    try:
        yield
    finally:
        server.shutdown()


@record
@contextmanager
def worker_main() -> Generator[None, None, None]:
    """Around a worker's main function, as a decorator or a ``with`` block: `record`, and a server of the process at the
    socket that ``TORCH_WORKER_SERVER_SOCKET`` names, if it is set.

    >>> with worker_main():
    ...     print("working")
    working
    """
    with ExitStack() as stack:
        path = os.environ.get(TORCH_WORKER_SERVER_SOCKET)
        if path is not None:
            stack.enter_context(_worker_server(path))
        yield
