"""A store whose values an etcd server keeps."""

from __future__ import annotations

import random
import time
from base64 import b64decode, b64encode
from datetime import timedelta
from typing import Any

from ..._store import Store, seconds

__all__ = ["EtcdStore", "cas_delay"]


def cas_delay() -> None:
    """Sleeps a moment, for another try."""
    time.sleep(random.uniform(0.01, 0.1))


def _plain(key: str) -> str:
    return b64encode(key.encode()).decode()


class EtcdStore(Store):
    """Values under a prefix of an etcd server.

    Args:
        etcd_client: an ``etcd.Client``.
        timeout: how long `get` and `wait` wait (five minutes).
    """

    def __init__(self, etcd_client: Any, etcd_store_prefix: str, timeout: timedelta | None = None):
        super().__init__()
        self.client, self.prefix = etcd_client, etcd_store_prefix.rstrip("/") + "/"
        if timeout is not None:
            self.set_timeout(timeout)

    def _read(self, key):
        import etcd  # type: ignore[import-not-found]

        try:
            return self.client.get(self.prefix + _plain(key))
        except etcd.EtcdKeyNotFound:
            return None

    def _write(self, key, value: bytes, **condition) -> bool:
        import etcd  # type: ignore[import-not-found]

        try:
            self.client.write(self.prefix + _plain(key), b64encode(value).decode(), **condition)
        except (etcd.EtcdCompareFailed, etcd.EtcdAlreadyExist, etcd.EtcdKeyNotFound):
            return False
        return True

    def _call(self, method, *arguments):
        return getattr(self, f"_do_{method}")(*arguments)

    def _do_set(self, key, value):
        self._write(key, value)

    def _do_check(self, keys):
        return all(self._read(key) is not None for key in keys)

    def _do_wait(self, keys, limit):
        end = time.monotonic() + limit
        while not self._do_check(keys):
            if time.monotonic() > end:
                return False
            cas_delay()
        return True

    def _do_get(self, key, limit):
        if not self._do_wait([key], limit):
            return False, b""
        return True, b64decode(self._read(key).value)

    def _do_multi_get(self, keys, limit):
        if not self._do_wait(keys, limit):
            return False, []
        return True, [b64decode(self._read(key).value) for key in keys]

    def _changed(self, key, change):
        while True:
            found = self._read(key)
            old = None if found is None else b64decode(found.value)
            new = change(old)
            if new is None:
                return old
            condition = {"prevExist": False} if found is None else {"prevIndex": found.modifiedIndex}
            if self._write(key, new, **condition):
                return new
            cas_delay()

    def _do_add(self, key, amount):
        return int(self._changed(key, lambda old: str(int(old or 0) + amount).encode()))

    def _do_append(self, key, value):
        self._changed(key, lambda old: (old or b"") + value)

    def _do_compare_set(self, key, expected, desired):
        found = self._changed(key, lambda old: desired if old == expected or (old is None and not expected) else None)
        return expected if found is None else found

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Waits until all keys are set.

        Raises:
            LookupError: if they are not within the timeout.
        """
        if not self._do_wait(list(keys), seconds(timeout or self.timeout)):
            raise LookupError("Timed out while waiting for keys in EtcdStore")
