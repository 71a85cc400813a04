"""Ranges for profilers outside (``torch.profiler.itt``): JAX's annotations."""

from __future__ import annotations

import threading

import jax

from ..eager.native.contexts import contextmanager

_local = threading.local()


def is_available() -> bool:
    """Whether ranges can be made."""
    return True


def _open() -> list:
    if not hasattr(_local, "ranges"):
        _local.ranges = []
    return _local.ranges


def range_push(msg: str) -> None:
    """Begins a range."""
    annotation = jax.profiler.TraceAnnotation(msg)
    annotation.__enter__()
    _open().append(annotation)


def range_pop() -> None:
    """Ends the innermost range."""
    if _open():
        _open().pop().__exit__(None, None, None)


def mark(msg: str) -> None:
    """Marks a moment."""
    range_push(msg)
    range_pop()


@contextmanager
def range(msg, *args, **kwargs):
    """A range around what is done inside."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]
