"""NumPy arrays that JAX can use where they are. This module does not import the tensor engine."""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import as_strided

_ALIGNMENT = 64  # what XLA wants
_COPIED_AT_ONCE = 100 << 10  # bytes up to which JAX copies an array faster than one is aligned


def aligned_empty(shape, dtype=np.uint8) -> np.ndarray:
    """An uninitialised array, which ``jax.device_put`` shares instead of copying."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    buffer = np.empty(size + _ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % _ALIGNMENT
    return buffer[start : start + size].view(dtype).reshape(shape)


def is_aligned_memory(base) -> bool:
    """Whether this is the ``base`` of an array of `aligned_empty` (or of a view of it)."""
    return base.__class__ is np.ndarray and base.dtype == np.uint8 and base.ndim == 1 and base.flags.owndata


def filled(shape, value, dtype) -> np.ndarray:
    """``np.full``, in memory that JAX shares if it is large."""
    out = np.empty(shape, dtype)
    if out.nbytes > _COPIED_AT_ONCE:
        out = aligned_empty(shape, dtype)
    out.fill(value)
    return out


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """A copy in C order. What JAX would copy again in another thread is aligned for it to use."""
    if array.nbytes <= _COPIED_AT_ONCE:
        return np.array(array, order="C")
    out = aligned_empty(array.shape, array.dtype)
    out[...] = array
    return out


def aligned_stack(arrays) -> np.ndarray:
    """``np.stack`` of arrays of one shape and dtype."""
    first = arrays[0]
    out = aligned_empty((len(arrays), *first.shape), first.dtype)
    if first.ndim == 0:
        out[:] = arrays
    else:
        np.stack(arrays, out=out)
    return out


def strided_view(x: np.ndarray, shape, strides, writeable: bool = False) -> np.ndarray:
    """NumPy's ``as_strided``, of numbers of a byte, too: it takes float8_e5m2 for a dtype of its own that does not exist."""
    if x.dtype.kind == "f" and x.dtype.itemsize == 1:
        return as_strided(x.view(np.uint8), shape, strides, writeable=writeable).view(x.dtype)
    return as_strided(x, shape, strides, writeable=writeable)
