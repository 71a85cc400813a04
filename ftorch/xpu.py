"""Intel's GPUs (``torch.xpu``): JAX has none of them here, so nothing is available."""

from ._absent_device import functions as _functions

_NAMES = [
    "current_device", "current_stream", "device_count", "empty_cache", "get_device_capability",
    "get_device_name", "get_device_properties", "get_rng_state", "initial_seed",
    "is_available", "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated",
    "memory_reserved", "memory_stats", "reset_peak_memory_stats", "seed", "seed_all", "set_device",
    "set_rng_state", "synchronize",
]  # fmt: skip

globals().update(_functions(_NAMES, AssertionError, "Torch not compiled with XPU enabled"))

__all__ = list(_NAMES)
