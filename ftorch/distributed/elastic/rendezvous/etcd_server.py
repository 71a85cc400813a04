"""An etcd server of one's own, for tests and single machines."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import time
from typing import Any

from .etcd_rendezvous_backend import _etcd

__all__ = ["EtcdServer", "find_free_port", "stop_etcd"]


def find_free_port() -> socket.socket:
    """A socket that is bound to a free port of the loopback interface."""
    found = socket.socket()
    found.bind(("localhost", 0))
    found.listen(0)
    return found


def stop_etcd(subprocess: Any, data_dir: str | None = None) -> None:
    """Ends a server and removes its folder."""
    if subprocess is not None and subprocess.poll() is None:
        subprocess.terminate()
        subprocess.wait()
    if data_dir:
        shutil.rmtree(data_dir, ignore_errors=True)


class EtcdServer:
    """A server that the program ``etcd`` serves (``TORCHELASTIC_ETCD_BINARY_PATH``, or what ``PATH`` finds)."""

    def __init__(self, data_dir: str | None = None):
        self._binary = os.environ.get("TORCHELASTIC_ETCD_BINARY_PATH") or shutil.which("etcd") or "etcd"
        self._base_data_dir = data_dir or tempfile.mkdtemp(prefix="torchelastic_etcd_data")
        self._host, self._port, self._process = "localhost", -1, None

    def get_host(self) -> str:
        """The server's host."""
        return self._host

    def get_port(self) -> int:
        """The server's port."""
        return self._port

    def get_endpoint(self) -> str:
        """``host:port``"""
        return f"{self._host}:{self._port}"

    def get_client(self):
        """A client of the server."""
        return _etcd().Client(self._host, self._port, version_prefix="/v2", read_timeout=10)

    def start(self, timeout: int = 60, num_retries: int = 3, stderr: Any = None) -> None:
        """Starts it.

        Raises:
            RuntimeError: if it does not answer in time. FileNotFoundError: without the program.
        """
        own, peer = find_free_port(), find_free_port()
        self._port, other = own.getsockname()[1], peer.getsockname()[1]
        own.close()
        peer.close()
        urls = [f"http://{self._host}:{port}" for port in (self._port, other)]
        self._process = subprocess.Popen([
            self._binary, "--enable-v2", "--data-dir", self._base_data_dir, "--listen-client-urls", urls[0],
            "--advertise-client-urls", urls[0], "--listen-peer-urls", urls[1],
        ], stderr=stderr, close_fds=True)
        atexit.register(stop_etcd, self._process, self._base_data_dir)
        client, end = self.get_client(), time.monotonic() + timeout
        while True:
            try:
                client.version  # noqa: B018  (asks the server)
                return
            except Exception as error:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise RuntimeError("Etcd server did not start in time") from error
                time.sleep(0.1)

    def stop(self) -> None:
        """Ends it."""
        stop_etcd(self._process, self._base_data_dir)
