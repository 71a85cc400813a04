"""Counters (``torch._dynamo.utils``)."""

from __future__ import annotations

import collections

counters: collections.defaultdict = collections.defaultdict(collections.Counter)


def compile_times(repr="str", aggregate=False):
    """How much was compiled, as a table."""
    from ..eager.executor import stats

    return f"TorchDynamo compilation metrics:\nFunction  Count\nXLA       {stats.compilations}"


def is_compile_supported(device_type) -> bool:
    """Whether programs run on a device type."""
    return device_type in ("cpu", "cuda", "tpu")
