"""Streams and events. XLA runs a device's work in order, so there is one stream per device."""

from __future__ import annotations

from .._toplevel import streams as _streams
from .._toplevel.streams import wait_for
from ..eager.core import device as _device
from .index import device_index


def synchronize(device=None) -> None:
    """Runs what is recorded and waits until a GPU has done all of its work.

    Raises:
        AssertionError: without a GPU.
    """
    wait_for(_device.device("cuda", device_index(device)))


class Stream(_streams.Stream):
    """The stream of a device: every instance stands for the same one.

    Args:
        device: the GPU; this thread's by default.
        priority: accepted, without meaning.
    """

    __module__ = __name__
    cuda_stream = 0

    def __init__(self, device=None, priority=0, **_):
        if not _device.jax_devices("cuda"):
            raise RuntimeError("torch.cuda.Stream requires CUDA support")
        super().__init__(_device.device("cuda", device_index(device)))
        self.priority = priority

    def record_event(self, event=None):
        """Records an event (a new one by default) and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __repr__(self):
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream of another library: taken for the device's own."""

    def __init__(self, stream_ptr, device=None, **kwargs):
        super().__init__(device, **kwargs)


class Event(_streams.Event):
    """A point in the device's work.

    Args:
        enable_timing: makes `record` wait for the device, so that `elapsed_time` is right.
        blocking, interprocess: accepted, without meaning.
    """

    __module__ = __name__

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        if not _device.jax_devices("cuda"):
            raise RuntimeError("Tried to instantiate dummy base class Event")
        super().__init__("cuda", enable_timing=enable_timing)


def current_stream(device=None) -> Stream:
    """The stream of a GPU.

    Raises:
        AssertionError: without a GPU.
    """
    return Stream(device_index(device))


def default_stream(device=None) -> Stream:
    """The stream of a GPU.

    Raises:
        AssertionError: without a GPU.
    """
    return Stream(device_index(device))


def set_stream(stream) -> None:
    """Makes the stream's GPU this thread's."""
    if stream is not None:
        _device.set_current_index(stream.device.index)


class StreamContext:
    """Makes the GPU of a stream this thread's inside a ``with`` block."""

    def __init__(self, stream):
        self.stream = stream
        self.previous = 0

    def __enter__(self):
        self.previous = _device.current_index()
        set_stream(self.stream)

    def __exit__(self, *_):
        _device.set_current_index(self.previous)


def stream(stream) -> StreamContext:
    """A ``with`` block on a stream; None changes nothing."""
    return StreamContext(stream)


def get_stream_from_external(data_ptr: int, device=None) -> ExternalStream:
    """A stream of another library: taken for the device's own.

    Raises:
        AssertionError: without a GPU.
    """
    return ExternalStream(data_ptr, device_index(device))
