"""CUDA's own profiler (``torch.cuda.profiler``): ranges that NVIDIA's tools collect.

JAX's profiler takes its place: ``jax.profiler.trace``, and `torch.profiler`.
"""

from __future__ import annotations

from ..eager.native.contexts import contextmanager

__all__ = ["init", "profile", "start", "stop"]


def init(output_file, flags=None, output_mode="key_value"):
    """Raises RuntimeError, as PyTorch does with CUDA 12."""
    raise RuntimeError("cudaProfilerInitialize is not there: use torch.profiler, or jax.profiler.trace")


def start():
    """Raises RuntimeError where there is no GPU."""
    from . import init as _init

    _init()


def stop():
    """Raises RuntimeError where there is no GPU."""
    from . import init as _init

    _init()


@contextmanager
def profile():
    """`start` and `stop` around a block."""
    try:
        start()
        yield
    finally:
        stop()
