"""Uniform numbers, and the distributions that are a function of one uniform number each."""

from __future__ import annotations

import functools
import math

import numpy as np

from .. import native
from . import small_draws
from .arithmetic import F32, F64, fma32, fma64, locked, through_libm
from .random_words import CHUNK, buffer


@locked
def uniform(generator, shape, low=0.0, high=1.0, dtype=F32) -> np.ndarray:
    """Uniform on [low, high): 24 random bits per value, 53 for float64 (``rand``, ``uniform_``).

    Complex numbers have two independent parts.
    """
    dtype, count = np.dtype(dtype), math.prod(shape)
    if dtype.kind == "c":
        parts = uniform(generator, (*shape, 2), low, high, _part(dtype))
        return parts.view(dtype).reshape(shape)
    if (drawn := small_draws.uniform(generator, shape, low, high, dtype)) is not None:
        return drawn
    if dtype == F64:
        values = fma64(generator.uniform64(count), high - low, low)
    else:
        values = _float32_uniform(generator, count, low, high).astype(dtype, copy=False)
    if dtype.itemsize < 4 or (low, high) != (0, 1):
        values[values == dtype.type(high)] = low  # rounding may reach the excluded bound
    return values.reshape(shape)


def _float32_uniform(generator, count, low, high):
    low, high = F32.type(low), F32.type(high)
    values = buffer(count, F32)
    in_c = (low != 0 or high != 1) and count >= _FEW and _is_exact()
    for start in range(0, count, CHUNK):  # in pieces that stay in the cache
        piece = values[start : start + CHUNK]
        words = generator.words(piece.size)
        if in_c:
            _spread(words.ctypes.data, words.size, float(low), float(high - low), piece.ctypes.data)
            continue
        words &= np.uint32(0xFFFFFF)
        np.multiply(words.view(np.int32), F32.type(2**-24), out=piece, casting="unsafe", dtype=F32)
        if low != 0 or high != 1:
            piece[:] = fma32(np, piece, high - low, low)
    return values


_FEW = 64
_spread = native.function("ftorch_uniform", "pnffp")


@functools.cache
def _is_exact():
    """Whether the loop in C does what NumPy does, bit for bit."""
    if _spread is None:
        return False
    words, out = np.arange(_FEW, dtype=np.uint32) * np.uint32(2654435761), np.zeros(_FEW, F32)
    low, width = F32.type(-0.1), F32.type(0.3)
    _spread(words.ctypes.data, words.size, float(low), float(width), out.ctypes.data)
    uniforms = (words & np.uint32(0xFFFFFF)).astype(F32) * F32.type(2**-24)
    return np.array_equal(out, fma32(np, uniforms, width, low))


def _part(dtype):
    return F32 if dtype == np.complex64 else F64


@locked
def exponential(generator, shape, rate=1.0, dtype=F32) -> np.ndarray:
    """Exponential with a rate: ``-log1p(-u) / rate``."""
    u = generator.uniform64(math.prod(shape))
    values = through_libm(lambda m, u: m.log1p(-u), lambda v: v * (-1.0 / rate), u, np.dtype(dtype))
    return values.reshape(shape)


@locked
def cauchy(generator, shape, median=0.0, sigma=1.0, dtype=F32) -> np.ndarray:
    """Cauchy: ``median + sigma * tan(pi * (u - 1/2))``."""
    u = generator.uniform64(math.prod(shape))
    values = through_libm(
        lambda m, u: m.tan(math.pi * (u - 0.5)), lambda v: fma64(v, sigma, median), u, np.dtype(dtype)
    )
    return values.reshape(shape)
