"""Intel's GPUs (``torch.xpu``): JAX has none of them here, so nothing is available."""

import contextlib

from .._toplevel.absent_device import functions as _functions
from . import graphs, memory, random, streams
from .graphs import (
    XPUGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from .memory import *  # noqa: F403
from .random import *  # noqa: F403
from .streams import Event, Stream

_NAMES = [
    "can_device_access_peer", "clock_rate", "current_device", "current_stream", "device_count",
    "device_memory_used", "get_device_capability", "get_device_name", "get_device_properties",
    "get_stream_from_external", "init", "is_available", "is_bf16_supported", "is_initialized",
    "is_tf32_supported", "memory_usage", "power_draw", "set_device", "set_stream", "synchronize",
    "temperature", "utilization",
]

globals().update(_functions(_NAMES, AssertionError, "Torch not compiled with XPU enabled"))

default_generators: tuple = ()


class device(contextlib.AbstractContextManager):
    """A block on a device of this kind: none is here, so nothing changes."""

    def __init__(self, device):
        self.idx = -1

    def __exit__(self, *error):
        return False


class device_of(device):
    """The same for a tensor's device."""

    def __init__(self, obj):
        super().__init__(-1)


class StreamContext(contextlib.AbstractContextManager):
    """A block with a stream: there is none."""

    def __init__(self, stream):
        self.stream = stream

    def __exit__(self, *error):
        return False


def stream(stream) -> StreamContext:
    """A block with a stream."""
    return StreamContext(stream)


def get_arch_list() -> list[str]:
    """[]: no architecture."""
    return []


def get_gencode_flags() -> str:
    """Empty: no architecture."""
    return ""


__all__ = [
    *_NAMES, *memory.__all__, *random.__all__, "Event", "Stream", "StreamContext", "XPUGraph", "device",
    "device_of", "get_arch_list", "get_gencode_flags", "graph", "graph_pool_handle", "graphs",
    "is_current_stream_capturing", "make_graphed_callables", "memory", "random", "stream", "streams",
]
