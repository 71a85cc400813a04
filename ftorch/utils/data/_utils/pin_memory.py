"""Moves the tensors of a batch to page-locked memory, where the platform has such a thing."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from copy import copy


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
