"""Arithmetic that agrees with PyTorch's C++ to the last bit: fused multiply-adds, the C library."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import numpy as np

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


_MOST_DIMENSIONS = 64  # of NumPy's arrays


def locked(sampler):
    """The sampler, holding the lock of its first argument, the generator."""

    @functools.wraps(sampler)
    def call(generator, *args, **kwargs):
        with generator.lock:
            if isinstance(args[0], tuple) and len(args[0]) > _MOST_DIMENSIONS:  # a shape
                flat = sampler(generator, (math.prod(args[0]),), *args[1:], **kwargs)
                return jax.numpy.asarray(flat).reshape(args[0])
            return sampler(generator, *args, **kwargs)

    return call


def cast(values: np.ndarray, dtype) -> np.ndarray:
    """float64 to ``dtype`` as PyTorch rounds: to float16 and bfloat16 by way of float32."""
    if dtype == F64:
        return values
    with np.errstate(over="ignore"):
        return values.astype(F32).astype(dtype, copy=False)


# --- fused multiply-adds ---------------------------------------------------------------


def fma32(xp, a, b, c):
    """``a * b + c`` of float32 with one rounding, whatever the compiler does with it.

    The product is exact in float64, so only a sum that falls on the midpoint of two float32 numbers
    may round twice. There the sum is moved a little towards its rounding error first.

    Args:
        xp: NumPy or ``jax.numpy``.
    """
    product = a.astype(F64) * xp.asarray(b, F64)
    addend = xp.asarray(c, F64)
    total = product + addend
    bits = total.view(np.int64)
    midpoint = (bits & 0x1FFFFFFF) == 0x10000000
    if xp is np and not midpoint.any():
        return total.astype(F32)
    rest = total - product
    error = (product - (total - rest)) + (addend - rest)
    twice = midpoint & (error != 0)
    away = xp.where((error > 0) == (total > 0), 1, -1)  # from zero, or towards it
    return xp.where(twice, bits + away, bits).view(F64).astype(F32)


def contracted(xp, a, b, c):
    """``a * b + c`` in float32, for compilers that make it one instruction."""
    return a * b + c


def fma64(a, b: float, c: float) -> np.ndarray:
    """``a * b + c`` of float64 with one rounding (Boldo and Melquiond's, barring overflow)."""
    if c == 0 or b == 1 or not (math.isfinite(b) and math.isfinite(c)):
        return a * b + c  # one of the two operations is exact
    product, low = _two_product(a, b)
    low_sum, low_error = _two_sum(c, low)
    high, middle = _two_sum(product, low_sum)
    odd, error = _two_sum(middle, low_error)
    even = odd.view(np.int64) & 1 == 0
    moved = np.nextafter(odd, np.where(error > 0, np.inf, -np.inf))
    return high + np.where((error != 0) & even, moved, odd)


def _two_product(a, b):
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    error = (a_high * b_high - product) + a_high * b_low + a_low * b_high + a_low * b_low
    return product, error


def _split(x):
    scaled = 134217729.0 * x
    high = scaled - (scaled - x)
    return high, x - high


def _two_sum(a, b):
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


# --- the C library ---------------------------------------------------------------------


class _Libm:
    """The C library's functions, which NumPy's and XLA's vectorised ones miss by an ulp or two."""

    @staticmethod
    def _map(function, x):
        return np.fromiter(map(function, x.ravel().tolist()), F64, x.size).reshape(x.shape)

    def __getattr__(self, name):
        return functools.partial(self._map, getattr(math, name))

    def log(self, x):
        return self._map(lambda v: math.log(v) if v else -math.inf, x)


libm = _Libm()


def through_libm(inner: Callable, finish: Callable, u: np.ndarray, dtype) -> np.ndarray:
    """``finish(inner(libm, u))``, cast to ``dtype``, for a monotone ``finish``.

    A result that is rounded to less than float64 is nearly always the same when NumPy's own functions
    compute ``inner``. Where an error of a few ulps could show, the C library is asked.
    """

    def finished(values):
        return cast(finish(values), dtype)

    if dtype == F64 or u.size < 16:
        return finished(inner(libm, u))
    with np.errstate(all="ignore"):
        values = inner(np, u)
        low, high = finished(values * (1 - 2.0**-48)), finished(values * (1 + 2.0**-48))
        doubtful = np.nonzero(~(low == high))[0]
    if doubtful.size:
        low[doubtful] = finished(inner(libm, u[doubtful]))
    return low
