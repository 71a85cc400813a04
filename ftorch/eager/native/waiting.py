"""Work that lasts and never looks for signals, done by a thread of its own: whoever waits for it can be interrupted.

Python runs the handlers of signals, and raises what other threads send, between two instructions of the waiting thread. Work
that nobody waits for any more goes on to its end, keeps what it was given until then, and its results are dropped.
"""

from __future__ import annotations

import os
import threading

from .contexts import Worker

_BETWEEN = 0.1  # seconds between two looks for what other threads send; signals end the wait at once


class Forked(RuntimeError):
    """In a child that the handler of a signal made meanwhile: the thread that worked stayed with the parent."""


def beside(function, *operands):
    """What a function gives, or raises, which runs in a thread of its own: some 60 us more than a call.

    It must change nothing that others see, since it may end when its caller has been interrupted. Settings of the
    calling thread do not hold in it.

    Raises:
        Forked: see there.
    """
    if isinstance(threading.current_thread(), Worker):
        return function(*operands)
    outcome: list = []
    done = threading.Lock()
    done.acquire()

    def work():
        try:
            outcome.append((function(*operands), None))
        except BaseException as error:  # raised again where it is waited for
            outcome.append((None, error))
        finally:
            done.release()

    process = os.getpid()
    try:
        Worker(target=work, name="ftorch").start()
    except RuntimeError:  # the interpreter ends, or there are too many threads
        return function(*operands)
    while not done.acquire(timeout=_BETWEEN):
        if os.getpid() != process:
            raise Forked("the handler of a signal forked the process while ftorch worked beside it")
    result, error = outcome.pop()
    if error is not None:
        try:
            raise error
        finally:
            error = None  # which holds this frame
    return result
