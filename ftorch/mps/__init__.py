"""Apple's GPUs (``torch.mps``): JAX has none of them here, so nothing is available."""

from .._toplevel.absent_device import functions as _functions
from . import event, profiler
from .event import Event

_NAMES = [
    "current_allocated_memory", "device_count", "driver_allocated_memory", "empty_cache",
    "get_rng_state", "is_available", "manual_seed", "recommended_max_memory", "seed",
    "compile_shader", "set_per_process_memory_fraction", "set_rng_state", "synchronize",
]

globals().update(_functions(_NAMES, RuntimeError, "Cannot execute {}() without MPS backend."))

__all__ = [*_NAMES, "Event", "event", "load_metallib", "profiler"]


def load_metallib(source):
    """Raises RuntimeError: there is no such device."""
    raise RuntimeError("MPS is not available")
