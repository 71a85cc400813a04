"""Moves the tensors of a batch to page-locked memory, where the platform has such a thing."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from copy import copy
from queue import Empty, Full

from ftorch._utils import ExceptionWrapper

from . import MP_STATUS_CHECK_INTERVAL


def _pin_memory_loop(in_queue, out_queue, device_id, done_event, device) -> None:
    """What a loader's thread for pinning does until ``done_event``: batches of one queue go pinned into the other.

    Args:
        in_queue: of (index of the batch, the batch), or (index, `ExceptionWrapper`), which is passed on.
        device_id, device: the accelerator whose transfers the memory is for.
    """
    while not done_event.is_set():
        try:
            index, data = in_queue.get(timeout=MP_STATUS_CHECK_INTERVAL)
        except Empty:
            continue
        if not isinstance(data, ExceptionWrapper):
            try:
                data = pin_memory(data, device)
            except Exception:
                data = ExceptionWrapper(where=f"in pin memory thread for device {device_id}")
        while not done_event.is_set():
            try:
                out_queue.put((index, data), timeout=MP_STATUS_CHECK_INTERVAL)
                break
            except Full:
                continue


def pin_memory(data, device=None):
    """``data`` with ``pin_memory()`` called on everything that has it, through containers."""
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        pinned = {key: pin_memory(value, device) for key, value in data.items()}
        try:
            if not isinstance(data, MutableMapping):
                return type(data)(pinned)  # type: ignore[call-arg]
            clone = copy(data)
            clone.update(pinned)
            return clone
        except TypeError:
            return pinned
    if isinstance(data, Sequence):
        values = [pin_memory(value, device) for value in data]
        try:
            if hasattr(data, "_fields"):  # a named tuple
                return type(data)(*values)
            if not isinstance(data, MutableSequence):
                return type(data)(values)  # type: ignore[call-arg]
            clone = copy(data)
            for i, value in enumerate(values):
                clone[i] = value
            return clone
        except TypeError:
            return values
    return data
