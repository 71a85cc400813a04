"""The CPU as a device (``torch.cpu``), for code that treats devices alike."""

from __future__ import annotations

import contextlib

from .eager import executor

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count",
    "is_available", "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """"cpu"."""
    return "cpu"


def set_device(device) -> None:
    """Does nothing: there is one CPU."""


def synchronize(device=None) -> None:
    """Runs what the thread has recorded."""
    executor.flush()


class Stream:
    """The CPU's stream: work is done in the order it was given in."""

    def __init__(self, priority: int = -1):
        pass

    def wait_stream(self, stream) -> None:
        """Does nothing: there is one stream."""

    def record_event(self):
        """An `Event`."""
        return Event()

    def wait_event(self, event) -> None:
        """Does nothing: there is one stream."""


class Event:
    """A point in the CPU's work; it has always been reached."""

    def query(self) -> bool:
        return True

    def record(self, stream=None) -> None:
        pass

    def synchronize(self) -> None:
        executor.flush()

    def wait(self, stream=None) -> None:
        pass


_stream = Stream()


def current_stream(device=None) -> Stream:
    """The CPU's stream."""
    return _stream


class StreamContext(contextlib.nullcontext):
    """A ``with`` block on a stream."""

    def __init__(self, stream):
        super().__init__()
        self.stream = stream


def stream(stream) -> StreamContext:
    """A ``with`` block on a stream, which changes nothing."""
    return StreamContext(stream)
