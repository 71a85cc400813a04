"""Contexts whose exit an interrupt does not skip.

Python looks for signals when it enters a function: Ctrl-C that comes there ends an ``__exit__`` before its first line, and
what the context had set stays. `repeatable` makes such an exit a function in C (where the kernels are built), which calls
the one in Python again.
"""

from __future__ import annotations

from typing import Any

from ..core.device import device
from . import module


def repeatable(function) -> Any:
    """Decorates an ``__exit__`` that may be called once more where an exception came in the middle of it."""
    return function if module is None else module.repeated(function)


device.__exit__ = repeatable(device.__exit__)
