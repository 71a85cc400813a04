"""Interruptible waits: work that lasts and never looks for signals is done by a thread of its own.

Python runs the handlers of signals, and raises what other threads send, between two instructions of the waiting thread. Work
that nobody waits for any more goes on to its end and keeps what it was given until then; its results are dropped, or kept for
who asks again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable

from .contexts import Worker, repeatable

_BETWEEN = 0.1  # seconds between two looks for what other threads send; signals end the wait at once
_MOST_LEFT = 4  # works whose results are kept for who comes again


class _Waiting(threading.local):
    """Attributes:
        between: what the thread does each time it looks up while it waits.
    """

    between: Callable[[], None] | None = None


_local = _Waiting()
_left: dict[Hashable, _Work] = {}  # what nobody waits for any more


class Forked(RuntimeError):
    """In a child that the handler of a signal made meanwhile: the thread that worked stayed with the parent."""


class between:  # noqa: N801
    """Within, the thread calls a function, or None, each time it looks up while it waits; but not while that runs."""

    def __init__(self, function):
        self._function, self._outer = function, None

    def __enter__(self):
        self._outer = _local.between
        _local.between = self._function

    @repeatable
    def __exit__(self, *_):
        _local.between = self._outer


class _Work:
    """A function that runs in a thread of its own, and what it gave or raised."""

    def __init__(self, function, operands):
        self._function, self._operands = function, operands
        self._outcome: list = []
        self._done = threading.Lock()
        self._done.acquire()
        self._process = os.getpid()

    def run(self):
        try:
            self._outcome.append((self._function(*self._operands), None))
        except BaseException as error:  # raised again where it is waited for
            self._outcome.append((None, error))
        finally:
            self._done.release()
            self._function = self._operands = None

    def is_here(self):
        """Whether its thread is one of this process."""
        return os.getpid() == self._process

    def wait(self):
        while not self._done.acquire(timeout=_BETWEEN):
            if not self.is_here():
                raise Forked("the handler of a signal forked the process while ftorch worked beside it")
            if (look := _local.between) is not None:
                with between(None):
                    look()

    def result(self):
        result, error = self._outcome.pop()
        if error is not None:
            try:
                raise error
            finally:
                error = None  # which holds this frame
        return result


def beside(function, *operands, key: Hashable = None):
    """What a function gives, or raises, which runs in a thread of its own: some 60 us more than a call.

    It must change nothing that others see, since it may end when its caller has been interrupted. Settings of the
    calling thread do not hold in it.

    Args:
        key: who comes with the same one, after this call was interrupted, is given what it began.

    Raises:
        Forked: see there.
    """
    if isinstance(threading.current_thread(), Worker):
        return function(*operands)
    work = _left.pop(key, None) if _left else None
    if work is None or not work.is_here():
        work = _Work(function, operands)
        try:
            Worker(target=work.run, name="ftorch").start()
        except RuntimeError:  # the interpreter ends, or there are too many threads
            return function(*operands)
    try:
        work.wait()
    except BaseException:
        if key is not None and work.is_here():
            _left[key] = work
            while len(_left) > _MOST_LEFT:
                _left.pop(next(iter(_left)), None)
        raise
    return work.result()
