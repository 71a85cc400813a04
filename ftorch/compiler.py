"""What compiled code is told and asked (``torch.compiler``)."""

from __future__ import annotations

import functools

from .eager import executor
from .jit.compiler import Compiled, compile, is_compiling

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset",
]  # fmt: skip


def disable(fn=None, recursive: bool = True, *, reason: str | None = None):
    """A function that is never part of a captured program: the caller's code stays eager.

    >>> import ftorch as torch
    >>> @torch.compiler.disable
    ... def log(x):
    ...     print("seen", x)
    >>> log(1)
    seen 1
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, Compiled):
        return disable(fn.function, recursive, reason=reason)

    @functools.wraps(fn)
    def function(*args, **kwargs):
        capture = executor.capturing()
        if capture is not None:
            capture.broken = f"{getattr(fn, '__qualname__', fn)} is disabled ({reason})" if reason \
                else f"{getattr(fn, '__qualname__', fn)} is disabled"  # fmt: skip
            capture.flush()
        return fn(*args, **kwargs)

    return function


def allow_in_graph(fn):
    """The function as it is: capturing records operations, so everything may be in a program."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(f) for f in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    return fn


def assume_constant_result(fn):
    """The function as it is: what is not a tensor is a constant of the program anyway."""
    return fn


def is_dynamo_compiling() -> bool:
    """Whether code is being captured: see `is_compiling`."""
    return is_compiling()


def is_exporting() -> bool:
    """Whether code is being exported."""
    return False


def cudagraph_mark_step_begin() -> None:
    """Does nothing: programs do not share memory from one run to the next."""


def list_backends(exclude_tags=("debug", "experimental")) -> list[str]:
    """The backends of ``torch.compile``: XLA."""
    return ["xla"]


def reset() -> None:
    """Forgets every captured program; functions are captured anew when next called."""
    for compiled in list(Compiled.instances):
        compiled.entries.clear()
