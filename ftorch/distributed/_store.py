"""Key-value stores that processes meet at (``torch.distributed.TCPStore`` and its sisters)."""

from __future__ import annotations

import atexit
import os
import threading
import time
from datetime import timedelta
from multiprocessing.connection import Client, Connection, Listener

from . import _errors

DEFAULT_TIMEOUT = timedelta(minutes=5)
_LINGER = 10.0  # s that a process which serves a store waits at its end for the others
_KEY = b"ftorch.distributed"  # both ends of a connection prove that they know it


def _seconds(timeout) -> float:
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


def _bytes(value) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class Store:
    """What all stores share: values are bytes, reading waits until a key is there."""

    timeout: timedelta = DEFAULT_TIMEOUT

    def _call(self, method, *arguments):
        raise NotImplementedError

    def set(self, key: str, value) -> None:
        """Sets a key to a string or bytes."""
        self._call("set", key, _bytes(value))

    def get(self, key: str) -> bytes:
        """The value of a key, waited for.

        Raises:
            DistStoreError: if the key is not set within the store's timeout.
        """
        found, value = self._call("get", key, _seconds(self.timeout))
        if not found:
            raise _errors.DistStoreError(f"wait timeout after {self.timeout}, keys: /{key}")
        return value

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter, which begins at 0; gives its new value."""
        return self._call("add", key, amount)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Waits until all keys are set.

        Raises:
            DistStoreError: if they are not within the timeout.
        """
        limit = timeout or self.timeout
        if not self._call("wait", list(keys), _seconds(limit)):
            raise _errors.DistStoreError(f"wait timeout after {limit}, keys: {', '.join(keys)}")

    def check(self, keys: list[str]) -> bool:
        """Whether all keys are set."""
        return self._call("wait", list(keys), 0.0)

    def compare_set(self, key: str, expected_value, desired_value) -> bytes:
        """Sets a key if it has the expected value (or none, for an empty one); gives its value."""
        return self._call("compare_set", key, _bytes(expected_value), _bytes(desired_value))

    def delete_key(self, key: str) -> bool:
        """Removes a key; whether it was there."""
        return self._call("delete_key", key)

    def num_keys(self) -> int:
        """How many keys are set."""
        return self._call("num_keys")

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets how long `get` and `wait` wait."""
        self.timeout = timeout


class _Table:
    """The keys and values, for several threads."""

    def __init__(self):
        self.values: dict[str, bytes] = {}
        self.changed = threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def get(self, key, timeout):
        with self.changed:
            found = self.changed.wait_for(lambda: key in self.values, timeout)
            return found, self.values.get(key, b"")

    def wait(self, keys, timeout):
        with self.changed:
            return self.changed.wait_for(lambda: all(k in self.values for k in keys), timeout)

    def add(self, key, amount):
        with self.changed:
            total = int(self.values.get(key, b"0")) + amount
            self.values[key] = str(total).encode()
            self.changed.notify_all()
            return total

    def compare_set(self, key, expected, desired):
        with self.changed:
            if self.values.get(key, b"") == expected:
                self.values[key] = desired
                self.changed.notify_all()
            return self.values.get(key, expected)

    def delete_key(self, key):
        with self.changed:
            return self.values.pop(key, None) is not None

    def num_keys(self):
        with self.changed:
            return len(self.values)


class _Peers:
    """The connections of other processes to a store."""

    def __init__(self):
        self.count = 0
        self.changed = threading.Condition()

    def _add(self, process, amount):
        if process is not None and process != os.getpid():
            with self.changed:
                self.count += amount
                self.changed.notify_all()

    def joined(self, process):
        self._add(process, 1)

    def left(self, process):
        self._add(process, -1)

    def wait_for_end(self, timeout):
        with self.changed:
            self.changed.wait_for(lambda: self.count == 0, timeout)


class HashStore(Store):
    """A store within one process.

    >>> import ftorch.distributed as dist
    >>> store = dist.HashStore()
    >>> store.set("a", "1")
    >>> store.get("a"), store.add("n", 2)
    (b'1', 2)
    """

    def __init__(self):
        self._table = _Table()

    def _call(self, method, *arguments):
        return getattr(self._table, method)(*arguments)


class TCPStore(Store):
    """A store that one process serves and others reach over TCP.

    Args:
        host_name, port: where the master listens (port 0: any free one, see ``port``).
        world_size: how many processes the master waits for, itself included.
        is_master: whether this process serves.
        timeout: of reading and of connecting.
        wait_for_workers: whether the master waits for ``world_size`` processes.

    Raises:
        DistNetworkError: if the master cannot be reached.
    """

    def __init__(self, host_name: str, port: int, world_size: int | None = None,
                 is_master: bool = False, timeout: timedelta = DEFAULT_TIMEOUT,
                 wait_for_workers: bool = True, **_):  # fmt: skip
        self.timeout, self.host, self.port = timeout, host_name, port
        self._connections = threading.local()
        self._listener = None
        if is_master:
            self._listener = Listener((host_name, port), authkey=_KEY)
            self.port = self._listener.address[1]
            self._peers = _Peers()
            threading.Thread(target=self._serve, args=(_Table(),), daemon=True).start()
            # Others may still read what this process gave to the last collective.
            atexit.register(self._peers.wait_for_end, _LINGER)
        self._connection()
        self.add("init/", 1)
        if is_master and wait_for_workers and world_size:
            self._wait_for_workers(world_size)

    def _wait_for_workers(self, count):
        limit = time.monotonic() + _seconds(self.timeout)
        while (joined := self.add("init/", 0)) < count:
            if time.monotonic() > limit:
                raise _errors.DistStoreError(
                    f"Timed out after {_seconds(self.timeout):g} seconds waiting for clients. "
                    f"{joined}/{count} clients joined."
                )
            time.sleep(0.01)

    def _serve(self, table):
        while True:
            try:
                peer = self._listener.accept()
            except OSError:
                return  # closed with the process
            except Exception:  # somebody else knocked
                continue
            threading.Thread(target=self._answer, args=(peer, table), daemon=True).start()

    def _answer(self, peer, table):
        process = None
        try:
            process, *_ = peer.recv()  # whoever connects says who it is
            self._peers.joined(process)
            while True:
                method, arguments = peer.recv()
                peer.send(getattr(table, method)(*arguments))
        except (EOFError, OSError):
            peer.close()
        finally:
            self._peers.left(process)

    def _connection(self) -> Connection:
        """The calling thread's own, so that one that waits is in nobody's way."""
        found = getattr(self._connections, "one", None)
        if found is not None:
            return found
        limit = time.monotonic() + _seconds(self.timeout)
        while True:
            try:
                connection = self._connections.one = Client((self.host, self.port), authkey=_KEY)
                connection.send((os.getpid(),))
                return connection
            except ConnectionRefusedError:
                if time.monotonic() > limit:
                    raise _errors.DistNetworkError(
                        f"The client socket has timed out after {_seconds(self.timeout):g} seconds "
                        f"while trying to connect to ({self.host}, {self.port})."
                    ) from None
                time.sleep(0.05)

    def _call(self, method, *arguments):
        connection = self._connection()
        try:
            connection.send((method, arguments))
            return connection.recv()
        except (EOFError, ConnectionError) as error:
            raise _errors.DistNetworkError(
                f"the process that serves the store at ({self.host}, {self.port}) has gone"
            ) from error


class PrefixStore(Store):
    """A store whose keys all get a prefix."""

    def __init__(self, prefix: str, store: Store):
        self.prefix, self.underlying_store, self.timeout = prefix, store, store.timeout

    def _call(self, method, *arguments):
        if not arguments:
            return self.underlying_store._call(method)
        first, *rest = arguments
        if isinstance(first, list):
            first = [f"{self.prefix}/{key}" for key in first]
        else:
            first = f"{self.prefix}/{first}"
        return self.underlying_store._call(method, first, *rest)
