"""Vectorized samplers: many values by one compiled XLA program over blocks of random words."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ..core import device as _device
from ..core.jax_internals import called_again
from ..core.jax_scope import scoped
from .arithmetic import F32, contracted, fma32

_BUCKETS = (512, 8192, 65536, 1 << 18)  # words per program: one compilation each, whatever is asked for
CHUNK = 65536  # what stays in the cache
_FEW = 8192  # words below which a program costs more than its arithmetic
_IN_FLIGHT = 2  # blocks the host draws ahead of the program


class BlockSampler:
    """A float32 sampler: a function of groups of 32-bit words, compiled.

    PyTorch fuses multiply-adds, and XLA's CPU compiler contracts ``a * b + c`` to the same
    instruction, but promises nothing. So each new program is tried on fixed words against NumPy with
    exact arithmetic; if it differs, the exact arithmetic is compiled in its stead.

    Args:
        function: ``function(xp, fma, words, *scalars)`` gives for each 16 words eight values and eight
            more, as two arrays of rows of eight (joined on the host: XLA would compute twice).
        probe: scalars for the trial.
        few: the same in C, ``few(words, count, *scalars, out)`` with addresses, for calls that cost more
            than their arithmetic. It is tried in the same way.
    """

    def __init__(self, function: Callable, probe: tuple[float, ...], few: Callable | None = None):
        self._function = function
        self._probe = tuple(F32.type(p) for p in probe)
        self._program = functools.cache(self._compile)
        self._few = few
        self.is_few_exact = functools.cache(self._try_few)

    def _trial(self, count):
        """Fixed words and what exact arithmetic makes of them."""
        words = np.arange(count, dtype=np.uint32) * np.uint32(2654435761)
        return words, self._function(np, functools.partial(fma32, np), words, *self._probe)

    def _try_few(self):
        if self._few is None:
            return False
        words, expected = self._trial(_FEW)
        out = np.zeros((_FEW // 16, 2, 8), F32)
        self._few(words.ctypes.data, words.size, *map(float, self._probe), out.ctypes.data)
        return np.array_equal(out, np.stack(expected, 1))

    @scoped
    def _compile(self, bucket):
        host = jax.sharding.SingleDeviceSharding(jax.devices("cpu")[0])
        words, expected = self._trial(bucket)
        for fma in (contracted, fma32):
            program = called_again(jax.jit(
                functools.partial(self._function, jnp, functools.partial(fma, jnp)),
                in_shardings=host, out_shardings=host,
            ))
            found = program(words, *self._probe)
            if all(map(np.array_equal, found, expected)):
                break
        return scoped(program)

    def fill(self, out: np.ndarray, draw: Callable, scalars) -> None:
        """Fills ``out``, of whole groups of 16; ``draw(start, stop)`` gives the words for a part."""
        scalars = tuple(F32.type(s) for s in scalars)
        if out.size <= _FEW and self.is_few_exact():
            words = draw(0, out.size)
            self._few(words.ctypes.data, words.size, *map(float, scalars), out.ctypes.data)
            return
        if _device.forked[0] and self.is_few_exact():  # without XLA
            for start in range(0, out.size, _FEW):
                words = draw(start, min(start + _FEW, out.size))
                self._few(words.ctypes.data, words.size, *map(float, scalars), out[start:].ctypes.data)
            return
        groups = out.reshape(-1, 2, 8)
        pending: deque = deque()

        def collect():
            rows, first, second = pending.popleft()
            rows[:, 0] = np.asarray(first)[: len(rows)]
            rows[:, 1] = np.asarray(second)[: len(rows)]

        step = _BUCKETS[-1]
        for start in range(0, out.size, step):
            rows = groups[start // 16 : (start + step) // 16]
            words = draw(start, start + 16 * len(rows))
            bucket = next(b for b in _BUCKETS if b >= words.size)
            if words.size < bucket:
                padded = np.zeros(bucket, np.uint32)
                padded[: words.size] = words
                words = padded
            pending.append((rows, *self._program(bucket)(words, *scalars)))
            if len(pending) > _IN_FLIGHT:
                collect()
        while pending:
            collect()


def buffer(count: int, dtype) -> np.ndarray:
    """An uninitialised array, aligned so that JAX can take it over without a copy."""
    dtype = np.dtype(dtype)
    if count < 1024:
        return np.empty(count, dtype)
    memory = np.empty(count * dtype.itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + count * dtype.itemsize].view(dtype)
