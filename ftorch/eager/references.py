"""Who else holds an object: what the executor reads off reference counts.

How many references `sys.getrefcount` sees besides the others' is a matter of the interpreter: from
Python 3.14 on, the reference of a local variable and that of the call's argument are one.
"""

from __future__ import annotations

import sys


def _count_of_local():
    value = object()
    return sys.getrefcount(value)


LOCAL = _count_of_local()
"""``sys.getrefcount(variable)`` of what only that local variable holds."""

LISTED = LOCAL + 1
"""... and of what a list (or an attribute of another object) holds besides the variable."""
