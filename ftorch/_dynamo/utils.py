"""Counters (``torch._dynamo.utils``)."""

from __future__ import annotations

import collections
import contextlib
import sys
import warnings

counters: collections.defaultdict = collections.defaultdict(collections.Counter)
warn_once_cache: set[str] = set()


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warns of a text, the first time in a process."""
    if msg not in warn_once_cache:
        warn_once_cache.add(msg)
        warnings.warn(msg, stacklevel=stacklevel + 1)


def compile_times(repr="str", aggregate=False):
    """How much was compiled, as a table."""
    from ..eager.runtime.executor import stats

    return f"TorchDynamo compilation metrics:\nFunction  Count\nXLA       {stats.compilations}"


def is_compile_supported(device_type) -> bool:
    """Whether programs run on a device type."""
    return device_type in ("cpu", "cuda", "tpu")


@contextlib.contextmanager
def disable_cache_limit():
    """Within it functions are compiled anew as often as calls ask for it."""
    from . import config

    before = config.recompile_limit, config.accumulated_recompile_limit
    config.recompile_limit = config.accumulated_recompile_limit = sys.maxsize
    try:
        yield
    finally:
        config.recompile_limit, config.accumulated_recompile_limit = before
