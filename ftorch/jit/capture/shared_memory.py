"""Shared memory: which of the tensors that a program touches lie in one storage, and which must not.

A program reads and writes storages. It stands for a call where those that were one in the captured call are one again (and
tensors that were one, one), and where none of them has come to be another's.
"""

from __future__ import annotations

from typing import Any

from ...eager.memory.storage import Storage
from ...eager.tensor import TensorBase
from .sources import Source


class SharedMemory:
    """What has to hold for the tensors of a call: see the module.

    Attributes:
        same: [(source, another source of a tensor in the same storage, whether it is the same tensor)].
    """

    __slots__ = ("same", "_items", "_others", "_fixed")

    def __init__(self, same):
        self.same: list[tuple[Source, Source, bool]] = same
        self._items: list[tuple[Any, Any]] = []
        self._others: list[Source] = []
        self._fixed: list[Storage] = []

    def keep_apart(self, touched) -> None:
        """Notes storages that are several.

        Args:
            touched: their sources, or themselves where they are always the same.
        """
        for one in touched:
            if isinstance(one, Storage):
                if one not in self._fixed:
                    self._fixed.append(one)
            elif one.kind == "item":
                self._items.append((one.holder, one.key))
            elif one.kind != "argument":
                self._others.append(one)

    def mismatch(self, leaves) -> str | None:
        """What does not hold, in words, or None."""
        items, others, fixed = self._items, self._others, self._fixed
        if not items and not others and not fixed and not self.same:
            return None
        storages = {t._ftorch_storage for t in leaves if issubclass(type(t), TensorBase)}
        count = len(storages) + len(items) + len(others) + len(fixed)
        try:
            for one, other, is_one in self.same:
                a, b = one.get(leaves), other.get(leaves)
                if (a is b) is not is_one or a._ftorch_storage is not b._ftorch_storage:
                    return f"{one.name} does not share memory with {other.name} as it did"
            storages.update([holder[key]._ftorch_storage for holder, key in items])
            storages.update([s.get(leaves)._ftorch_storage for s in others])
        except (AttributeError, KeyError, IndexError):
            return "a tensor of the function's is there no longer"
        storages.update(fixed)
        return None if len(storages) == count else "tensors share memory that did not"
