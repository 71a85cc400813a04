"""Who else holds an object: what the executor reads off reference counts, and when cycles are looked for.

How many references `sys.getrefcount` sees besides the others' is a matter of the interpreter: from
Python 3.14 on, the reference of a local variable and that of the call's argument are one.
"""

from __future__ import annotations

import gc
import sys


def _count_of_local():
    value = object()
    return sys.getrefcount(value)


LOCAL = _count_of_local()
"""``sys.getrefcount(variable)`` of what only that local variable holds."""

LISTED = LOCAL + 1
"""... and of what a list (or an attribute of another object) holds besides the variable."""


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
