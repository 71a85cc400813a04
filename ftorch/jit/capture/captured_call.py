"""Side effects: what a captured call reads of Python and changes there, an XLA program or a backend's function."""

from __future__ import annotations

import types
from typing import Any

from ...eager.runtime.capture_trace import CaptureTrace
from ...eager.tensor import TensorBase
from . import guards as _guards
from .python_state import same_scalar, snapshot
from .result_recipes import Results
from .sources import SharedMemory, Source, Sources
from .state_watch import Watch
from .static_attributes import MISSING

NUMBERS = "a hyperparameter of an optimizer changed"


class Unsupported(Exception):
    """Why a call cannot be captured; it runs in Python."""


class CapturedCall:
    """A call that need not be made by Python: ``mismatch(leaves)`` says whether it stands for one.

    Attributes:
        sources: where the tensors are found that it reads.
        guards: what has to hold in Python.
        inputs: for each tensor that it is given, or that is needed later: (operand, kind, source, root).
        written: what of storages that were there it writes: (position among its results, source, storage).
        rebound: names in Python that it changes: [(place, new value)]; ``puts`` how its results get there.
        grads: what becomes of gradients: [(source of the leaf, how)]; ``grad_checks`` whether one is there,
            ``hook_checks`` which hooks of the leaf saw them.
        edges: the sources of tensors that the results' graph leads to.
        placed: whether it stands for calls only whose arguments lie where those of the captured one did.
        shared: which of its tensors must share memory.
        fixed: numbers that are constants: (function giving the current ones, {which: value}).
        skipped: modules whose state is no guard.
    """

    Unsupported = Unsupported
    results: Results
    guards: _guards.Guards

    def __init__(self, trace: CaptureTrace, watch: Watch, leaves, started: int):
        self.trace, self.device, self.started = trace, trace.device, started
        self.placed = trace.asks_place
        self.known = watch.known
        self.cells = {id(p.holder) for p in watch.places.values() if issubclass(type(p.holder), types.CellType)}
        self.inputs: list = []
        self.written: list = []
        self.rebound: list = []
        self.puts: list = []
        self.skipped: set[int] = set()
        self.grads: list = []
        self.grad_checks: list = []
        self.hook_checks: list = []
        self.edges: list[Source] = []
        self.input_grads: list = []
        self.forward: Any = None
        self.backward: Any = None
        self.fixed: list = []
        self._current: dict = {}  # what the functions of `fixed` gave when they were last asked whether that holds
        self.drawn: list = []
        self.sources = Sources(leaves, watch, trace)
        self._adopt(watch)
        self._share()
        if any(id(t) in self.sources.of_tensor and t._ftorch_requires_grad is not before for t, before in trace.flags.values()):
            raise Unsupported("it changed whether a tensor requires grad")

    @property
    def draws(self) -> dict[int, int]:
        """{id of a storage of random numbers: the how manieth draw of a call}; gradients draw, too (`checkpoint`)."""
        return {a[1]: n for n, a in enumerate([a for a in self.trace.actions if a[0] == "draw"])}

    def _share(self):
        """Notes which of the tensors found so far share memory."""
        self.shared = SharedMemory([(one, other, a is b) for one, other, a, b in self.sources.shared])
        self.shared.keep_apart(self.sources.of_storage.values())

    # --- what the function changed in Python

    def _adopt(self, watch):
        """Tensors that were made for good, outside of the program, as if they had been there before."""
        trace, sources = self.trace, self.sources
        for place in watch.places.values():
            now = place.get()
            if issubclass(type(now), TensorBase) and now is not place.value and (
                id(now) not in sources.of_tensor and sources.storage(now._ftorch_storage) is None
                and not self.is_born(now._ftorch_storage) and id(now._ftorch_storage) not in trace.made
            ):
                sources._add(now, Source("attribute" if place.attribute else "item", place.holder,
                                         place.key))
                place.value = now
        for state in watch.modules.values():
            if any(tuple(table.values()) != before for table, before in state.hooks):
                trace.only_once = "hooks were registered or removed"

    def _effects(self, watch):
        """Rebindings to repeat: [(place, new value)]."""
        places, containers = watch.changes()
        for place, now in places:
            if issubclass(type(place.holder), types.MappingProxyType):
                raise Unsupported(f"{place.name} of a class is changed by each call")
            if issubclass(type(now), TensorBase) or issubclass(type(place.value), TensorBase):
                self.rebound.append((place, now))
                if issubclass(type(now), TensorBase) and issubclass(type(place.value), TensorBase):
                    continue
            elif issubclass(type(now), (bool, str, type(None))):
                self.rebound.append((place, now))
            else:
                raise Unsupported(f"{place.name} is changed by each call")
        for container, before, name in containers:
            before_ = dict(before) if issubclass(type(container), dict) else None
            if before_ is None or before_.keys() - dict(snapshot(container)).keys():
                raise Unsupported(f"{name or 'a container'} is changed by each call")
            for key, now in snapshot(container):
                old = before_.get(key, MISSING)
                if now is old:
                    continue
                if not issubclass(type(now), (TensorBase, bool, str, type(None))):
                    raise Unsupported(f"{name or 'a container'}[{key!r}] is changed by each call")
                self.rebound.append((_Item(container, key, old), now))
        for state in watch.modules.values():
            for table, before in state.tables:
                for key, now in table.items():
                    old = before.get(key, MISSING)
                    if now is not old:
                        self.rebound.append((_Item(table, key, old), now))
                if any(key not in table for key in before):
                    raise Unsupported("a parameter or buffer was removed")
            parts = state.parts
            if len(parts) != len(state.children) or any(parts.get(k) is not m for k, m in state.children.items()):
                raise Unsupported("a module's parts are changed by each call")
            for key, old in state.plain.items():
                now = state.scope.get(key, MISSING)
                if not same_scalar(now, old) and (id(state.scope), key) not in watch.places:
                    if not issubclass(type(now), bool):
                        raise Unsupported(f"{key} of a module is changed by each call")
                    self.rebound.append((_Item(state.scope, key, old), now))

    def is_made(self, storage) -> bool:
        """Whether a storage's value is made by the program."""
        return storage.trace is self.trace

    def is_born(self, storage) -> bool:
        trace = self.trace
        return storage.trace is trace and (id(storage) in trace.born or id(storage) in trace.made)

    def _rebound(self, slots):
        self.puts = [
            (place, self.results.describe(now, slots) if issubclass(type(now), TensorBase) else ("constant", now))
            for place, now in self.rebound
        ]

    def _guard_inputs(self):
        """Tensors that are found by name have to be of the same kind as the captured ones."""
        seen = set()
        found = [i[2] for i in self.inputs if isinstance(i[2], Source)]
        shared = [source for pair in self.shared.same for source in pair[:2]]
        for source in (*found, *self.edges, *self.results.bases, *shared):
            if source.kind not in ("item", "attribute") or id(source) in seen:
                continue
            seen.add(id(source))
            holder = self.guards.name(source.holder)
            expression = (
                f"{holder}[{self.guards.name(source.key)}]" if source.kind == "item"
                else f"{holder}.{source.key}"
            )
            t = source.get(())
            self.guards.value(expression, t, f"the tensor {source.name}")

    def let_go(self) -> None:
        """Holds the first call's tensors no longer."""
        self.sources.let_go()
        self.results.let_go()

    # --- matching

    def mismatch(self, leaves) -> str | None:
        """Why the program does not stand for a call, or None."""
        if not self.guards.check():
            return self.guards.reason() or "the state of a module"
        differs = self.shared.mismatch(leaves)
        if differs is not None:
            return differs
        for source, known in self.fixed:
            now = self._current[source] = source()
            for i, value in known:
                if now[i] != value:
                    return NUMBERS
        for source, g in self.grad_checks:
            held = source.get(leaves)._grad
            if (held is None) != (g is None) or (g is not None and held._ftorch_geometry is not g):
                return "a gradient is there, or not"
        for source, known in self.hook_checks:
            meta = source.get(leaves)._ftorch_meta
            if (known or (meta is not None and (meta.hooks or meta.post_hooks))) and hooks_of(meta) != known:
                return f"hooks of {source.name}"
        return None


def hooks_of(meta) -> tuple:
    """The hooks of a leaf's gradient."""
    return () if meta is None else (*(meta.hooks or {}).values(), *(meta.post_hooks or {}).values())


class _Item:
    """An item of a dictionary, to set; ``value`` is what it was."""

    def __init__(self, table, key, value):
        self.table, self.key, self.value, self.name = table, key, value, str(key)

    def set(self, value):
        if value is MISSING:
            self.table.pop(self.key, None)
        else:
            self.table[self.key] = value
