"""Reference counts: what memory may be donated is read off them; and when cycles are looked for.

Donation, and which results of a trace are wanted, hang on ``sys.getrefcount``: a count that is one too low would free
memory that somebody reads. How many references the interpreter itself adds is its own business (from Python 3.14 on,
a local variable and the call's argument may share one), so nothing else in the package compares a count with a number:
it compares with the constants here, one for each form in which the call is written. They are measured at import, and
tested there in the same forms, cold and specialized, with and without another holder. Where a test fails, or where
counts are not exact (builds without the global lock), the constants are such that everything counts as held by
somebody else: more is copied, and all results are kept, which is slower but right.
"""

from __future__ import annotations

import gc
import sys

_ROUNDS = 64  # as often as the interpreter needs to specialize a function


def _local():
    value = object()
    return sys.getrefcount(value)


def _listed(holder):
    counts = []
    for i in range(len(holder)):
        value = holder[i]
        counts.append(sys.getrefcount(value))
    return counts


def _item(holder):
    return [sys.getrefcount(holder[i]) for i in range(len(holder))]


class _Owner:
    __slots__ = ("value", "__dict__")

    def __init__(self):
        self.value = object()
        self.other = object()

    def counts(self):
        return [sys.getrefcount(self.value), sys.getrefcount(self.other)]


def _popped(holder):
    value = holder.pop(0)
    count = sys.getrefcount(value)
    del value
    return count


def _measure():
    """(LOCAL, LISTED, ITEM, ATTRIBUTE), or None where counts cannot be trusted."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    local, (listed,), (item,) = _local(), _listed([object()]), _item([object()])
    attribute = _Owner().counts()[0]
    if listed != local + 1:
        return None
    for _ in range(_ROUNDS):
        # Alone ...
        alone = (
            _local() == local and _popped({0: object()}) == local and _listed([object(), object()]) == [listed] * 2
            and _item([object(), object()]) == [item] * 2 and _Owner().counts() == [attribute] * 2
        )
        # ... and held by a variable, a list or a closure besides: each counts as one more.
        held, owner = object(), _Owner()
        others = [owner.value, owner.other]
        more = (
            _listed([held]) == [listed + 1] and _item([held]) == [item + 1] and _popped({0: held}) == local + 1
            and owner.counts() == [attribute + 1] * 2 and len(others) == 2 and (lambda: held)() is held
        )
        if not (alone and more):
            return None
    return local, listed, item, attribute


_measured = _measure()
RELIABLE = _measured is not None
"""Whether counts say who holds an object. If not, nothing is donated."""

LOCAL, LISTED, ITEM, ATTRIBUTE = _measured or (-9, -9, -9, -9)
"""``sys.getrefcount`` of what only

* a local variable holds: ``getrefcount(variable)``;
* a list, or an attribute of another object, and the local variable hold: ``variable = items[i]; getrefcount(variable)``;
* a list holds: ``getrefcount(items[i])``;
* an attribute holds: ``getrefcount(self.attribute)``.
"""


class PausedCollector:
    """Python's collector of cycles does not run until `resume`.

    Tracing makes many objects and little garbage, but the number of new ones sets off collections that look at
    every object of the process: a third of the time in which a small program is captured and traced.
    """

    def __init__(self):
        self._paused = gc.isenabled()
        gc.disable()

    def resume(self):
        if self._paused:
            gc.enable()
        self._paused = False
