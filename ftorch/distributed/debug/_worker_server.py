"""A small HTTP server in a process, by which others ask how it goes: each name under ``/handler/`` is a function.

It listens at a socket of the file system, or on loopback: whoever reaches it reads where the process' threads are.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import socketserver
import sys
import threading
import traceback
import urllib.parse
from collections.abc import Callable

_handlers: dict[str, Callable] = {}


class _Request:
    """What was asked: parameters of the address, and the body."""

    def __init__(self, parameters, body):
        self._parameters, self._body = parameters, body

    def get_param(self, name: str) -> str:
        """A parameter of the address, "" if there is none."""
        return self._parameters.get(name, [""])[0]

    def body(self) -> str:
        """The body."""
        return self._body.decode()


class _Response:
    """What is answered."""

    def __init__(self):
        self.status, self.content, self.kind = 200, b"", "text/plain"

    def set_status(self, status: int) -> None:
        """Sets the code, 200 at first."""
        self.status = status

    def set_content(self, content, content_type: str) -> None:
        """Sets the body and its type."""
        self.content = content.encode() if isinstance(content, str) else bytes(content)
        self.kind = content_type


def _register_handler(name: str, handler: Callable) -> None:
    """Makes ``handler(request, response)`` what ``POST /handler/name`` does.

    Raises:
        ValueError: if the name is taken.
    """
    if name in _handlers:
        raise ValueError(f"Handler {name} already registered")
    _handlers[name] = handler


def _traceback(request, response):
    names = {t.ident: t.name for t in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        parts.append(f"Thread {ident:#018x} ({names.get(ident, '?')}):\n{''.join(traceback.format_stack(frame))}")
    response.set_content("\n".join(parts), "text/plain")


def _profile(request, response):
    import tempfile
    import time
    from pathlib import Path

    from ...profiler import profile

    with profile(record_shapes=True) as found:
        time.sleep(float(request.get_param("duration")))
    with tempfile.TemporaryDirectory() as folder:
        found.export_chrome_trace(path := f"{folder}/trace.json")
        response.set_content(Path(path).read_bytes(), "application/json")


_register_handler("ping", lambda request, response: response.set_content("pong", "text/plain"))
_register_handler("dump_traceback", _traceback)
_register_handler("torch_profile", _profile)
_register_handler(
    "wait_counter_values", lambda request, response: response.set_content("{}", "application/json")
)


class _Answers(http.server.BaseHTTPRequestHandler):
    def log_message(self, format, *args):
        """Nothing: the process' output is the program's."""

    def address_string(self):
        """Sockets of the file system have none."""
        return "worker"

    def _answer(self, status, content, kind="text/plain"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):  # noqa: N802
        """What there is."""
        if self.path == "/":
            self._answer(
                200, b'<h1>torch.distributed.WorkerServer</h1>\n<a href="/handler/">Handler names</a>\n', "text/html"
            )
        elif self.path == "/handler/":
            self._answer(200, json.dumps(list(_handlers)).encode(), "application/json")
        else:
            self._answer(404, b"")

    def do_POST(self):  # noqa: N802
        """One of the functions."""
        where = urllib.parse.urlsplit(self.path)
        name = where.path.removeprefix("/handler/")
        handler = _handlers.get(name) if where.path.startswith("/handler/") else None
        if handler is None:
            self._answer(404, f"Handler {name} not found: Failed to find handler {name}".encode())
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        response = _Response()
        try:
            handler(_Request(urllib.parse.parse_qs(where.query), body), response)
        except Exception as error:
            self._answer(500, f"Handler {name} failed: {type(error).__name__}: {error}\n".encode())
            return
        self._answer(response.status, response.content, response.kind)


class _Tcp(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


class _Unix(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class _WorkerServer:
    """Serves the handlers until `shutdown`.

    Args:
        host_or_file: an address, or without ``port`` the path of a socket that is made, for its owner alone.
        port: 0 for a free one.

    Attributes:
        port: where it listens; -1 for a socket of the file system.

    >>> import urllib.request
    >>> server = _WorkerServer("127.0.0.1", 0)
    >>> urllib.request.urlopen(f"http://127.0.0.1:{server.port}/handler/ping", b"").read()
    b'pong'
    >>> server.shutdown()
    """

    def __init__(self, host_or_file: str, port: int = -1):
        self._file = host_or_file if port == -1 else None
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._file)
            outer = os.umask(0o177)
            try:
                self._server: socketserver.BaseServer = _Unix(self._file, _Answers)
            finally:
                os.umask(outer)
            self.port = -1
        else:
            server = self._server = _Tcp((host_or_file, port), _Answers)
            self.port = server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="worker server", daemon=True)
        self._thread.start()

    def shutdown(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._file)
