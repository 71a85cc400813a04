"""The accelerator of this machine, whatever it is (``torch.accelerator``)."""

from __future__ import annotations

from .cuda.streams import wait_for
from .eager import device as _device
from .eager import executor

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "device_count",
    "device_index", "empty_cache", "get_device_capability", "is_available", "max_memory_allocated",
    "memory_allocated", "memory_reserved", "memory_stats", "reset_peak_memory_stats",
    "set_device_idx", "set_device_index", "synchronize",
]  # fmt: skip


def current_accelerator(check_available: bool = False) -> _device.device | None:
    """The type of accelerator that JAX found, as a device without an index; None if there is none."""
    for kind in ("cuda", "tpu"):
        if _device.jax_devices(kind):
            return _device.device(kind)
    return None


def is_available() -> bool:
    """Whether JAX found an accelerator."""
    return current_accelerator() is not None


def device_count() -> int:
    """The number of accelerators."""
    found = current_accelerator()
    return 0 if found is None else len(_device.jax_devices(found.type))


def _require() -> _device.device:
    found = current_accelerator()
    if found is None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return found


def _indexed(device) -> _device.device:
    if isinstance(device, int):
        return _device.device(_require().type, device)
    found = _require() if device is None else _device.device(device)
    if found.type != _require().type:
        raise ValueError(f"{found.type} doesn't match the current accelerator {_require()}.")
    return _device.canonical(found)


def current_device_index() -> int:
    """The index of this thread's accelerator.

    Raises:
        RuntimeError: without one.
    """
    _require()
    return _device.current_index()


current_device_idx = current_device_index


def set_device_index(device) -> None:
    """Makes an accelerator this thread's.

    Raises:
        RuntimeError: without one.
    """
    where = _indexed(device)
    _device.to_jax(where)
    _device.set_current_index(where.index or 0)


set_device_idx = set_device_index


class device_index:
    """Makes an accelerator this thread's inside a ``with`` block; None changes nothing."""

    def __init__(self, device: int | None):
        self.idx = device
        self.prev_idx = -1

    def __enter__(self):
        if self.idx is not None:
            self.prev_idx = current_device_index()
            set_device_index(self.idx)

    def __exit__(self, *_):
        if self.idx is not None:
            _device.set_current_index(self.prev_idx)


def synchronize(device=None) -> None:
    """Runs what is recorded and waits until an accelerator has done all of its work.

    Raises:
        RuntimeError: without one.
    """
    wait_for(_indexed(device))


def get_device_capability(device=None) -> dict:
    """What an accelerator can do: ``{"supported_dtypes": set of dtypes}``."""
    from .eager import dtype as dtypes

    _indexed(device)
    return {"supported_dtypes": {v for v in vars(dtypes).values() if isinstance(v, dtypes.dtype)}}


# --- memory --------------------------------------------------------------------------


def memory_stats(device=None) -> dict:
    """XLA's counters of an accelerator."""
    executor.flush()
    return _device.to_jax(_indexed(device)).memory_stats() or {}


def memory_allocated(device=None) -> int:
    """Bytes that arrays take."""
    return memory_stats(device).get("bytes_in_use", 0)


def max_memory_allocated(device=None) -> int:
    """The most bytes that arrays took."""
    return memory_stats(device).get("peak_bytes_in_use", 0)


def memory_reserved(device=None) -> int:
    """Bytes that XLA's allocator holds."""
    stats = memory_stats(device)
    return stats.get("pool_bytes", stats.get("bytes_in_use", 0))


def reset_peak_memory_stats(device=None) -> None:
    """Makes `torch.cuda.max_memory_allocated` start again."""
    if _indexed(device).type == "cuda":
        from .cuda.memory import reset_peak_memory_stats

        reset_peak_memory_stats(device)


def empty_cache() -> None:
    """Frees arrays that only reference cycles hold; XLA keeps its pool.

    Raises:
        RuntimeError: without an accelerator.
    """
    import gc

    _require()
    executor.flush()
    gc.collect()
