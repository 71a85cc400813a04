"""Compile state of a thread: whether it is compiling, and what it is to do with calls of compiled functions."""

from __future__ import annotations

import threading

from ..eager.call.op import hooks
from ..eager.core.refcount import PausedCollector
from ..eager.dispatch import autocast
from ..eager.native.contexts import contextmanager, repeatable
from ..eager.tensor import modes


class _Local(threading.local):
    depth = 0  # of captures within each other: not 0 where the thread is compiling


local = _Local()


class Capturing:
    """Within, a call is captured into a trace; where that does not come to its end, the trace is an ordinary one afterwards,
    whose steps run when they are needed."""

    def __init__(self, trace):
        self.trace = trace
        self.collector: PausedCollector | None = None

    def __enter__(self):
        self.depth, self.cache = local.depth, autocast.state.cache
        try:
            self.collector = PausedCollector()
            local.depth, autocast.state.cache = self.depth + 1, {}
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def resume(self):
        """Lets Python collect cycles again."""
        if self.collector is not None:
            self.collector.resume()

    @repeatable
    def __exit__(self, kind, *_):
        local.depth, autocast.state.cache = self.depth, self.cache
        self.resume()
        if kind is not None:
            self.trace.on_break = None
            self.trace.end("an exception was raised")


class Stance:
    """How compiled functions behave now (``torch.compiler.set_stance``)."""

    name = "default"
    backend = None  # what is captured meanwhile is compiled with


stance = Stance()


def is_capturing() -> bool:
    """Whether a call of a compiled function is being captured now."""
    return local.depth > 0


def is_exporting() -> bool:
    """Whether `torch.export` is recording a module."""
    return any(level.exports for level in modes.levels)


def is_compiling() -> bool:
    """Whether a function is being captured now, or a module exported."""
    return local.depth > 0 or is_exporting()


hooks.is_compiling = is_compiling


@contextmanager
def compiling():
    """Within, `is_compiling` says so, and compiled functions are part of what is captured."""
    local.depth = local.depth + 1
    try:
        yield
    finally:
        local.depth -= 1


@contextmanager
def not_compiling():
    """Within, code runs in Python, whatever is being captured around it."""
    outer, local.depth = local.depth, 0
    try:
        yield
    finally:
        local.depth = outer


_refused: dict[type, str] = {}


def refuse(cls: type, message: str) -> None:
    """From now on ``torch.compile`` raises a RuntimeError for objects of a class: they are programs already."""
    _refused[cls] = message


def refusal_of(model) -> str | None:
    """What ``torch.compile`` says of an object that it does not take."""
    return next((message for cls, message in _refused.items() if isinstance(model, cls)), None)


class Event:
    """What happened in a capture, for `explain`: a program, or why there is none."""

    __slots__ = ("captured", "reason", "where")

    def __init__(self, captured, reason, where=""):
        self.captured, self.reason, self.where = captured, reason, where
