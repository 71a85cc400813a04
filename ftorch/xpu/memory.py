"""``torch.xpu.memory``: of no device."""

import collections

from .._toplevel.absent_device import classes, functions

_FUNCTIONS = [
    "change_current_allocator", "empty_cache", "get_per_process_memory_fraction",
    "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated",
    "memory_reserved", "reset_accumulated_memory_stats", "reset_peak_memory_stats",
    "set_per_process_memory_fraction", "use_mem_pool",
]

globals().update(functions(_FUNCTIONS, AssertionError, "Torch not compiled with XPU enabled"))
MemPool, XPUPluggableAllocator = classes(__name__, ["MemPool", "XPUPluggableAllocator"]).values()


def memory_stats(device=None) -> collections.OrderedDict:
    """Empty: there is no such device."""
    return collections.OrderedDict()


def memory_stats_as_nested_dict(device=None) -> dict:
    """Empty: there is no such device."""
    return {}


def memory_snapshot(mempool_id=None) -> list:
    """Empty: there is no such device."""
    return []


__all__ = [
    *_FUNCTIONS, "MemPool", "XPUPluggableAllocator", "memory_snapshot", "memory_stats",
    "memory_stats_as_nested_dict",
]
