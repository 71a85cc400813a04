"""GPUs (``torch.cuda``): what JAX knows about them, under PyTorch's names.

XLA runs the work of a device in order and manages its memory, so streams and caches have little to
say here; devices, memory statistics, seeds and waiting are real. Without a GPU the module can be used
as in PyTorch's CPU build: `is_available` is False, and what needs a device raises.
"""

from __future__ import annotations

from typing import NamedTuple

from ..eager import device as _device
from ..eager.executor import OutOfMemoryError
from ..eager.types import tensor_types as _tensor_types
from .index import device_index as _device_index
from .memory import (
    caching_allocator_alloc,
    empty_cache,
    get_allocator_backend,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
    synchronize,
)

__all__ = [
    "Event", "ExternalStream", "OutOfMemoryError", "Stream", "StreamContext", "amp",
    "caching_allocator_alloc", "can_device_access_peer", "current_device", "current_stream",
    "default_stream", "device", "device_count", "device_of", "empty_cache", "get_allocator_backend",
    "get_arch_list", "get_device_capability", "get_device_name", "get_device_properties",
    "get_rng_state", "get_rng_state_all", "init", "initial_seed", "ipc_collect", "is_available",
    "is_bf16_supported", "is_current_stream_capturing", "is_initialized", "is_tf32_supported",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_cached",
    "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved",
    "memory_stats", "memory_summary", "nvtx", "random", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats", "seed",
    "seed_all", "set_device", "set_per_process_memory_fraction", "set_rng_state",
    "set_rng_state_all", "set_stream", "stream", "synchronize",
]  # fmt: skip

has_half = True
has_magma = False

globals().update(_tensor_types("cuda"))


def __getattr__(name):
    if name in ("amp", "nvtx"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    if name == "default_generators":
        from ..eager.generator import default_generator_of

        return tuple(default_generator_of(_device.device("cuda", i)) for i in range(device_count()))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# --- devices -------------------------------------------------------------------------


def is_available() -> bool:
    """Whether JAX found a GPU."""
    return device_count() > 0


def device_count() -> int:
    """The number of GPUs."""
    return len(_device.jax_devices("cuda"))


def init() -> None:
    """Starts JAX's GPU backend, which otherwise happens when first needed.

    Raises:
        AssertionError: without a GPU.
    """
    _device_index(None)


def is_initialized() -> bool:
    """Whether the GPUs can be used at once: they can where there are any."""
    return is_available()


def current_device() -> int:
    """The index of this thread's GPU.

    Raises:
        AssertionError: without a GPU.
    """
    return _device_index(None)


def set_device(device) -> None:
    """Makes a GPU this thread's: what ``"cuda"`` without an index stands for.

    Raises:
        AssertionError: without a GPU. RuntimeError: for an index there is none of.
    """
    index = device if isinstance(device, int) else _device.device(device).index
    if index is not None and index >= 0:
        _device.set_current_index(_device_index(index))


class device:
    """Makes a GPU this thread's inside a ``with`` block; None or a negative index changes nothing."""

    def __init__(self, device):
        if isinstance(device, (str, _device.device)):
            device = _device.device(device).index
        self.idx = -1 if device is None else device
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _device.current_index()
        if self.idx >= 0:
            set_device(self.idx)

    def __exit__(self, *_):
        _device.set_current_index(self.prev_idx)


class device_of(device):
    """Makes the GPU of a tensor this thread's inside a ``with`` block."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class _Properties(NamedTuple):
    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    uuid: str


def get_device_properties(device=None) -> _Properties:
    """Name, compute capability, memory and processors of a GPU.

    ``total_memory`` is what JAX may use of it (see ``XLA_PYTHON_CLIENT_MEM_FRACTION``).
    """
    found = _device.jax_devices("cuda")[_device_index(device)]
    major, minor = _capability(found)
    stats = found.memory_stats() or {}
    return _Properties(
        found.device_kind, major, minor, stats.get("bytes_limit", 0),
        getattr(found, "core_count", 0), 32, str(found.id),
    )  # fmt: skip


def _capability(found):
    major, _, minor = str(getattr(found, "compute_capability", "0.0")).partition(".")
    return int(major), int(minor or 0)


def get_device_name(device=None) -> str:
    """The product's name."""
    return get_device_properties(device).name


def get_device_capability(device=None) -> tuple[int, int]:
    """The compute capability, ``(9, 0)``."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def get_arch_list() -> list[str]:
    """The architectures compiled for: those of the GPUs here, as XLA compiles when needed."""
    return sorted({"sm_{}{}".format(*get_device_capability(i)) for i in range(device_count())})


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether GPUs compute in bfloat16: with XLA all do."""
    return is_available()


def is_tf32_supported() -> bool:
    """Whether the GPU has TensorFloat32 (compute capability 8.0 and later)."""
    return is_available() and get_device_capability()[0] >= 8


def can_device_access_peer(device, peer_device) -> bool:
    """Whether a GPU reads another's memory: JAX copies between all of them."""
    return _device_index(device) != _device_index(peer_device)


def is_current_stream_capturing() -> bool:
    """Whether a CUDA graph is being captured: never, XLA makes its own."""
    return False


def ipc_collect() -> None:
    """Does nothing where there is a GPU: memory is never shared with other processes.

    Raises:
        AssertionError: without a GPU.
    """
    init()
