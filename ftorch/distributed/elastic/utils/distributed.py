"""Stores and ports for launchers."""

from __future__ import annotations

import contextlib
from datetime import timedelta

from ..._errors import DistNetworkError
from ..._store import TCPStore
from .api import get_socket_with_port
from .store import barrier

__all__ = ["create_c10d_store", "get_free_port", "get_socket_with_port"]


def get_free_port() -> int:
    """A port that is free now."""
    with contextlib.closing(get_socket_with_port()) as listener:
        return listener.getsockname()[1]


def create_c10d_store(is_server: bool, server_addr: str, server_port: int = -1, world_size: int = 1,
                      timeout: float = 60 * 10, wait_for_workers: bool = True, retries: int = 3,
                      use_libuv: bool | None = None) -> TCPStore:
    """A `TCPStore` that all have reached.

    Args:
        server_port: -1: any free one, for one process.

    Raises:
        ValueError: for several processes without a port. RuntimeError: if the port is taken.
    """
    if server_port == -1 and world_size > 1:
        raise ValueError(
            f"server_port must be specified when world_size > 1, got server_port={server_port}, "
            f"world_size={world_size}"
        )
    for attempt in range(retries if server_port == -1 else 1):
        port = get_free_port() if server_port == -1 else server_port
        try:
            store = TCPStore(server_addr, port, world_size, is_server, timedelta(seconds=timeout), wait_for_workers)
        except DistNetworkError:
            if server_port != -1 or attempt == retries - 1:
                raise RuntimeError(f"on {server_addr}, port: {port} already in use") from None
            continue
        if wait_for_workers:
            barrier(store, world_size, "_tcp_store/num_members", timeout)
        return store
    raise RuntimeError(f"on {server_addr}: no port")
