"""The keys and values of a store, for several threads."""

from __future__ import annotations

import threading
from collections import deque


class Table:
    """A dictionary whose readers wait for keys. Its public methods are what a store's server does."""

    CALLS = frozenset(
        "set get wait check add compare_set delete_key num_keys append multi_get multi_set list_keys "
        "queue_push queue_pop queue_len".split()
    )

    def __init__(self):
        self.values: dict[str, bytes] = {}
        self.queues: dict[str, deque] = {}
        self.changed = threading.Condition()

    def call(self, method: str, arguments: list):
        """A call by name. Raises ValueError for a name that is none."""
        if method not in self.CALLS:
            raise ValueError(f"no such call: {method}")
        with self.changed:
            return getattr(self, method)(*arguments)

    def _put(self, key, value):
        self.values[key] = value
        self.changed.notify_all()

    def set(self, key, value):
        self._put(key, value)

    def get(self, key, timeout):
        """[whether it came in time, the value]"""
        found = self.changed.wait_for(lambda: key in self.values, timeout)
        return [found, self.values.get(key, b"")]

    def wait(self, keys, timeout):
        return self.changed.wait_for(
            lambda: all(k in self.values or k in self.queues for k in keys), timeout
        )

    def check(self, keys):
        return all(k in self.values or k in self.queues for k in keys)

    def add(self, key, amount):
        total = int(self.values.get(key, b"0")) + amount
        self._put(key, str(total).encode())
        return total

    def append(self, key, value):
        self._put(key, self.values.get(key, b"") + value)

    def compare_set(self, key, expected, desired):
        found = self.values.get(key)
        if found is None and expected == b"" or found == expected:
            self._put(key, desired)
            return desired
        return expected if found is None else found

    def delete_key(self, key):
        return self.values.pop(key, None) is not None

    def num_keys(self):
        return len(self.values)

    def list_keys(self):
        return list(self.values)

    def multi_get(self, keys, timeout):
        found = self.changed.wait_for(lambda: all(k in self.values for k in keys), timeout)
        return [found, [self.values[k] for k in keys] if found else []]

    def multi_set(self, keys, values):
        self.values.update(zip(keys, values))
        self.changed.notify_all()

    def queue_push(self, key, value):
        self.queues.setdefault(key, deque()).append(value)
        self.changed.notify_all()

    def queue_pop(self, key, timeout):
        found = self.changed.wait_for(lambda: self.queues.get(key), timeout)
        if not found:
            return [False, b""]
        value = self.queues[key].popleft()
        if not self.queues[key]:
            del self.queues[key]
        return [True, value]

    def queue_len(self, key):
        return len(self.queues.get(key, ()))
