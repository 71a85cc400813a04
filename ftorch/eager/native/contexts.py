"""Context managers whose exit an interrupt does not skip, and threads whose beginning it does not end.

Python looks for signals when it enters a function: Ctrl-C that comes there ends an ``__exit__`` before its first line, and
what the context had set stays. `repeatable` makes such an exit a function in C (where the kernels are built), which calls
the one in Python again.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from ..core import callback_errors, jax_internals
from ..core.device import device
from ..core.suppressed_warnings import quiet
from . import module


def repeatable(function) -> Any:
    """Decorates an ``__exit__`` that may be called once more where an exception came in the middle of it."""
    return function if module is None else module.repeated(function)


for _context in (device, quiet, jax_internals.without_cache):  # of the layer below
    _context.__exit__ = repeatable(_context.__exit__)


class _OfGenerator(contextlib._GeneratorContextManager):
    """A generator's context that is left at once. One of `contextlib` that is interrupted as it begins or ends is left when
    its generator is collected: after the contexts around it, so that what they had put back would be changed again."""

    def __enter__(self):
        try:
            return super().__enter__()
        except BaseException:
            self.gen.close()
            raise

    @repeatable
    def __exit__(self, *error):
        return contextlib._GeneratorContextManager.__exit__(self, *error)


class putting_back:  # noqa: N801
    """Calls a function on leaving; once more where it was interrupted. What a generator does behind its ``yield`` is done
    once: where it is more than to set one attribute, an interrupt would skip the rest."""

    __slots__ = ("_function", "_operands")

    def __init__(self, function, *operands):
        self._function, self._operands = function, operands

    def __enter__(self):
        return self

    @repeatable
    def __exit__(self, *_):
        self._function(*self._operands)


_P, _T = ParamSpec("_P"), TypeVar("_T")


def contextmanager(function: Callable[_P, Iterator[_T]]) -> Callable[_P, contextlib._GeneratorContextManager[_T]]:
    """`contextlib.contextmanager` for contexts that change what others see."""

    @functools.wraps(function)
    def made(*args, **kwargs):
        return _OfGenerator(function, args, kwargs)

    return made


class Worker(threading.Thread):
    """A thread that begins, whatever exception comes. Under Python 3.11 one that is sent to the thread that starts it
    (`PyThreadState_SetAsyncExc`) may come in the new one: it would end before it has said that it runs, and
    `threading.Thread.start` would wait for that for ever."""

    @repeatable
    def _bootstrap(self):
        if not self._started.is_set():  # type: ignore[attr-defined]
            super()._bootstrap()  # type: ignore[misc]


def called_back(compute, *args) -> tuple:
    """What ``compute(results, *args)`` puts into a list, for a function that a program calls: it runs in a thread of its own,
    since this one may be recording the program that calls. What it raises is raised where the program was run.
    """
    results: list = []

    def run():
        try:
            compute(results, *args)
        except BaseException as error:  # raised again in the program's thread
            results.append(error)

    worker = Worker(target=run)
    worker.start()
    worker.join()
    if results and isinstance(results[-1], BaseException):
        raise callback_errors.through_xla(results[-1])
    return tuple(results)


def _undone(enter, note, leave):
    """An ``__enter__`` that sets nothing where an exception came in the middle of it."""
    def __enter__(self):
        note(self)
        try:
            return enter(self)
        except BaseException:
            leave(self, None, None, None)
            raise

    return __enter__


def _make_repeatable():
    # An interrupt would leave a thread in a trace that is over: what it computes next would fail, or become a part of it.
    for context, note in jax_internals.contexts():
        leave = repeatable(context.__exit__)
        context.__enter__, context.__exit__ = _undone(context.__enter__, note, context.__exit__), leave


def _collect_in_c():
    # It is a function of Python's, and the first that is called after a signal came while something was computed in C.
    call = jax_internals.collector_call()
    if call is not None and call[0] in gc.callbacks:
        gc.callbacks[gc.callbacks.index(call[0])] = module.alone(call[1])


if module is not None:
    _make_repeatable()
    _collect_in_c()
