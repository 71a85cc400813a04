"""Exceptions of callbacks: what Python raised that a program called back.

XLA keeps the text of such an exception, in an error of its own. So what is raised there says only a number, under which the
exception is kept until the program's error is translated: users get theirs, with its type and the line that raised it.
"""

from __future__ import annotations

import collections
import itertools
import re
import threading

from . import jax_internals


class CallbackFailed(Exception):
    """Goes through XLA in the place of an exception."""


_numbers = itertools.count()
_lock = threading.Lock()
_kept: collections.OrderedDict[int, BaseException] = collections.OrderedDict()
_MOST = 64  # whose programs' errors nobody has asked for
_TEXT = re.compile(r"exception (\d+) of a function that a program called")


def through_xla(error: BaseException) -> CallbackFailed:
    """What to raise in a function that a program called, in place of an exception."""
    with _lock:
        number = next(_numbers)
        _kept[number] = error
        if len(_kept) > _MOST:
            _kept.popitem(last=False)
    return CallbackFailed(f"exception {number} of a function that a program called")


def original(error: BaseException) -> BaseException | None:
    """The exception because of which a program failed with an error; None where that is not why."""
    found = _TEXT.search(str(error))
    if found is None:
        return None
    own = _kept.pop(int(found[1]), None)
    if own is not None:
        error.__cause__ = own  # where it is found by those who ask later
    return error.__cause__


jax_internals.leave_unsaid(CallbackFailed)
