"""Apple's GPUs (``torch.mps``): JAX has none of them here, so nothing is available."""

from ._absent_device import functions as _functions

_NAMES = [
    "current_allocated_memory", "device_count", "driver_allocated_memory", "empty_cache",
    "get_rng_state", "is_available", "manual_seed", "recommended_max_memory", "seed",
    "set_per_process_memory_fraction", "set_rng_state", "synchronize",
]  # fmt: skip

globals().update(_functions(_NAMES, RuntimeError, "Cannot execute {}() without MPS backend."))

__all__ = list(_NAMES)
