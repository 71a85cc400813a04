"""Sources: where the tensors that a program reads are found when it runs, and which of them share memory.

A program reads and writes storages. It stands for a call where those that were one in the captured call are one again (and
tensors that were one, one), and where none of them has come to be another's.
"""

from __future__ import annotations

from typing import Any

from ...eager.memory.storage import Storage
from ...eager.runtime.capture_trace import CaptureTrace
from ...eager.tensor import TensorBase
from .python_state import look
from .state_watch import Watch


class Source:
    """How a run of the program finds a tensor: ``get(leaves)``."""

    __slots__ = ("kind", "holder", "key", "label")

    def __init__(self, kind, holder, key=None, label=None):
        self.kind, self.holder, self.key, self.label = kind, holder, key, label

    def get(self, leaves):
        kind = self.kind
        if kind == "item":
            return self.holder[self.key]
        if kind == "argument":
            return leaves[self.key]
        if kind == "grad":
            return self.holder.get(leaves)._grad
        if kind == "attribute":
            return look(self.holder, self.key)
        return self.holder

    @property
    def name(self):
        """A name for graphs."""
        if self.kind == "argument":
            return f"arg{self.key}"
        if self.kind == "grad":
            return f"{self.holder.name}_grad"
        if self.label:
            return self.label
        if isinstance(self.key, str):
            return self.key
        return "captured"


class Sources:
    """All tensors that can be found, by their storage and by themselves.

    Attributes:
        held: each with its storage.
        shared: [(a source, another of the same tensor or of one in the same storage, the two tensors)]; but for containers
            among the arguments, whose elements are compared as arguments are.
    """

    def __init__(self, leaves, watch: Watch, trace: CaptureTrace):
        self.of_storage: dict[int, Source] = {}
        self._first: dict[int, TensorBase] = {}
        self.of_tensor: dict[int, Source] = {}
        self.held: list = []
        self.shared: list[tuple[Source, Source, TensorBase, TensorBase]] = []
        self._seen: set[tuple] = set()
        self._given = watch.given
        for number, leaf in enumerate(leaves):
            if issubclass(type(leaf), TensorBase):
                self._add(leaf, Source("argument", None, number))
        self.note(watch, trace)

    def note(self, watch: Watch, trace: CaptureTrace) -> None:
        """Adds the tensors that a watch has found, and gradients, so far."""
        for state in watch.modules.values():
            for table, before in state.tables:
                for key, t in (*before.items(), *table.items()):
                    if t is not None:
                        self._add(t, Source("item", table, key))
        for state in watch.optimizers.values():
            for p, entry in state.state.items():
                if issubclass(type(entry), dict):
                    for key, value in entry.items():
                        if issubclass(type(value), TensorBase):
                            self._add(value, Source("item", entry, key))
            for group in state.scope["param_groups"]:
                for key, value in group.items():
                    if issubclass(type(value), TensorBase):
                        self._add(value, Source("item", group, key))
        for place in watch.places.values():
            if issubclass(type(place.value), TensorBase):
                kind = "attribute" if place.attribute else "item"
                self._add(place.value, Source(kind, place.holder, place.key, place.label))
        for container, before, _ in watch.containers.values():
            if issubclass(type(container), dict):
                for key, value in before:
                    if issubclass(type(value), TensorBase):
                        self._add(value, Source("item", container, key))
            elif issubclass(type(container), (list, tuple)):
                for i, value in enumerate(before):
                    if issubclass(type(value), TensorBase):
                        self._add(value, Source("item", container, i))
        for variable, before, _ in trace.grads.values():
            if before is not None:
                source = self.of_tensor.get(id(variable)) or Source("fixed", variable)
                self._add(before, Source("grad", source), id(variable))

    def _add(self, t, source, leaf=None):
        if source.kind != "argument":
            place = (leaf or id(source.holder), source.kind, source.key)
            if place in self._seen:
                return
            self._seen.add(place)
        first = self.of_storage.get(id(t._ftorch_storage))
        if first is not None and source.kind != "argument" and id(source.holder) not in self._given:
            self.shared.append((first, source, self._first[id(t._ftorch_storage)], t))
        if id(t) not in self.of_tensor:
            self.of_tensor[id(t)] = source
            self.of_storage.setdefault(id(t._ftorch_storage), source)
            self._first.setdefault(id(t._ftorch_storage), t)
            self.held.append((t, t._ftorch_storage))

    def let_go(self) -> None:
        """Holds the first call's tensors no longer: nobody asks where they are once the program is made."""
        self.of_storage, self.of_tensor, self.held, self.shared, self._first = {}, {}, [], [], {}

    def tensor(self, t) -> Source:
        return self.of_tensor.get(id(t)) or Source("fixed", t)

    def storage(self, storage) -> Source | None:
        return self.of_storage.get(id(storage))


class SharedMemory:
    """Which tensors of a call share memory, and which do not.

    Attributes:
        same: [(source, another source of a tensor in the same storage, whether it is the same tensor)].
    """

    __slots__ = ("same", "_items", "_others", "_fixed")

    def __init__(self, same):
        self.same: list[tuple[Source, Source, bool]] = same
        self._items: list[tuple[Any, Any]] = []
        self._others: list[Source] = []
        self._fixed: dict[Storage, None] = {}

    def keep_apart(self, touched) -> None:
        """Notes storages that are several.

        Args:
            touched: their sources, or themselves where they are always the same.
        """
        for one in touched:
            if isinstance(one, Storage):
                self._fixed[one] = None
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
