"""`torch.Stream` and `torch.Event`: queues of a device's work, and points in them, for all kinds of devices.

XLA runs a device's work in the order it was given, so that there is one stream for each device; a CPU has none, and no events.
"""

from __future__ import annotations

import functools
import operator
import time

import jax
import numpy as np

from ..eager.core import device as _device
from ..eager.core.jax_internals import called_again
from ..eager.memory import gpu_driver
from ..eager.runtime import executor, program

__all__ = ["Event", "Stream"]

_TYPES = {"cpu": 0, "cuda": 1, "xla": 9, "meta": 14, "tpu": 9}


def _accelerator():
    for kind in ("cuda", "tpu"):
        if _device.jax_devices(kind):
            return kind
    return None


def _device_of(device) -> _device.device:
    kind = _accelerator()
    if device is None:
        return _device.device("cpu") if kind is None else _device.device(kind, _device.current_index())
    if isinstance(device, int):
        if kind is None:
            raise RuntimeError("Cannot access accelerator device when none is available.")
        return _device.device(kind, device)
    device = _device.device(device)
    if device.type in ("cuda", "tpu"):
        if not _device.jax_devices(device.type):
            raise RuntimeError(f"PyTorch is not linked with support for {device.type} devices")
        if device.index is None:
            device = _device.device(device.type, _device.current_index())
    return device


def wait_for(where: _device.device) -> None:
    """Runs what the thread has recorded; waits until a device has done all of its work."""
    executor.flush()
    jax_device = _device.to_jax(where)
    latest = program.latest.get(where)
    array = None if latest is None else latest()
    is_there = isinstance(array, jax.Array) and not array.is_deleted()  # a forked child's is NumPy's
    # The driver's wait ends sooner than JAX's `block_until_ready`, which comes after it for the errors of programs.
    is_done = gpu_driver.wait(jax_device, array if is_there else None)
    if is_there:
        try:
            array.block_until_ready()
        except RuntimeError:
            if not array.is_deleted():  # else it was given to a program, perhaps by another thread
                raise
    if not is_done:
        # Work of a device is done in order: what is asked for now is done last.
        negate, marker = _marker(jax_device)
        negate(marker).block_until_ready()


@functools.cache
def _marker(jax_device):
    """A small program, and what it is given: on the device, since a transfer takes longer than a program."""
    return called_again(jax.jit(operator.neg)), jax.device_put(np.int32(0), jax_device)


def _wait_for(device) -> None:
    if device.type in ("cuda", "tpu"):
        wait_for(device)


def _expect_events(device) -> None:
    if device.type == "cpu":
        raise RuntimeError("cpu backend doesn't support events.")


class Stream:
    """The queue of a device's work; all of a device are the same one.

    Args:
        device: by default the current accelerator, or the CPU.
        priority: accepted, without meaning.

    Raises:
        RuntimeError: there is no such device.

    >>> import ftorch as torch
    >>> torch.Stream(device="cpu")
    torch.Stream device_type=cpu, device_index=-1, stream_id=0
    """

    __module__ = "torch"

    def __init__(self, device=None, *, priority=0, stream_id=None, device_index=None, device_type=None):
        if device_type is not None:
            kind = next(name for name, code in _TYPES.items() if code == device_type)
            self._place = _device.device(kind) if kind == "cpu" else _device.device(kind, device_index)
            self._named = (stream_id or 0, device_index)
        else:
            self._place = _device_of(device)
            self._named = (0, -1 if self._place.index is None else self._place.index)

    @property
    def device(self):
        """Whose work it is."""
        return self._place

    @property
    def device_index(self) -> int:
        """The number of the device, -1 for one without."""
        return self._named[1]

    @property
    def device_type(self) -> int:
        """The number that PyTorch has for the kind of the device."""
        return _TYPES[self._place.type]

    @property
    def stream_id(self) -> int:
        """0."""
        return self._named[0]

    @property
    def native_handle(self):
        """Raises RuntimeError: XLA shows none."""
        raise RuntimeError("Backend doesn't support getting stream native handle.")

    def query(self) -> bool:
        """Waits, then True: XLA does not tell how far the work is."""
        self.synchronize()
        return True

    def synchronize(self) -> None:
        """Waits until the device has done all of its work."""
        _wait_for(self._place)

    def is_capturing(self) -> bool:
        """False."""
        return False

    def wait_event(self, event) -> None:
        """Does nothing: work is done in the order it was given in."""

    def wait_stream(self, stream) -> None:
        """Does nothing: work is done in the order it was given in."""
        _expect_events(self._place)

    def record_event(self, event=None):
        """Records an event (a new one by default) and returns it."""
        _expect_events(self._place)
        event = Event(self._place) if event is None else event
        event.record(self)
        return event

    def __eq__(self, other):
        return isinstance(other, Stream) and self._place == other._place and self.stream_id == other.stream_id

    def __hash__(self):
        return hash((self._place, self.stream_id))

    def __repr__(self):
        return f"torch.Stream device_type={self._place.type}, device_index={self.device_index}, stream_id={self.stream_id}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Event:
    """A point in a device's work.

    Args:
        device: by default the current accelerator, or the CPU.
        enable_timing: makes `record` wait for the device, so that `elapsed_time` is right.
        blocking, interprocess: accepted, without meaning.

    Raises:
        RuntimeError: there is no such device.

    >>> import ftorch as torch
    >>> torch.Event(device="cpu").query()
    True
    """

    __module__ = "torch"

    def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        self._place, self._timed, self._time = _device_of(device), bool(enable_timing), None

    @property
    def device(self):
        """Whose work it is."""
        return self._place

    @property
    def event_id(self) -> int:
        """0."""
        return 0

    def record(self, stream=None) -> None:
        """Marks this point."""
        _expect_events(self._place if stream is None else stream.device)
        if self._timed:
            _wait_for(self._place)
        self._time = time.perf_counter()

    def wait(self, stream=None) -> None:
        """Does nothing: work is done in the order it was given in."""

    def query(self) -> bool:
        """Waits, then True: XLA does not tell how far the work is."""
        self.synchronize()
        return True

    def synchronize(self) -> None:
        """Waits until the device has done the work before this point."""
        if self._time is not None:
            _wait_for(self._place)

    def elapsed_time(self, other) -> float:
        """Milliseconds from this event to another.

        Raises:
            ValueError: unless both were made with ``enable_timing`` and recorded.
        """
        if not (self._timed and other._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._time is None or other._time is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (other._time - self._time) * 1e3

    @classmethod
    def from_ipc_handle(cls, device, ipc_handle):
        """Raises NotImplementedError, as in PyTorch."""
        raise NotImplementedError("torch.Event ipc is not supported yet, please open an issue if you need this!")

    def ipc_handle(self):
        """Raises NotImplementedError, as in PyTorch."""
        raise NotImplementedError("torch.Event ipc is not supported yet, please open an issue if you need this!")

    def __repr__(self):
        index = -1 if self._place.index is None else self._place.index
        return (f"torch.Event device_type={self._place.type}, device_index={index}, event_flag={int(self._timed)}, "
                f"event_id={self.event_id}")
