"""Python's values as JSON for events (``torch._logging.structured``)."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

from ._internal import trace_structured

INTERN_TABLE: dict[str, int] = {}  # what file names were told already -> their number
DUMPED_FILES: set[str] = set()


def intern_string(s: str | None) -> int:
    """The number of a text, told in an event the first time; -1 for None.

    >>> from ftorch._logging.structured import intern_string
    >>> intern_string("a.py") == intern_string("a.py"), intern_string(None)
    (True, -1)
    """
    if s is None:
        return -1
    number = INTERN_TABLE.get(s)
    if number is None:
        number = INTERN_TABLE[s] = len(INTERN_TABLE)
        trace_structured("str", lambda: (s, number), suppress_context=True)
    return number


def dump_file(filename: str) -> None:
    """Tells a source file's text in an event, the first time."""
    if filename in DUMPED_FILES:
        return
    DUMPED_FILES.add(filename)
    try:
        with open(filename) as file:
            text = file.read()
    except OSError:  # no file: code that was made
        return
    trace_structured("dump_file", lambda: {"name": filename}, payload_fn=lambda: text)


def from_traceback(tb: Sequence[traceback.FrameSummary]) -> list[dict[str, Any]]:
    """The frames of a stack, outermost first, as dictionaries with ``line``, ``name``, ``filename`` and ``loc``."""
    return [
        {"line": frame.lineno, "name": frame.name, "filename": intern_string(frame.filename), "loc": frame.line}
        for frame in tb
    ]


def get_user_stack(num_frames: int) -> list[dict[str, Any]]:
    """The innermost frames that are not this package's own."""
    from .._alias import is_own

    stack = [
        traceback.FrameSummary(frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_stack(None) if not is_own(frame.f_globals.get("__name__"))
    ]
    return from_traceback(stack[:num_frames][::-1])


def get_framework_stack(num_frames: int = 25, cpp: bool = False) -> list[dict[str, Any]]:
    """The innermost frames, this package's own with them."""
    return from_traceback(traceback.extract_stack()[:-1][-num_frames:])
