"""Key-value stores that processes meet at (``torch.distributed.TCPStore`` and its sisters)."""

from __future__ import annotations

import atexit
import fcntl
import os
import socket
import threading
import time
import weakref
from datetime import timedelta

from . import _errors, _wire
from ._table import Table

DEFAULT_TIMEOUT = timedelta(minutes=5)
_LINGER = 10.0  # s that a process which serves a store waits at its end for the others


def seconds(timeout) -> float:
    """A timeout (timedelta or number) in seconds."""
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


def _bytes(value) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _lacks(method):
    """The error of a class of the user's own that lacks a method."""
    if method.startswith("queue_"):
        return NotImplementedError("queue support is not implemented.")
    if method == "list_keys":
        return NotImplementedError("listKeys support is not implemented.")
    if method in ("set", "get", "compare_set"):
        return RuntimeError("Not implemented.")
    name = {"delete_key": "deleteKey", "num_keys": "getNumKeys"}.get(method, method)
    return RuntimeError(f'Tried to call pure virtual function "::c10d::Store::{name}"')


def _append(compare_set, key, value):
    found, expected = compare_set(key, b"", value), value
    while found != expected:
        expected = found + value
        now = compare_set(key, found, expected)
        if now == expected:
            return
        found = now


class Store:
    """What all stores share: values are bytes, reading waits until a key is there.

    A class of the user's own overrides these methods.
    """

    _timeout: timedelta = DEFAULT_TIMEOUT

    def _call(self, method, *arguments):
        raise _lacks(method)

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets how long `get` and `wait` wait."""
        self._timeout = timeout

    def _late(self, keys, limit=None):
        shown = ", ".join(f"/{k}" if not k.startswith("/") else k for k in keys)
        limit = int(seconds(limit or self.timeout) * 1000)
        return _errors.DistStoreError(f"wait timeout after {limit}ms, keys: {shown}")

    def set(self, key: str, value) -> None:
        """Sets a key to a string or bytes."""
        self._call("set", key, _bytes(value))

    def get(self, key: str) -> bytes:
        """The value of a key, waited for.

        Raises:
            DistStoreError: if the key is not set within the store's timeout.
        """
        found, value = self._call("get", key, seconds(self.timeout))
        if not found:
            raise self._late([key])
        return value

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter, which begins at 0; gives its new value."""
        return self._call("add", key, amount)

    def append(self, key: str, value) -> None:
        """Appends to a key's value, which begins empty."""
        self._extended("append", key, _bytes(value))

    def _extended(self, method, *arguments):
        """A call that a class of the user's own may lack, by those that it has."""
        if self._native:
            return self._call(method, *arguments)
        keys, *rest = arguments
        if method == "append":  # not by `get`, which waits for a key
            return _append(self.compare_set, keys, rest[0])
        if method == "multi_set":
            for key, value in zip(keys, rest[0]):
                self.set(key, value)
            return None
        return [True, [self.get(key) for key in keys]]

    @property
    def _native(self):
        return type(self)._call is not Store._call

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Waits until all keys are set.

        Raises:
            DistStoreError: if they are not within the timeout.
        """
        limit = timeout or self.timeout
        if not self._call("wait", list(keys), seconds(limit)):
            raise self._late(keys, limit)

    def check(self, keys: list[str]) -> bool:
        """Whether all keys are set."""
        return self._call("check", list(keys))

    def compare_set(self, key: str, expected_value, desired_value) -> bytes:
        """Sets a key if it has the expected value (or none, for an empty one); gives its value."""
        return self._call("compare_set", key, _bytes(expected_value), _bytes(desired_value))

    def delete_key(self, key: str) -> bool:
        """Removes a key; whether it was there."""
        return self._call("delete_key", key)

    def num_keys(self) -> int:
        """How many keys are set."""
        return self._call("num_keys")

    def list_keys(self) -> list[str]:
        """The keys that are set."""
        return self._call("list_keys")

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """The values of several keys, waited for."""
        found, values = self._extended("multi_get", list(keys), seconds(self.timeout))
        if not found:
            raise self._late(keys)
        return values

    def multi_set(self, keys: list[str], values) -> None:
        """Sets several keys."""
        self._extended("multi_set", list(keys), [_bytes(v) for v in values])

    def queue_push(self, key: str, value) -> None:
        """Puts a value at the end of a queue."""
        self._call("queue_push", key, _bytes(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Takes the first value of a queue, waited for with ``block``."""
        found, value = self._call("queue_pop", key, seconds(self.timeout) if block else 0.0)
        if not found:
            raise self._late([key]) if block else _errors.QueueEmptyError("queue is empty")
        return value

    def queue_len(self, key: str) -> int:
        """How many values a queue has."""
        return self._call("queue_len", key)

    def has_extended_api(self) -> bool:
        """Whether the store itself has `append`, `multi_get` and `multi_set`, which other methods do otherwise."""
        return False

    def clone(self) -> Store:
        """The same store for another thread (any thread may use one)."""
        return self


class HashStore(Store):
    """A store within one process.

    >>> import ftorch.distributed as dist
    >>> store = dist.HashStore()
    >>> store.set("a", "1")
    >>> store.get("a"), store.add("n", 2)
    (b'1', 2)
    """

    def __init__(self):
        self._table = Table()

    def _late(self, keys, limit=None):
        return _errors.DistStoreError("Wait timeout")

    def _call(self, method, *arguments):
        return self._table.call(method, list(arguments))

    def has_extended_api(self) -> bool:
        """True."""
        return True


class _Server:
    """The process that has a `TCPStore`'s keys: one thread for each connection."""

    def __init__(self, host, port, listener=None):
        self.table, self.users = Table(), 0
        self.listener = listener or _wire.listen(host, port)
        self.port = self.listener.getsockname()[1]
        self.others = 0  # connections of other processes
        self.changed = threading.Condition()
        threading.Thread(target=self._serve, name="store", daemon=True).start()

    def _serve(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer):
        foreign = False
        with peer:
            if not _wire.admit(peer):
                return
            try:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                foreign = _wire.unpack(_wire.receive_frame(peer, 1 << 10)) != os.getpid()
                self._count(foreign)
                while True:
                    method, *arguments = _wire.unpack(_wire.receive_frame(peer))
                    _wire.send_frame(peer, _wire.pack(self._result(method, arguments)))
            except (EOFError, OSError, ValueError, TypeError):
                pass
            finally:
                self._count(-foreign)

    def _result(self, method, arguments):
        try:
            return [True, self.table.call(method, arguments)]
        except Exception as error:  # the caller's mistake is the caller's error
            return [False, str(error)]

    def _count(self, amount):
        with self.changed:
            self.others += amount
            self.changed.notify_all()

    def linger(self):
        """Waits a while for the others, who may still read what this process gave."""
        with self.changed:
            self.changed.wait_for(lambda: self.others <= 0, _LINGER)

    def close(self):
        """Ends the service."""
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        except OSError:
            pass
        self.listener.close()


class TCPStore(Store):
    """A store that one process serves and others reach over TCP.

    Both ends of a connection prove that they know the launcher's token (`ftorch.distributed._wire`);
    messages are lengths and bytes. It listens on the loopback interface if ``host_name`` means that, else at
    the address that ``host_name`` is.

    Args:
        host_name, port: where the master listens (port 0: any free one, see ``port``).
        world_size: how many processes the master waits for, itself included.
        is_master: whether this process serves.
        timeout: of reading and of connecting.
        wait_for_workers: whether the master waits for ``world_size`` processes.
        multi_tenant: whether a second master in the process shares the first one's service.
        master_listen_fd: a bound socket to listen on.

    Raises:
        DistNetworkError: if the master cannot be reached, or the port is taken.
    """

    _servers: weakref.WeakValueDictionary[int, _Server] = weakref.WeakValueDictionary()

    def __init__(self, host_name: str, port: int = 0, world_size: int | None = None,
                 is_master: bool = False, timeout: timedelta = DEFAULT_TIMEOUT,
                 wait_for_workers: bool = True, multi_tenant: bool = False,
                 master_listen_fd: int | None = None, use_libuv: bool = True):
        self._timeout, self.host, self.port = timeout, host_name, port
        self.world_size, self.is_master, self.libuvBackend = world_size, is_master, use_libuv
        self._connections = threading.local()
        self._process = os.getpid()
        self._server, self._opened = None, []
        if is_master:
            self._server = self._start(multi_tenant, master_listen_fd)
            self._server.users += 1
            self.port = self._server.port
        weakref.finalize(self, _end, self._opened, self._server, os.getpid())
        self._connection()
        self.add("init/", 1)
        if is_master and wait_for_workers and world_size:
            self._wait_for_workers(world_size)

    def _start(self, multi_tenant, descriptor):
        if multi_tenant and self.port in self._servers:
            return self._servers[self.port]
        listener = None
        if descriptor is not None:
            listener = socket.socket(fileno=descriptor)
            listener.listen(512)
        try:
            server = _Server(self.host, self.port, listener)
        except socket.gaierror:
            raise self._late_connection() from None
        except OSError as error:
            raise _errors.DistNetworkError(
                f"The server socket has failed to listen on any local network address. port: {self.port}, "
                f"useIpv6: false, code: {-error.errno}, name: {_name(error)}, message: {error.strerror}"
            ) from None
        self._servers[server.port] = server
        return server

    def _wait_for_workers(self, count):
        limit = time.monotonic() + seconds(self.timeout)
        while (joined := self.add("init/", 0)) < count:
            if time.monotonic() > limit:
                raise _errors.DistStoreError(
                    f"Timed out after {int(seconds(self.timeout)) + 1} seconds waiting for clients. "
                    f"{joined}/{count} clients joined."
                )
            time.sleep(0.005)

    def _late_connection(self, reason=""):
        return _errors.DistNetworkError(
            f"The client socket has timed out after {int(seconds(self.timeout) * 1000)}ms "
            f"while trying to connect to ({self.host}, {self.port}).{reason}"
        )

    def _connection(self) -> socket.socket:
        """The calling thread's own, so that one that waits is in nobody's way."""
        found = getattr(self._connections, "one", None)
        if found is not None and self._process == os.getpid():
            return found
        limit = time.monotonic() + seconds(self.timeout)
        while True:
            try:
                connection = _wire.connect(self.host, self.port, seconds(self.timeout))
                break
            except (ConnectionError, TimeoutError, socket.gaierror) as error:
                refused = "token" in str(error)
                if time.monotonic() > limit or refused:
                    raise self._late_connection(f" {error}" if refused else "") from None
                time.sleep(0.05)
        _wire.send_frame(connection, _wire.pack(os.getpid()))
        self._connections.one, self._process = connection, os.getpid()
        self._opened.append(connection)
        return connection

    def _call(self, method, *arguments):
        connection = self._connection()
        try:
            _wire.send_frame(connection, _wire.pack([method, *arguments]))
            done, result = _wire.unpack(_wire.receive_frame(connection))
        except (EOFError, ConnectionError) as error:
            raise _errors.DistNetworkError(
                f"failed to recv, got 0 bytes. The process that serves the store at ({self.host}, "
                f"{self.port}) has gone"
            ) from error
        except BaseException:  # an answer that nobody read would be the next call's
            connection.close()
            self._connections.one = None
            raise
        if not done:
            raise _errors.DistStoreError(result)
        return result

    def has_extended_api(self) -> bool:
        """True."""
        return True

    def list_keys(self) -> list[str]:
        """The keys that are set, without the store's own."""
        return [key for key in super().list_keys() if key != "init/"]

    def __repr__(self):
        return f"TCPStore(host={self.host}, port={self.port})"

    def __getstate__(self):
        return self.host, self.port, self.world_size, self._timeout

    def __setstate__(self, state):
        host, port, world_size, timeout = state
        self.__init__(host, port, world_size, False, timeout)


_exiting = [False]
atexit.register(lambda: _exiting.__setitem__(0, True))


def _end(connections, server, process):
    """What a `TCPStore` leaves behind when it, or the process, ends."""
    if process != os.getpid():
        return  # a forked child's copy
    for connection in connections:
        connection.close()
    if server is not None:
        server.users -= 1
        if server.users <= 0:
            if _exiting[0]:
                server.linger()
            server.close()


def _name(error):
    return {98: "EADDRINUSE", 99: "EADDRNOTAVAIL", 13: "EACCES"}.get(error.errno, "ERROR")


class FileStore(Store):
    """A store in a file that all processes reach, locked while it is read or written.

    The file is a log of calls that change something, in the wire format; each process applies what
    is new. When ``world_size`` stores have ended (no one refers to them, or their process ends) the last one removes it.
    """

    _open: weakref.WeakSet[FileStore] = weakref.WeakSet()  # those of this process
    _users = 0

    def __init__(self, file_name: str, world_size: int = -1, timeout: timedelta = DEFAULT_TIMEOUT):
        self.path, self.world_size, self._timeout = str(file_name), world_size, timeout
        self._table, self._read, self._lock = Table(), 0, threading.RLock()
        self._users = self.add("cleanup/users", 1) if world_size > 0 else 0
        self._open.add(self)

    def __del__(self):
        self.close()

    def _late(self, keys, limit=None):
        milliseconds = int(seconds(limit or self.timeout) * 1000)
        return RuntimeError(f"Timeout waiting for key: {keys[0]} after {milliseconds} ms")

    def close(self) -> None:
        """Ends the use of the file; the last one removes it, if ``world_size`` have ended."""
        if self._users:
            self._users = 0
            if not os.path.exists(self.path):
                return
            try:
                # Not for ever: who is collected while another store of the file is asked would wait for its own thread.
                done = self._once("add", ["cleanup/done", 1], patience=1)
                if self._once("add", ["cleanup/users", -1], patience=1) <= 0 and done >= self.world_size:
                    os.unlink(self.path)
            except OSError:
                pass

    def list_keys(self) -> list[str]:
        """The keys that are set, without the store's own."""
        return [key for key in super().list_keys() if not key.startswith("cleanup/")]

    def _foreign(self):
        return _errors.DistStoreError(
            f"{self.path} is not the file of a store, or of another program's: stores begin with a new or an empty file"
        )

    _CHANGES = frozenset(
        "set add append compare_set delete_key multi_set queue_push queue_pop".split()
    )

    def _call(self, method, *arguments):
        waits = method in ("get", "wait", "multi_get", "queue_pop")
        limit = time.monotonic() + (arguments[-1] if waits else 0)
        arguments = [*arguments[:-1], 0.0] if waits else list(arguments)
        while True:
            result = self._once(method, arguments)
            done = result[0] if isinstance(result, list) and waits else result
            if not waits or done or time.monotonic() >= limit:
                return result
            time.sleep(0.005)

    def _once(self, method, arguments, patience=None):
        with self._lock, open(self.path, "a+b") as file:
            end = None if patience is None else time.monotonic() + patience
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX if end is None else fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if end is not None and time.monotonic() > end:
                        raise
                    time.sleep(0.002)
            size = os.fstat(file.fileno()).st_size
            file.seek(self._read)
            while self._read < size:
                length = int.from_bytes(file.read(8), "little")
                if length > size - self._read - 8:
                    raise self._foreign()
                try:
                    name, *given = _wire.unpack(file.read(length))
                    if name not in self._CHANGES:
                        raise self._foreign()
                    self._table.call(name, given)
                except (ValueError, TypeError):
                    raise self._foreign() from None
                self._read += 8 + length
            result = self._table.call(method, arguments)
            if method in self._CHANGES:
                data = _wire.pack([method, *arguments])
                file.seek(0, os.SEEK_END)
                file.write(len(data).to_bytes(8, "little") + data)
                self._read += 8 + len(data)
            return result


@atexit.register
def _close_files():
    for store in list(FileStore._open):
        store.close()


class PrefixStore(Store):
    """A store whose keys all get a prefix."""

    def __init__(self, prefix: str, store: Store):
        self.prefix, self._store = prefix, store

    @property
    def underlying_store(self) -> Store:
        """The store that has the keys."""
        return self._store

    @property
    def timeout(self) -> timedelta:
        """The underlying store's."""
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the underlying store's."""
        self._store.set_timeout(timeout)

    @property
    def _underlying_non_prefix_store(self):
        store = self._store
        while isinstance(store, PrefixStore):
            store = store._store
        return store

    def _call(self, method, *arguments):
        if not arguments:
            return self._store._call(method)
        first, *rest = arguments
        if isinstance(first, list):
            first = [f"{self.prefix}/{key}" for key in first]
        else:
            first = f"{self.prefix}/{first}"
        return self._store._call(method, first, *rest)

    def has_extended_api(self) -> bool:
        """Whether the underlying store has."""
        return self._store.has_extended_api()

    def list_keys(self) -> list[str]:
        """The keys with the prefix, without it."""
        begin = f"{self.prefix}/"
        return [key.removeprefix(begin) for key in self._store.list_keys() if key.startswith(begin)]

    def clone(self) -> Store:
        """The same prefix over the store's clone."""
        return PrefixStore(self.prefix, self._store.clone())


def _delegated(name):
    """A prefix over a class of the user's own, which has the public methods only."""
    plain = getattr(Store, name)

    def call(self, key, *rest, **named):
        if self._underlying_non_prefix_store._native:
            return plain(self, key, *rest, **named)
        keys = [f"{self.prefix}/{k}" for k in key] if isinstance(key, list) else f"{self.prefix}/{key}"
        if name in _VALUES:
            rest = [[_bytes(v) for v in value] if isinstance(value, list) else _bytes(value) for value in rest]
        return getattr(self._store, name)(keys, *rest, **named)

    call.__name__, call.__doc__ = name, plain.__doc__
    return call


_VALUES = ("set", "append", "compare_set", "multi_set", "queue_push")
for _method in ("set", "get", "add", "append", "wait", "check", "compare_set", "delete_key",
                "multi_get", "multi_set", "queue_push", "queue_pop", "queue_len"):
    setattr(PrefixStore, _method, _delegated(_method))
