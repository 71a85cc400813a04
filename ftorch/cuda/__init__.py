"""GPUs (``torch.cuda``): what JAX knows about them, under PyTorch's names.

XLA runs the work of a device in order and manages its memory, so streams and caches have little to
say here; devices, memory statistics, seeds and waiting are real. Without a GPU the module can be used
as in PyTorch's CPU build: `is_available` is False, and what needs a device raises.
"""

from __future__ import annotations

import os as _os
from typing import NamedTuple

from ..eager.core import device as _device
from ..eager.runtime.executor import OutOfMemoryError
from ..eager.tensor_api.legacy_storages import storage_types as _storage_types
from ..eager.tensor_api.legacy_types import tensor_types as _tensor_types
from .allocator import (
    CUDAPluggableAllocator,
    MemPool,
    caching_allocator_delete,
    caching_allocator_disabled,
    caching_allocator_enable,
    change_current_allocator,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    memory_snapshot,
    memory_stats_as_nested_dict,
    reset_accumulated_host_memory_stats,
    reset_peak_host_memory_stats,
    use_mem_pool,
)
from .graphs import (
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from .green_contexts import GreenContext
from .index import device_index as _device_index
from .index import gpu as _gpu
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
from .monitoring import (
    clock_rate,
    device_memory_used,
    list_gpu_processes,
    memory_usage,
    power_draw,
    temperature,
    utilization,
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
    get_stream_from_external,
    set_stream,
    stream,
    synchronize,
)

__all__ = [
    "CUDAGraph", "graph", "graph_pool_handle", "make_graphed_callables", "cudart",
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
    "CUDAPluggableAllocator", "CudaError", "MemPool", "caching_allocator_delete",
    "caching_allocator_disabled", "caching_allocator_enable", "change_current_allocator", "check_error",
    "clock_rate", "cudaStatus", "device_memory_used", "get_gencode_flags",
    "get_per_process_memory_fraction", "get_stream_from_external", "get_sync_debug_mode",
    "host_memory_stats", "host_memory_stats_as_nested_dict", "list_gpu_processes", "memory_snapshot",
    "memory_stats_as_nested_dict", "memory_usage", "power_draw",
    "reset_accumulated_host_memory_stats", "reset_peak_host_memory_stats", "set_sync_debug_mode",
    "temperature", "use_mem_pool", "utilization",
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage",
    "ComplexFloatStorage", "DeferredCudaCallError", "DoubleStorage", "FloatStorage", "GreenContext",
    "HalfStorage", "IntStorage", "LongStorage", "ShortStorage", "current_blas_handle",
    "current_solver_handle",
]

has_half = True
has_magma = False

globals().update(_tensor_types("cuda"))
globals().update(_storage_types("torch.cuda"))


def __getattr__(name):
    if name in ("_utils", "amp", "comm", "gds", "jiterator", "nccl", "nvtx", "profiler", "sparse", "tunable"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    if name == "_initialized":
        return is_initialized()
    if name == "default_generators":
        from ..eager.sampling.generator import default_generator_of

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


_PROCESS = _os.getpid()  # which may use the GPUs


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that used GPUs, whose memory it cannot use."""
    return _os.getpid() != _PROCESS and is_available()


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
        AssertionError: without a GPU. ValueError: for other devices, and without an index. RuntimeError: for an
            index there is none of.
    """
    index = device
    if not isinstance(device, int):
        index = _gpu(device).index if isinstance(device, (str, _device.device)) else None
        if index is None:
            raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    if index >= 0:
        _device.set_current_index(_device_index(index))


class device:
    """Makes a GPU this thread's inside a ``with`` block; None or a negative index changes nothing.

    Raises:
        ValueError: for other devices.
    """

    def __init__(self, device):
        if isinstance(device, (str, _device.device)):
            device = _gpu(device).index
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
    )


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


def ipc_collect() -> None:
    """Does nothing where there is a GPU: memory is never shared with other processes.

    Raises:
        AssertionError: without a GPU.
    """
    init()


def cudart():
    """CUDA's runtime library: JAX does not give it out.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "torch.cuda.cudart: JAX drives the GPU, and its handle of CUDA's runtime is not public. "
        "torch.profiler and torch.cuda's functions of memory, devices and streams take its place"
    )


class DeferredCudaCallError(Exception):
    """Work that waited for the first use of a GPU failed."""


def _library_handle(name):
    _device_index(None)
    raise RuntimeError(f"torch.cuda.{name}: XLA's handles of NVIDIA's libraries are not public.")


def current_blas_handle():
    """The handle of cuBLAS: XLA does not give it out.

    Raises:
        AssertionError: without a GPU. RuntimeError: with one.
    """
    return _library_handle("current_blas_handle")


def current_solver_handle():
    """The handle of cuSOLVER: XLA does not give it out.

    Raises:
        AssertionError: without a GPU. RuntimeError: with one.
    """
    return _library_handle("current_solver_handle")


# --- errors and waiting ----------------------------------------------------------------


class cudaStatus:
    """Codes of CUDA's runtime."""

    SUCCESS: int = 0
    ERROR_NOT_READY: int = 34


class CudaError(RuntimeError):
    """A code of CUDA's runtime that is no success."""

    def __init__(self, code: int):
        super().__init__(f"CUDA error ({code})")


def check_error(res: int) -> None:
    """Raises for a code of CUDA's runtime that is no success.

    Raises:
        CudaError: it is none.
    """
    if int(res) != cudaStatus.SUCCESS:
        raise CudaError(int(res))


_sync_debug_mode = 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Notes whether waiting for the GPU shall warn or raise. It does neither: values are waited for when looked at.

    Args:
        debug_mode: ``"default"``, ``"warn"``, ``"error"`` or 0, 1, 2.

    Raises:
        AssertionError: without a GPU. RuntimeError: for another mode.
    """
    global _sync_debug_mode
    init()
    names = {"default": 0, "warn": 1, "error": 2}
    if isinstance(debug_mode, str) and debug_mode not in names:
        raise RuntimeError(
            "invalid value of debug_mode, expected one of `default`, `warn`, `error`"
        )
    _sync_debug_mode = names.get(debug_mode, debug_mode)  # type: ignore[arg-type]


def get_sync_debug_mode() -> int:
    """What `set_sync_debug_mode` set.

    Raises:
        AssertionError: without a GPU.
    """
    init()
    return _sync_debug_mode


def get_gencode_flags() -> str:
    """Flags of NVIDIA's compiler for the GPUs here."""
    return " ".join(f"-gencode compute={a.replace('sm', 'compute')},code={a}" for a in get_arch_list())


def _is_compiled() -> bool:
    """Whether JAX has GPUs here."""
    return is_available()


def _lazy_init() -> None:
    """`init`."""
    init()


def _lazy_call(callable, **_) -> None:
    """Calls a function at once: there is nothing to wait for."""
    callable()


def _sleep(cycles: int) -> None:
    """Does nothing but look for a GPU: XLA has no kernel that only waits.

    Raises:
        AssertionError: without a GPU.
    """
    init()
