"""Allocators, pools and records of allocations (``torch.cuda.memory``): XLA's allocator is the only one.

What can be known of it is told: which arrays live where (`memory_snapshot`). Settings that it does not have are accepted where
a program loses nothing by that, and raise where it would.
"""

from __future__ import annotations

import ctypes
import pickle
import threading

import jax

from ..eager.core import device as _device
from ..eager.native.contexts import contextmanager
from ..eager.runtime import executor
from .index import device_index
from .memory import memory_stats

_enabled = threading.local()


def _nested(stats):
    found: dict = {}
    for key, value in stats.items():
        place = found
        *path, name = key.split(".")
        for part in path:
            inner = place.setdefault(part, {})
            place = inner if isinstance(inner, dict) else found
        place[name] = value
    return found


def memory_stats_as_nested_dict(device=None) -> dict:
    """`memory_stats` by the parts of its names."""
    return _nested(memory_stats(device))


def memory_snapshot(mempool_id=None, include_traces=True) -> list[dict]:
    """The arrays on all GPUs: one segment with one block for each, in PyTorch's form."""
    executor.flush()
    segments = []
    for index, where in enumerate(_device.jax_devices("cuda")):
        for array in jax.live_arrays():
            if where not in array.devices() or array.is_deleted():
                continue
            part = next(s.data for s in array.addressable_shards if s.device == where)
            address, size = part.unsafe_buffer_pointer(), part.nbytes
            block = {
                "address": address,
                "size": size,
                "requested_size": size,
                "state": "active_allocated",
                "frames": [],
            }
            segments.append({
                "device": index, "address": address, "total_size": size, "allocated_size": size, "active_size": size,
                "requested_size": size, "stream": 0, "segment_type": "large" if size > 1 << 20 else "small",
                "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": [block],
            })
    return segments


def _snapshot(device=None, augment_with_fx_traces=False) -> dict:
    """`memory_snapshot` in the form that PyTorch's viewer reads; allocations over time are not recorded."""
    return {"segments": memory_snapshot(), "device_traces": [[] for _ in _device.jax_devices("cuda")],
            "allocator_settings": {}, "external_annotations": []}


def _dump_snapshot(filename="dump_snapshot.pickle", augment_with_fx_traces=False) -> None:
    """Writes `_snapshot` to a file, for https://pytorch.org/memory_viz."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _record_memory_history(enabled="all", *args, **kwargs) -> None:
    """Does nothing: XLA does not tell when it allocates; `memory_snapshot` says what is there."""


def _set_allocator_settings(env: str) -> None:
    """Does nothing: settings of XLA's allocator are read from ``XLA_PYTHON_CLIENT_*`` when JAX starts."""


def host_memory_stats() -> dict[str, int]:
    """Empty: XLA does not count the memory of transfers."""
    import collections

    return collections.OrderedDict()


def host_memory_stats_as_nested_dict() -> dict:
    """Empty, see `host_memory_stats`."""
    return {}


def reset_peak_host_memory_stats() -> None:
    """Does nothing, see `host_memory_stats`."""


def reset_accumulated_host_memory_stats() -> None:
    """Does nothing, see `host_memory_stats`."""


# --- what is allocated by hand ------------------------------------------------------------


def caching_allocator_delete(mem_ptr) -> None:
    """Raises: there is no raw memory to give back, see `caching_allocator_alloc`.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("XLA's allocator does not give out raw memory; delete the tensor that holds it")


def caching_allocator_enable(value: bool = True) -> None:
    """Does nothing: whether XLA keeps freed memory is set by ``XLA_PYTHON_CLIENT_ALLOCATOR`` before JAX starts."""


@contextmanager
def caching_allocator_disabled():
    """A block without effect, see `caching_allocator_enable`."""
    yield


def get_per_process_memory_fraction(device=None) -> float:
    """The share of a GPU's memory that XLA may use.

    Raises:
        AssertionError: without a GPU.
    """
    import os

    device_index(device)
    return float(os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", 0.75))


class CUDAPluggableAllocator:
    """An allocator in a library of one's own: XLA takes none.

    Raises:
        OSError: there is no such library. RuntimeError: always, else.
    """

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str):
        library = ctypes.CDLL(path_to_so_file)
        getattr(library, alloc_fn_name)
        getattr(library, free_fn_name)
        raise RuntimeError(_ONLY)


_ONLY = (
    "XLA allocates the memory of GPUs, and takes no other allocator. XLA_PYTHON_CLIENT_ALLOCATOR chooses among its own "
    "before Python starts: bfc, cuda_async, platform"
)


def change_current_allocator(allocator) -> None:
    """Raises: XLA takes no other allocator.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(_ONLY)


_pools = iter(range(1, 1 << 62))


def graph_pool_handle() -> tuple[int, int]:
    """A name for memory that several graphs share: one of its own each time. XLA's allocator has one pool."""
    return 0, next(_pools)


class MemPool:
    """A pool of memory: a name, as XLA has one pool for each GPU.

    Raises:
        RuntimeError: without a GPU.
    """

    def __init__(self, allocator=None, use_on_oom=False, no_split=False):
        if not _device.jax_devices("cuda"):
            raise RuntimeError("Tried to instantiate dummy base class MemPool")
        if allocator is not None:
            raise RuntimeError(_ONLY)
        self.allocator, self._id = None, graph_pool_handle()

    @property
    def id(self) -> tuple[int, int]:
        """The pool's name."""
        return self._id

    def use_count(self) -> int:
        """One: what holds the pool."""
        return 1

    def snapshot(self, include_traces=True) -> list[dict]:
        """Empty: what is made lies in XLA's own pool, see `memory_snapshot`."""
        return []


@contextmanager
def use_mem_pool(pool, device=None):
    """A block without effect: XLA's pool is used."""
    yield
