"""Stores against PyTorch's, and connections of strangers, who get nothing."""

from __future__ import annotations

import os
import socket
import threading
from datetime import timedelta

import pytest
import torch as pt

import ftorch as ft
from ftorch.distributed import _wire
from ftorch.distributed._transport import Listener
from tests.oracle import outcome


def make(t, kind, tmp_path):
    d = t.distributed
    if kind == "hash":
        return d.HashStore()
    if kind == "file":
        return d.FileStore(str(tmp_path / f"store{t is ft}"), 1)
    store = d.TCPStore("127.0.0.1", 0, 1, True, timedelta(seconds=5))
    return d.PrefixStore("prefix", store) if kind == "prefix" else store


CALLS = {
    "get": lambda s: s.get("a"),
    "add": lambda s: (s.add("n", 3), s.add("n", -1), s.get("n")),
    "late": lambda s: s.get("missing"),
    "wait": lambda s: s.wait(["a"]),
    "late wait": lambda s: s.wait(["a", "missing"], timedelta(seconds=0.05)),
    "check": lambda s: (s.check(["a"]), s.check(["a", "missing"])),
    "set if none": lambda s: s.compare_set("b", "", "x"),
    "set if other": lambda s: s.compare_set("b", "q", "y"),
    "set if it": lambda s: s.compare_set("b", "x", "z"),
    "set of none": lambda s: s.compare_set("c", "q", "y"),
    "timeout": lambda s: s.timeout,
}
EXTENDED = {  # and what PyTorch's file store does otherwise
    "delete": lambda s: (s.delete_key("n"), s.delete_key("n")),
    "append": lambda s: (s.append("a", "!"), s.get("a")),
    "several": lambda s: (s.multi_set(["k", "l"], ["1", "2"]), s.multi_get(["k", "l"])),
    "queue": lambda s: (s.queue_push("q", "1"), s.queue_len("q"), s.queue_pop("q"), s.queue_len("q")),
    "empty queue": lambda s: s.queue_pop("q", False),
    "keys": lambda s: sorted(s.list_keys()),
    "extended": lambda s: s.has_extended_api(),
    "a queue is no key": lambda s: (s.queue_push("r", "1"), s.check(["r"]), s.delete_key("r"), s.queue_len("r")),
}


@pytest.mark.parametrize("native", [False, True])
def test_classes_of_the_users_own(native):
    """Which have the methods they have; others are made of these, and a prefix hands bytes on."""

    def calls(t):
        class Mine(t.distributed.Store):
            def __init__(self):
                super().__init__()
                self.values, self.asked = {}, []

            def set(self, key, value):
                self.values[key] = value

            def get(self, key):
                return self.values[key]

            def compare_set(self, key, expected, desired):
                if self.values.get(key, b"") == expected:
                    self.values[key] = desired
                return self.values.get(key, expected)

        class Own(Mine):
            def append(self, key, value):
                self.asked.append((key, value))

            def multi_get(self, keys):
                return [b"own" for key in keys]

            def multi_set(self, keys, values):
                self.asked.append((keys, values))

            def has_extended_api(self):
                return True

        store = Own() if native else Mine()
        prefix = t.distributed.PrefixStore("p", store)
        return [
            prefix.has_extended_api(), prefix.append("foo", b"po"), prefix.append("foo", "tato"),
            prefix.multi_set(["a", "b"], [b"1", b"2"]), prefix.multi_get(["a", "b"]), store.values, store.asked,
            *(type(outcome(call)[1]).__name__ for call in (
                lambda: prefix.queue_push("q", "1"), lambda: prefix.num_keys(), store.list_keys, lambda: store.check(["a"]))),
        ]

    assert calls(ft) == calls(pt)


def test_the_backend_that_is_asked_for_is_said(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "0")

    def backends(t):
        store, _, _ = next(t.distributed.rendezvous("env://?rank=0&world_size=1"))
        other, _, _ = next(t.distributed.rendezvous("env://?rank=0&world_size=1&use_libuv=0"))
        return store.libuvBackend, other.libuvBackend

    assert backends(ft) == backends(pt) == (True, False)


def test_a_host_without_address_is_said():
    url = "tcp://there.is.none.invalid:23456?world_size=2&rank=0"
    (_, mine), (_, theirs) = (
        outcome(lambda t=t: next(t.distributed.rendezvous(url, timeout=timedelta(seconds=0.3)))) for t in (ft, pt)
    )
    assert type(mine).__name__ == type(theirs).__name__
    assert str(mine) == str(theirs).split("\n")[0].split(" Exception")[0]


@pytest.mark.parametrize("kind", ["hash", "file", "tcp", "prefix"])
def test_calls(kind, tmp_path):
    mine, theirs = make(ft, kind, tmp_path), make(pt, kind, tmp_path)
    for s in (mine, theirs):
        s.set_timeout(timedelta(seconds=0.2))
        s.set("a", "value")
    for name, call in (CALLS if kind == "file" else CALLS | EXTENDED).items():
        (a, mine_error), (b, error) = outcome(call, mine), outcome(call, theirs)
        assert type(mine_error).__name__ == type(error).__name__, f"{name}: {mine_error!r} {error!r}"
        assert str(a) == str(b), name


def test_values_travel():
    for value in (None, True, False, -3, 1 << 40, 2.5, "é", b"\0\xff", [], [1, ["a", b"b", None]]):
        assert _wire.unpack(_wire.pack(value)) == value
    for data in (b"", b"s", b"x", b"l\xff\0\0\0\0\0\0\0", b"s\x09\0\0\0\0\0\0\0abc", _wire.pack(1) + b"n"):
        with pytest.raises(ValueError):
            _wire.unpack(data)


def _everything(port, data):
    """What a connection gets for some bytes, until the other end closes."""
    with socket.create_connection(("127.0.0.1", port), 5) as s:
        s.settimeout(20)
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            got = b""
            while part := s.recv(100):
                got += part
            return got
        except OSError:
            return b""


class _Bomb:
    def __reduce__(self):
        return os.abort, ()


def _strangers():
    import pickle

    real = _wire.token
    nonce = b"n" * 32
    yield b""
    yield b"\0" * 64
    yield pickle.dumps(_Bomb()) * 8
    yield _wire.pack(["set", "a", b"stolen"]) * 4
    _wire.token = lambda: b"guessed"
    try:
        proof = _wire._proof(_wire.token(), b"hello", nonce)
    finally:
        _wire.token = real
    yield nonce + proof + _wire._proof(b"guessed", b"client", b"?" * 32, nonce)


def test_strangers_get_nothing():
    """Whoever does not know the token reads no byte, at a store's port and at that of collectives."""
    store = ft.distributed.TCPStore("127.0.0.1", 0, 1, True)
    store.set("secret", "1")
    listener = Listener.at("127.0.0.1")
    for port in (store.port, listener.port):
        for data in _strangers():
            assert _everything(port, data) == b""
    assert store.get("secret") == b"1" and store.num_keys() == 2
    assert not any(key[0] == "stolen" for key in listener.arrived)


def test_ports_are_on_loopback():
    store = ft.distributed.TCPStore("localhost", 0, 1, True)
    assert store._server.listener.getsockname()[0] == "127.0.0.1"
    assert Listener.at("127.0.0.1").socket.getsockname()[0] == "127.0.0.1"


def test_a_wrong_token_is_said(monkeypatch):
    store = ft.distributed.TCPStore("127.0.0.1", 0, 1, True)
    real, caller = _wire.token, threading.current_thread()
    monkeypatch.setattr(
        _wire, "token", lambda: b"other" if threading.current_thread() is caller else real()
    )
    with pytest.raises(ft.distributed.DistNetworkError, match="token"):
        ft.distributed.TCPStore("127.0.0.1", store.port, 1, False, timedelta(seconds=2))


def test_a_foreign_launcher_is_said(monkeypatch):
    """Another library's launcher serves a store that speaks otherwise: workers waited for it as long as for a late one."""
    theirs = getattr(pt.distributed, "TCPStore")("127.0.0.1", 0, 2, True, wait_for_workers=False)
    values = {
        "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(theirs.port), "RANK": "0", "WORLD_SIZE": "2",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    for name in ("FTORCH_ELASTIC_ROUND", _wire.TOKEN_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RuntimeError, match="another library's launcher"):
        next(ft.distributed.rendezvous("env://", timeout=timedelta(seconds=5)))


def test_a_foreign_file_is_said(tmp_path):
    """What another program left, or PyTorch's store, is an error that names the file; the file stays as it is."""
    for name, content in (("text", b"hello, this is something else"), ("short", b"abc"), ("length", b"\x01" + bytes(7) + b"n")):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ft.distributed.DistStoreError, match=f"{name} is not the file of a store"):
            ft.distributed.FileStore(str(path), 2)
        assert path.read_bytes() == content
    path = tmp_path / "theirs"
    theirs = getattr(pt.distributed, "FileStore")(str(path), 2)
    theirs.set("a", "b")
    with pytest.raises(ft.distributed.DistStoreError):
        ft.distributed.FileStore(str(path), 2)


def test_the_last_store_of_a_file_removes_it(tmp_path):
    """Stores end when nobody refers to them; what is counted is how many have ended, and how many are there."""
    found = []
    for t in (pt, ft):
        d, seen = t.distributed, []
        for size, count in ((1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (-1, 1)):
            path = str(tmp_path / f"{t.__name__}{size}{count}")
            stores = [d.FileStore(path, size) for _ in range(count)]
            stores[0].set("a", "b")
            within = d.PrefixStore("x", stores[-1])
            while stores:
                stores.pop()
                seen.append(os.path.exists(path))
            del within
            seen.append(os.path.exists(path))
        path = str(tmp_path / f"{t.__name__} gone")
        store = d.FileStore(path, 2)
        os.unlink(path)
        del store
        found.append([*seen, os.path.exists(path)])
    assert found[0] == found[1]


@pytest.mark.parametrize("url, given", [
    ("file://foo?rank=12&world_size=16", (12, 16)), ("tcp://127.0.0.1:0?rank=0", (0, -1)), ("tcp://localhost?rank=0", (-1, 1)),
    ("env://?world_size=1", (0, 1)), ("file:///tmp/foo?rank=0", (-1, -1)), ("file://", (0, 1)), ("unknown://", (0, 1)),
])
def test_urls_that_are_refused(url, given):
    found = []
    for t in (pt, ft):
        try:
            next(t.distributed.rendezvous(url, *given))
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    assert len(found) == 2 and found[0] == found[1]
