"""Ranges in NVIDIA's profiler (``torch.cuda.nvtx``), by way of JAX's trace annotations."""

from __future__ import annotations

import threading

import jax

from ..eager.native.contexts import contextmanager

_open = threading.local()


def range_push(msg: str) -> int:
    """Opens a range; gives its depth, from 0."""
    stack = _open.__dict__.setdefault("stack", [])
    annotation = jax.profiler.TraceAnnotation(msg)
    annotation.__enter__()
    stack.append(annotation)
    return len(stack) - 1


def range_pop() -> int:
    """Closes the innermost range; gives its depth, -1 if there was none."""
    stack = _open.__dict__.setdefault("stack", [])
    if not stack:
        return -1
    stack.pop().__exit__(None, None, None)
    return len(stack)


def mark(msg: str) -> None:
    """Marks a point."""
    with jax.profiler.TraceAnnotation(msg):
        pass


_started: dict[int, jax.profiler.TraceAnnotation] = {}


def range_start(msg: str) -> int:
    """Opens a range that another thread may close; gives its number."""
    annotation = jax.profiler.TraceAnnotation(msg)
    annotation.__enter__()
    _started[id(annotation)] = annotation
    return id(annotation)


def range_end(range_id: int) -> None:
    """Closes a range that `range_start` opened."""
    annotation = _started.pop(range_id, None)
    if annotation is not None:
        annotation.__exit__(None, None, None)


@contextmanager
def range(msg: str, *args, **kwargs):
    """A range for a ``with`` block; ``msg`` is formatted with the arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
