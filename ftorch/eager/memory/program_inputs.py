"""Alignment and layout of inputs: the host tier's arrays as XLA's programs take them.

A program reads dense memory that begins at a multiple of 64 bytes where it lies; JAX copies any other array in each call. What
NumPy made (a transpose, a join of weights) is copied once here, and the copy stays as long as the array does, or until
memory is short.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

from ..._arrays import aligned_copy
from ..core import device as _device
from ..core import jax_internals
from .host_memory import free_memory

LEAST = 100 << 10  # bytes from which a copy is worth keeping
MOST = 1 << 29  # bytes of copies that are kept

_copies: dict[int, tuple[weakref.ref, Any]] = {}  # by the array's id
_kept = [0]
_lock = threading.RLock()  # a reference may end while it is held


def for_program(array):
    """The array, or a copy that a program of the CPU's reads where it is.

    An array that has a weak reference is never written to (`Storage.own_memory`), so a copy stays right.
    """
    if array.__class__ is not np.ndarray or array.nbytes < LEAST:
        return array
    if array.flags.c_contiguous and not array.__array_interface__["data"][0] % 64:
        return array
    known = _copies.get(id(array))
    if known is not None and known[0]() is array:
        return known[1]
    copy = _device.put(aligned_copy(array), _device.CPU)
    key, nbytes = id(array), array.nbytes

    def forget(reference):
        with _lock:
            if (found := _copies.get(key)) is not None and found[0] is reference:
                del _copies[key]
                _kept[0] -= nbytes

    with _lock:
        if _kept[0] + nbytes <= MOST and key not in _copies:
            _copies[key] = weakref.ref(array, forget), copy
            _kept[0] += nbytes
    return copy


def for_programs(arrays, device) -> list:
    """`for_program` of each of the arrays that a program on a device takes."""
    if device is not _device.CPU:
        return arrays
    return [for_program(a) if a.__class__ is np.ndarray else a for a in arrays]


def forget() -> None:
    """Lets go of all copies: memory is short."""
    with _lock:
        _copies.clear()
        _kept[0] = 0
    jax_internals.collect_garbage()


free_memory.kept.append(forget)
