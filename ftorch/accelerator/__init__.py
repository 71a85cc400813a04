"""The accelerator of this machine, whatever it is (``torch.accelerator``)."""

from __future__ import annotations

from ..cuda.streams import Stream, wait_for
from ..cuda.streams import set_stream as _set_stream
from ..eager.core import device as _device
from ..eager.runtime import executor

__all__ = [
    "Graph", "current_accelerator", "current_device_idx", "current_device_index", "current_stream",
    "device_count", "device_index", "empty_cache", "empty_host_cache", "get_device_capability",
    "get_memory_info", "is_available", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
    "memory_reserved", "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats",
    "set_device_idx", "set_device_index", "set_stream", "synchronize",
]


def __getattr__(name):
    if name == "Graph":  # what stands on this module
        from .graphs import Graph

        return Graph
    if name in ("graphs", "memory"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def get_memory_info(device_index=None) -> tuple[int, int]:
    """The free and the whole memory of an accelerator, in bytes.

    Raises:
        RuntimeError: without one.
    """
    from ..cuda.memory import mem_get_info

    return mem_get_info(_indexed(device_index))


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


def current_stream(device=None, /) -> Stream:
    """The stream of an accelerator: XLA runs a device's work in order, so there is one.

    Raises:
        RuntimeError: without one.
    """
    return Stream(_indexed(device))


def set_stream(stream: Stream) -> None:
    """Makes the device of a stream this thread's.

    Raises:
        RuntimeError: without an accelerator.
    """
    _require()
    _set_stream(stream)


def get_device_capability(device=None) -> dict:
    """What an accelerator can do: ``{"supported_dtypes": set of dtypes}``."""
    from ..eager.core import dtype as dtypes

    _indexed(device)
    return {"supported_dtypes": {v for v in vars(dtypes).values() if isinstance(v, dtypes.dtype)}}


# --- memory --------------------------------------------------------------------------


def memory_stats(device_index=None, /) -> dict:
    """XLA's counters of an accelerator."""
    executor.flush()
    return _device.to_jax(_indexed(device_index)).memory_stats() or {}


def memory_allocated(device_index=None, /) -> int:
    """Bytes that arrays take."""
    return memory_stats(device_index).get("bytes_in_use", 0)


def max_memory_allocated(device_index=None, /) -> int:
    """The most bytes that arrays took."""
    return memory_stats(device_index).get("peak_bytes_in_use", 0)


def memory_reserved(device_index=None, /) -> int:
    """Bytes that XLA's allocator holds."""
    stats = memory_stats(device_index)
    return stats.get("pool_bytes", stats.get("bytes_in_use", 0))


def reset_peak_memory_stats(device_index=None, /) -> None:
    """Makes `torch.cuda.max_memory_allocated` start again."""
    if _indexed(device_index).type == "cuda":
        from ..cuda.memory import reset_peak_memory_stats

        reset_peak_memory_stats(device_index)


def empty_cache() -> None:
    """Frees arrays that only reference cycles hold; XLA keeps its pool.

    Raises:
        RuntimeError: without an accelerator.
    """
    import gc

    _require()
    executor.flush()
    gc.collect()


def max_memory_reserved(device_index=None, /) -> int:
    """The most that was reserved, in bytes: what is reserved is never given back."""
    return memory_reserved(device_index)


def reset_accumulated_memory_stats(device_index=None, /) -> None:
    """Does nothing to JAX's counters. Raises RuntimeError without an accelerator."""
    memory_stats(device_index)


def empty_host_cache() -> None:
    """Does nothing: memory of the host is not cached. Raises RuntimeError without an accelerator."""
    empty_cache()
