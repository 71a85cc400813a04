"""Interrupts a call at each place in turn where Python can: a signal that comes before the n-th such instruction.

CPython looks for signals (and for exceptions sent by other threads) after calls, when functions are
entered and when loops jump back. `count` says how many instructions of that kind the package's own code
runs in a call; `interrupt` makes the call with a SIGINT that is there at one of them.
"""

from __future__ import annotations

import _thread
import collections
import dis
import functools
import inspect
import os
import signal
import sys

import ftorch
from ftorch.jit.capture.state_watch import _Collection

_COLLECTOR = _Collection.note.__code__  # Python prints an exception there and goes on
_PACKAGE = os.path.dirname(ftorch.__file__) + os.sep
_LOOKS = ("CALL", "JUMP_BACKWARD")  # and where functions are entered, or generators go on


def _is_of_package(code):
    return code.co_filename.startswith(_PACKAGE) and code is not _COLLECTOR


@functools.cache
def _places(code):
    """The offsets of the instructions after which Python looks for signals."""
    return frozenset(i.offset for i in dis.get_instructions(code) if i.opname.startswith(_LOOKS))


class _Tracer:
    """Counts places; at the ``wanted``-th it lets a signal come in."""

    def __init__(self, wanted=-1, anywhere=False, chosen=_is_of_package):
        self.seen, self.wanted, self.anywhere, self.chosen = 0, wanted, anywhere, chosen
        self.place = ""
        # In one instruction of this frame, which is none that looks for signals (`signal.raise_signal` looks itself).
        self.signals = collections.defaultdict(functools.partial(_thread.interrupt_main, signal.SIGINT))

    def __call__(self, frame, event, argument):
        if not self.chosen(frame.f_code):
            return None
        is_generator = frame.f_code.co_flags & inspect.CO_GENERATOR  # which may be closing: Python does not look there
        if not is_generator and self._is_there(frame):
            raise KeyboardInterrupt  # where Python looks for signals as it enters a function
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.local

    def _is_there(self, frame):
        self.seen += 1
        if self.seen != self.wanted:
            return False
        self.place = f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})"
        sys.settrace(None)
        frame.f_trace = None
        return True

    def local(self, frame, event, argument):
        if event == "opcode" and (self.anywhere or frame.f_lasti in _places(frame.f_code)):
            if self._is_there(frame):
                if self.anywhere:
                    raise KeyboardInterrupt
                self.signals[0]
                return None
        return self.local


def count(call, anywhere=False, chosen=_is_of_package) -> int:
    """How many places of the package, or of other code, a call passes."""
    tracer = _Tracer(-1, anywhere, chosen)
    sys.settrace(tracer)
    try:
        call()
    finally:
        sys.settrace(None)
    return tracer.seen


def interrupt(call, place: int, anywhere=False, chosen=_is_of_package) -> str | None:
    """Makes a call with an interrupt at a place; gives where that was, or None if the call went through.

    Args:
        anywhere: before any instruction, also where Python itself never does it.
        chosen: says of a code whether its places count.
    """
    tracer = _Tracer(place, anywhere, chosen)
    try:
        sys.settrace(tracer)
        call()
        sys.settrace(None)
    except KeyboardInterrupt:
        return tracer.place
    finally:
        sys.settrace(None)
    return None
