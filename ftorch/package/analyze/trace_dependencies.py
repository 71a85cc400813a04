"""The modules that calls use."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["trace_dependencies"]


def trace_dependencies(
    callable: Callable[[Any], Any], inputs: Iterable[tuple[Any, ...]]
) -> list[str]:
    """The names of the modules whose functions are called.

    Args:
        callable: what is called.
        inputs: tuples of arguments, one for each call.
    """
    found: set[str] = set()

    def note(frame, event, _):
        if event == "call":
            name = frame.f_globals.get("__name__")
            if name is not None:
                found.add(name)

    before = sys.getprofile()
    try:
        sys.setprofile(note)
        for arguments in inputs:
            callable(*arguments)
    finally:
        sys.setprofile(before)
    return list(found)
