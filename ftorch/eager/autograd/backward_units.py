"""What a trace knows of the backward passes that are recorded in it: where one of their steps fails, or one of what they
start from, leaves keep what was accumulated before it and get nothing after it, as if each step had run when it was called.
"""

from __future__ import annotations

from ..runtime.trace import IMMEDIATE, UNITS, threads
from ..tensor import DISPATCHING


class Unit:
    """A part of a backward pass that lies in one trace.

    Attributes:
        first: the first slot of the pass.
        roots: the slots of what it starts from.
        gradients: [(the slot of a leaf's gradient, how many slots there were when the leaf took it)].
        earlier: [(a leaf, weakly, and the tensor that was its gradient before)], where it has another one now, not this one
            written to.
    """

    __slots__ = ("first", "roots", "gradients", "earlier")

    def __init__(self, first, roots=()):
        self.first, self.roots, self.gradients, self.earlier = first, roots, [], []

    def left_by(self, slots) -> list:
        """The slots of the gradients that leaves do not get, where a step fails that was to give some slots."""
        first = slots[0]
        if any(root in slots for root in self.roots):
            first = self.first
        elif first < self.first:
            return []
        return [slot for slot, taken in self.gradients if taken > first]

    def put_back(self, storage) -> None:
        """Lets leaves have the gradients that they had before one that has failed."""
        for reference, before in reversed(self.earlier):
            leaf = reference()
            if leaf is not None and leaf._grad is not None and getattr(leaf._grad, "_ftorch_storage", None) is storage:
                leaf._grad = before


def begin(outputs) -> None:
    """Says that a backward pass begins here.

    Raises:
        RuntimeError: if what it starts from has failed.
    """
    storages = [t._ftorch_storage for t in outputs if hasattr(t, "_ftorch_storage")]
    for t in outputs:  # tensors of which only their class or level knows the elements have no storage that could fail
        if t.__class__ in DISPATCHING or hasattr(t, "_ftorch_level") or not hasattr(t, "_ftorch_storage"):
            continue
        if t._ftorch_storage.error is not None and t._ftorch_storage.trace is None:
            t._ftorch_storage.value()
    for trace in (threads.cpu, *threads.others.values()):
        if not trace.captures:
            roots = [storage.slot for storage in storages if storage.trace is trace]
            if not trace.steps:  # whatever was recorded has run
                trace.replaced.pop(UNITS, None)
            if roots or trace is threads.cpu:
                trace.replaced.setdefault(UNITS, []).append(Unit(len(trace.owners), roots))


def note(storage, change=None) -> None:
    """Says that a leaf has taken a gradient, which lies in a storage.

    Args:
        change: the leaf, weakly, and the gradient that it had before, where that is not written to.
    """
    trace = storage.trace
    if trace is None or trace is IMMEDIATE or trace.captures:
        return
    units = trace.replaced.get(UNITS)
    if units is None:  # what was recorded before ran meanwhile
        units = trace.replaced[UNITS] = [Unit(0)]
    units[-1].gradients.append((storage.slot, len(trace.owners)))
    if change is not None:
        units[-1].earlier.append(change)
