"""Signal handlers that run while a function is captured: what they compute is no part of the program.

Python calls a handler between any two instructions of the main thread, also of the function that is being captured. Its
operations would be recorded there, and a value that it looks at would end the capture at a place where it can't end.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

from ...eager.native.contexts import repeatable
from ...eager.runtime import capture_trace
from ...eager.runtime.stepwise import is_only_once
from ...eager.runtime.trace import threads

WHY = "the handler of a signal looked at a value"


class Looked(Exception):
    """A handler looked at what was captured while it was compiled: it has its values, which arrays of before may be, too."""


class HandlersOutside:
    """Within, handlers of signals that are functions of the user's run outside of a capture.

    One that looks at what is being captured ends the capture; the call goes on eagerly, and the next one is captured anew.
    When the function has returned (`wait`) what it recorded becomes a program: then handlers wait until that is done, or
    until the thread waits for the program's compilation, which takes long. They wait from the beginning where calls are
    noted for a backend, which would have theirs, too.

    Args:
        trace: of the capture.
        waits: whether they wait from the beginning.
        resume: called when the capture ends.
    """

    def __init__(self, trace, waits, resume):
        self.trace, self.resume = trace, resume
        self.waiting: list | None = [] if waits else None
        self._replaced: list[tuple[int, Any]] = []

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            try:
                for number in signal.valid_signals():
                    self.cover(number)
            except BaseException:
                self.__exit__()
                raise
        return self

    def cover(self, number):
        """Puts a handler that runs outside of the capture in the place of the user's."""
        handler = signal.getsignal(number)
        if callable(handler) and handler is not signal.default_int_handler and handler.__class__ is not _Outside:
            self._replaced.append((number, _Outside(self, handler)))
            signal.signal(number, self._replaced[-1][1])

    def wait(self):
        """From now on handlers run at the end, or while the thread waits."""
        if self.waiting is None:
            self.waiting = []
        self.trace.between = self.run

    def run(self):
        """Runs those that wait while the captured call is compiled: what they compute is no part of it. They wait on where
        something is captured that must not be done twice, which one that looks at what was captured would do.

        Raises:
            Looked: what was captured has its values now.
        """
        trace, captures = self.trace, self.trace.captures
        if not self.waiting or (captures and self._is_only_once()):
            return
        try:
            while self.waiting:
                with capture_trace.swapped(None):
                    self.waiting.pop(0)()
                    threads.cpu.flush()
        finally:
            if captures and not trace.captures:
                trace.only_once = trace.only_once or WHY
        if captures and not trace.captures:
            raise Looked

    def _is_only_once(self):
        plans = [item for item in self.trace.code if item.__class__ is not int]
        return any(is_only_once(p) or getattr(getattr(p.op, "definition", None), "calls_back", False) for p in plans)

    @repeatable
    def __exit__(self, *_):
        self.trace.between = None
        while self._replaced:
            number, own = self._replaced[-1]
            if signal.getsignal(number) is own:
                signal.signal(number, own.handler)
            self._replaced.pop()
        while self.waiting:
            self.waiting.pop(0)()

    def ended(self, _):
        """What is done where a handler ends the capture."""
        self.trace.only_once = WHY
        self.resume()


class _Outside:
    """A handler of the user's, called outside of a capture."""

    def __init__(self, owner, handler):
        self.owner, self.handler = owner, handler

    def __call__(self, number, frame):
        owner = self.owner
        trace = owner.trace
        if owner.waiting is not None and owner._replaced:
            owner.waiting.append(lambda: self.handler(number, frame))
            return
        if not trace.captures or threads.cpu is not trace:
            self.handler(number, frame)
            return
        on_break = trace.on_break
        trace.on_break = owner.ended
        try:
            with capture_trace.unwatched(), capture_trace.outside_capture():
                self.handler(number, frame)
        finally:
            if trace.captures:
                trace.on_break = on_break
            owner.cover(number)  # one may set itself, or another, anew
