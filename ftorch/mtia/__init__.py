"""Meta's accelerators (``torch.mtia``): JAX has none of them, so nothing is available."""

from .._submodules import on_demand as _on_demand
from .._toplevel.absent_device import functions as _functions

_NAMES = [
    "init", "is_available", "is_initialized", "synchronize", "device_count", "current_device",
    "current_stream", "default_stream", "memory_stats", "max_memory_allocated", "memory_allocated",
    "reset_peak_memory_stats", "get_device_capability", "get_device_properties", "record_memory_history",
    "snapshot", "attach_out_of_memory_observer", "empty_cache", "set_device", "set_stream", "stream",
    "set_rng_state", "get_rng_state", "set_rng_state_all", "get_rng_state_all", "manual_seed",
    "manual_seed_all", "seed", "seed_all", "initial_seed", "is_bf16_supported", "graph",
    "graph_pool_handle",
]

globals().update(_functions(_NAMES, AssertionError, "Torch not compiled with MTIA enabled"))

__getattr__ = _on_demand(globals(), "memory mtia_graph")

__all__ = list(_NAMES)
