"""Collectives and messages in profiles: ``gloo:all_reduce``, from its call until it is done."""

from __future__ import annotations

import sys

_COLLECTOR = f"{__package__.rpartition('.')[0]}.profiler._collector"


def recorded(work, title: str, inputs):
    """A handle whose time a profile shows, if one is taken.

    Args:
        inputs: tensors or arrays whose shapes it shows.
    """
    profiler = sys.modules.get(_COLLECTOR)  # nobody takes a profile who has not loaded it
    collector = None if profiler is None else profiler.active()
    if collector is not None:
        shapes = [_shape(t) for t in inputs] if collector.record_shapes else ()
        event = collector.open(f"gloo:{title}", "op", shapes)
        collector.close(event)
        event.is_async = True
        work._over = lambda: setattr(event, "end", collector.now())
    return work


def _shape(t):
    """A shape; complex numbers travel as pairs."""
    pairs = t.is_complex() if hasattr(t, "is_complex") else t.dtype.kind == "c"
    return [*t.shape, *([2] if pairs else [])]
