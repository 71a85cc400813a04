"""Profiling (``torch.autograd.profiler``), by JAX's profiler."""

from __future__ import annotations

import contextlib
import functools
import time

import jax

from ..eager import executor

__all__ = ["emit_nvtx", "profile", "record_function"]


class record_function:
    """Names a part of a program in traces; a ``with`` block or a decorator."""

    def __init__(self, name: str, args: str | None = None):
        self.name, self.args = name, args
        self._annotation = None

    def __enter__(self):
        self._annotation = jax.profiler.TraceAnnotation(self.name)
        self._annotation.__enter__()
        return self

    def __exit__(self, *exception):
        self._annotation.__exit__(*exception)

    def __call__(self, function):
        @functools.wraps(function)
        def named(*args, **kwargs):
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return named


class profile:
    """Times a ``with`` block, and writes JAX's trace of it to a folder if one is given.

    Args:
        enabled: False does nothing.
        logdir: where the trace goes, for TensorBoard or Perfetto.

    Attributes:
        self_cpu_time_total: microseconds of the block, its computations included.
    """

    def __init__(self, enabled: bool = True, *, logdir: str | None = None, **_):
        self.enabled, self.logdir = enabled, logdir
        self.self_cpu_time_total = 0.0

    def __enter__(self):
        if self.enabled:
            executor.flush()
            if self.logdir is not None:
                jax.profiler.start_trace(self.logdir)
            self._start = time.perf_counter()
        return self

    def __exit__(self, *_):
        if self.enabled:
            executor.flush()
            self.self_cpu_time_total = (time.perf_counter() - self._start) * 1e6
            if self.logdir is not None:
                jax.profiler.stop_trace()


@contextlib.contextmanager
def emit_nvtx(enabled: bool = True, record_shapes: bool = False):
    """Does nothing: JAX emits ranges for NVIDIA's profiler by itself."""
    yield
