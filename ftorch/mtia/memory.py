"""The memory of Meta's accelerators (``torch.mtia.memory``): there are none."""

from . import (  # type: ignore[attr-defined]
    max_memory_allocated,
    memory_allocated,
    memory_stats,
    reset_peak_memory_stats,
)

__all__ = ["max_memory_allocated", "memory_allocated", "memory_stats", "reset_peak_memory_stats"]
