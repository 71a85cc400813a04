"""A place for a server that says whether a launcher is alive: programs derive their own."""

from __future__ import annotations

from collections.abc import Callable

from ...utils.logging import get_logger

__all__ = ["HealthCheckServer", "create_healthcheck_server"]

logger = get_logger(__name__)


class HealthCheckServer:
    """What such a server is given; this one serves nothing.

    Args:
        alive_callback: the time of the launcher's last progress, in seconds since 1970.
        port: where to serve.
        timeout: seconds without progress after which the launcher counts as dead.
    """

    def __init__(self, alive_callback: Callable[[], int], port: int, timeout: int):
        self._alive_callback, self._port, self._timeout = alive_callback, port, timeout

    @property
    def alive_callback(self) -> Callable[[], int]:
        """The time of the last progress."""
        return self._alive_callback

    def start(self) -> None:
        """Begins to serve."""
        logger.warning("No health check server started")

    def stop(self) -> None:
        """Ends."""
        logger.info("Stopping noop health check server.")


def create_healthcheck_server(alive_callback: Callable[[], int], port: int, timeout: int) -> HealthCheckServer:
    """A server."""
    return HealthCheckServer(alive_callback, port, timeout)
