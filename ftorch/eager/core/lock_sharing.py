"""The GIL while another thread traces: a thread that works beside others rests, so that they come to it.

Who asks for the lock gets it after 5 ms. A step of a few milliseconds lets go of it at every kernel, and would take a
hundred times as long beside a thread that never rests.
"""

from __future__ import annotations

import threading
import time

_WORK, _REST = 1e-3, 2.0  # s of work at a time; and how many times as long a rest is


class Stopped(BaseException):
    """The interpreter ends: work that somebody else waits for no more is left undone."""


class _Own(threading.local):
    since = 0.0  # when the last rest ended; 0.0: the thread does not rest


_own = _Own()


class resting:  # noqa: N801
    """Within, the calling thread rests where it comes to `rest`."""

    def __enter__(self):
        _own.since = time.perf_counter()

    def __exit__(self, *_):
        _own.since = 0.0


def rest() -> None:
    """A place where a thread that works beside others rests.

    Raises:
        Stopped: in such a thread, if the interpreter ends.
    """
    if _own.since:
        _rest(time.perf_counter() - _own.since)


def _rest(worked):
    if worked < _WORK:
        return
    if not threading.main_thread().is_alive():
        raise Stopped
    time.sleep(worked * _REST)
    _own.since = time.perf_counter()
