"""What was on Python's stack, cheaply kept and read later (``torch._C._profiler``), and the profiler's settings."""

from __future__ import annotations

import sys

from ..profiler import ProfilerActivity, _ExperimentalConfig

__all__ = ["CapturedTraceback", "ProfilerActivity", "_ExperimentalConfig", "gather_traceback", "symbolize_tracebacks"]


class CapturedTraceback:
    """The code objects and places of the frames of a call, innermost first."""

    __slots__ = ("_ftorch_frames",)


def gather_traceback(python: bool = True, script: bool = True, cpp: bool = True) -> CapturedTraceback:
    """What is on the stack of this thread. Frames of scripts and of C++ are not kept: there are none of their own.

    >>> from ftorch._C._profiler import gather_traceback, symbolize_tracebacks
    >>> def called():
    ...     return gather_traceback()
    >>> symbolize_tracebacks([called()])[0][0]["name"]
    'called'
    """
    kept = CapturedTraceback()
    kept._ftorch_frames = frames = []
    frame = sys._getframe(1) if python else None
    while frame is not None:
        frames.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return kept


def symbolize_tracebacks(tracebacks: list, /) -> list:
    """For each, its frames as dictionaries with ``name``, ``filename`` and ``line``, innermost first.

    Raises:
        TypeError: no list, or one of its elements is no `CapturedTraceback`.
    """
    if not isinstance(tracebacks, list):
        raise TypeError(f"symbolize_tracebacks(): incompatible function arguments: {tracebacks!r}")
    for kept in tracebacks:
        if not isinstance(kept, CapturedTraceback):
            raise TypeError(f"Unable to cast Python instance of type {type(kept)} to C++ type 'CapturedTraceback'")
    return [
        [{"name": code.co_name, "filename": code.co_filename, "line": line} for code, line in kept._ftorch_frames]
        for kept in tracebacks
    ]
