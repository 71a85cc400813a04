"""Memory of GPUs, as XLA's allocator counts it. Without a GPU everything is 0, as in PyTorch."""

from __future__ import annotations

import collections
import gc
import warnings

from ..eager.core import device as _device
from ..eager.runtime import executor
from .index import device_index, gpu


def _stats(device):
    if not _device.jax_devices("cuda"):
        return {}
    executor.flush()
    return _device.jax_devices("cuda")[device_index(device)].memory_stats() or {}


# XLA's peak cannot be reset, so it only counts once it is above what it was at the reset.
_peaks_at_reset: dict[tuple[int, str], int] = {}


def _peak(device, name, current):
    stats = _stats(device)
    if not stats:
        return 0
    peak = stats.get(name, 0)
    if peak > _peaks_at_reset.get((device_index(device), name), -1):
        return peak
    return stats.get(current, 0)


def memory_allocated(device=None) -> int:
    """Bytes that arrays take."""
    return _stats(device).get("bytes_in_use", 0)


def max_memory_allocated(device=None) -> int:
    """The most bytes that arrays took since the start (or `reset_peak_memory_stats`)."""
    return _peak(device, "peak_bytes_in_use", "bytes_in_use")


def memory_reserved(device=None) -> int:
    """Bytes that XLA's allocator holds."""
    stats = _stats(device)
    return stats.get("pool_bytes", stats.get("bytes_reserved", stats.get("bytes_in_use", 0)))


def max_memory_reserved(device=None) -> int:
    """The most bytes that XLA's allocator held."""
    return max(_peak(device, "peak_pool_bytes", "pool_bytes"), memory_reserved(device))


def reset_peak_memory_stats(device=None) -> None:
    """Makes `max_memory_allocated` and `max_memory_reserved` start again.

    Raises:
        ValueError: for other devices than GPUs.
    """
    gpu(device)
    for name in ("peak_bytes_in_use", "peak_pool_bytes"):
        stats = _stats(device)
        if stats:
            _peaks_at_reset[device_index(device), name] = stats.get(name, 0)


def reset_accumulated_memory_stats(device=None) -> None:
    """Does nothing: XLA's counters run on."""


def memory_stats(device=None) -> dict[str, int]:
    """The counters under PyTorch's names, and XLA's own under theirs."""
    stats = _stats(device)
    if not stats:
        return collections.OrderedDict()
    return collections.OrderedDict(
        {
            "allocated_bytes.all.current": memory_allocated(device),
            "allocated_bytes.all.peak": max_memory_allocated(device),
            "reserved_bytes.all.current": memory_reserved(device),
            "reserved_bytes.all.peak": max_memory_reserved(device),
            "allocation.all.allocated": stats.get("num_allocs", 0),
            "num_ooms": 0,
            **stats,
        }
    )


def memory_summary(device=None, abbreviated: bool = False) -> str:
    """`memory_stats` as a table."""
    stats = memory_stats(device)
    width = max(map(len, stats), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in stats.items())


def mem_get_info(device=None) -> tuple[int, int]:
    """(free, total) bytes of what XLA may use.

    Raises:
        ValueError: for other devices than GPUs. AssertionError: without a GPU.
    """
    gpu(device)
    device_index(device)
    stats = _stats(device)
    total = stats.get("bytes_limit", 0)
    return total - stats.get("bytes_in_use", 0), total


def empty_cache() -> None:
    """Frees arrays that only reference cycles hold; XLA keeps its pool."""
    if _device.jax_devices("cuda"):
        executor.flush()
        gc.collect()


def set_per_process_memory_fraction(fraction: float, device=None) -> None:
    """Raises: XLA's share of the memory is set before Python starts.

    Raises:
        RuntimeError: always, naming the environment variable.
    """
    device_index(device)
    raise RuntimeError(
        f"the share of memory is fixed when JAX starts: set XLA_PYTHON_CLIENT_MEM_FRACTION={fraction}"
    )


def get_allocator_backend() -> str:
    """The name of the allocator."""
    return "xla"


def caching_allocator_alloc(size: int, device=None, stream=None):
    """Raises: raw memory is not given out.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("XLA's allocator does not give out raw memory; make a tensor of uint8")


def _deprecated(old, new):
    def function(device=None):
        warnings.warn(
            f"torch.cuda.{old} has been renamed to torch.cuda.{new.__name__}", FutureWarning,
            stacklevel=2,
        )
        return new(device)

    function.__name__ = function.__qualname__ = old
    function.__doc__ = f"The older name of `{new.__name__}`."
    return function


memory_cached = _deprecated("memory_cached", memory_reserved)
max_memory_cached = _deprecated("max_memory_cached", max_memory_reserved)
reset_max_memory_allocated = _deprecated("reset_max_memory_allocated", reset_peak_memory_stats)
reset_max_memory_cached = _deprecated("reset_max_memory_cached", reset_peak_memory_stats)


def __getattr__(name):
    # PyTorch has these names here; they need this module.
    from . import allocator, monitoring

    for module in (allocator, monitoring):
        if name in module.__dict__ and not name.startswith("__"):
            return module.__dict__[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
