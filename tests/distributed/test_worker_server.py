"""The server of a process, by which others ask how it goes: answers are those of PyTorch's."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import stat
import urllib.request

import pytest
from torch._C import _distributed_c10d as theirs

from ftorch._C import _distributed_c10d as mine
from ftorch.distributed import debug
from ftorch.distributed.debug import _worker_server
from ftorch.distributed.elastic.control_plane import worker_main

from .pool import free_port


def _ask(server, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read()
    finally:
        connection.close()


@contextlib.contextmanager
def _serving(library):
    server = library._WorkerServer("127.0.0.1", 0)
    try:
        yield server
    finally:
        server.shutdown()


@pytest.mark.parametrize(("method", "path"), (
    ("GET", "/"), ("POST", "/handler/ping"), ("POST", "/handler/nope"),
))
def test_answers(method, path):
    with _serving(theirs) as a, _serving(mine) as b:
        assert _ask(b, method, path) == _ask(a, method, path)


def test_counters():
    with _serving(theirs) as a, _serving(mine) as b:  # PyTorch counts what other tests did
        answers = [_ask(server, "POST", "/handler/wait_counter_values") for server in (a, b)]
    assert answers[0][:2] == answers[1][:2]
    assert all(isinstance(json.loads(answer[2]), dict) for answer in answers)


def test_own_handlers(monkeypatch):
    monkeypatch.setattr(_worker_server, "_handlers", dict(_worker_server._handlers))

    def echo(request, response):
        response.set_content(request.get_param("a") + request.body(), "text/csv")
        response.set_status(201)

    mine._register_handler("echo", echo)
    mine._register_handler("fails", lambda request, response: 1 / 0)
    with pytest.raises(ValueError, match="Handler echo already registered"):
        mine._register_handler("echo", echo)
    with _serving(mine) as server:
        assert _ask(server, "POST", "/handler/echo?a=3", b"xx") == (201, "text/csv", b"3xx")
        assert _ask(server, "POST", "/handler/fails")[0] == 500
        assert set(json.loads(_ask(server, "GET", "/handler/")[2])) >= {"ping", "dump_traceback", "torch_profile", "echo"}
        assert b"test_own_handlers" in _ask(server, "POST", "/handler/dump_traceback")[2]
        assert b"traceEvents" in _ask(server, "POST", "/handler/torch_profile?duration=0.01")[2]


def test_workers_answer_at_their_socket(tmp_path, monkeypatch):
    path = str(tmp_path / "s")
    monkeypatch.setenv("TORCH_WORKER_SERVER_SOCKET", path)
    with worker_main():  # pyright: ignore
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as own:
            own.connect(path)
            own.sendall(b"POST /handler/ping HTTP/1.0\r\n\r\n")
            assert own.makefile("rb").read().endswith(b"pong")
    assert not os.path.exists(path)


def test_page_of_a_job(tmp_path, monkeypatch):
    from ftorch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for name, value in (("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", store.port), ("RANK", 0), ("WORLD_SIZE", 1)):
        monkeypatch.setenv(name, str(value))
    port = free_port()
    debug.start_debug_server(port, dump_dir=str(tmp_path), dump_interval=0.05)
    try:
        with pytest.raises(AssertionError, match="debug server already started"):
            debug.start_debug_server(port)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/stacks", timeout=20) as answer:
            assert b"Rank 0" in (page := answer.read()) and b"test_page_of_a_job" in page
    finally:
        debug.stop_debug_server()
    with pytest.raises(AssertionError):
        debug.stop_debug_server()
