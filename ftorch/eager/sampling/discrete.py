"""Discrete distributions: integers, permutations, coins, and draws by given weights."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from . import small_draws
from .arithmetic import F32, F64, locked, through_libm
from .uniform import exponential

_I64 = np.dtype(np.int64)
# 2 to this many digits is the largest integer up to which a floating-point dtype has all of them.
DIGITS = {
    np.dtype(np.float16): 11, np.dtype(ml_dtypes.bfloat16): 8, F32: 24, F64: 53,
}


def _of_integers(values, dtype):
    """Integers in ``dtype`` as PyTorch converts them: to halves by way of float32."""
    return values.astype(F32).astype(dtype) if dtype in DIGITS and dtype != F64 else values.astype(dtype)


@locked
def randint(generator, shape, low: int, high: int, dtype=_I64) -> np.ndarray:
    """Integers of [low, high), in any dtype. 32 random bits are spent on a range below 2^28."""
    dtype, count, span = np.dtype(dtype), math.prod(shape), high - low
    if span < 1 << 28:
        if (
            dtype is _I64
            and (drawn := small_draws.integers(generator, shape, low, span)) is not None
        ):
            return drawn
        words = generator.words(count)
        words -= words // np.uint32(span) * np.uint32(span)  # NumPy's % is not vectorised
        values = words.astype(_I64)
    elif span < 1 << 64:
        values = (generator.long_words(count) % np.uint64(span)).view(_I64)
    else:
        low, values = 0, generator.long_words(count).view(_I64)  # all of int64, as drawn
    if low:
        values += np.int64(low)
    return _of_integers(values, dtype).reshape(shape)


@locked
def random_(generator, shape, dtype=_I64) -> np.ndarray:
    """Integers from 0 to the dtype's largest (the largest that it counts up to, for floats)."""
    dtype, count = np.dtype(dtype), math.prod(shape)
    words = generator.long_words(count) if dtype in (_I64, F64) else generator.words(count)
    if dtype == np.bool_:
        return (words & np.uint32(1)).astype(np.bool_).reshape(shape)
    if dtype in DIGITS:
        return _of_integers(words % words.dtype.type((1 << DIGITS[dtype]) + 1), dtype).reshape(shape)
    return (words & words.dtype.type(np.iinfo(dtype).max)).astype(dtype).reshape(shape)


@locked
def randperm(generator, count: int, dtype=_I64) -> np.ndarray:
    """A permutation of range(count): Fisher and Yates', from the front."""
    if count < 2:
        return np.arange(count).astype(dtype)
    if dtype == _I64 and (drawn := small_draws.permutation(generator, count)) is not None:
        return drawn
    last = count - 1
    partners = generator.words(last) % np.arange(count, 1, -1, np.uint32)
    if count < 512:
        values = list(range(count))
        for i, distance in enumerate(partners.tolist()):
            j = i + distance
            values[i], values[j] = values[j], values[i]
        return np.array(values, _I64).astype(dtype)
    values = _swapped(partners.astype(_I64) + np.arange(last))
    return values if values.dtype == dtype else values.astype(dtype)


def _swapped(partners):
    """``range(n)`` after, for each i in order, position i was swapped with ``partners[i] >= i``.

    What stands at position p just before step i >= p is what stood at t just before step t, where t is
    the last earlier step with partner p; without such a step it is p itself. So each result is the end
    of a chain of steps, and all chains are followed at once, by doubling.
    """
    steps = partners.size
    step = _stable_argsort(partners)
    partner = partners[step]
    repeated = partner[1:] == partner[:-1]
    before = np.full(steps, -1)  # the last step before this one with the same partner
    before[step[1:][repeated]] = step[:-1][repeated]
    chain = np.arange(steps + 1)  # the last step before step p whose partner is position p, or p
    chain[partner] = step  # of equal partners, the last is written last
    itself = np.nonzero(partners == np.arange(steps))[0]
    chain[itself] = np.where(before[itself] < 0, itself, before[itself])
    further = chain[chain]
    while not np.array_equal(further, chain):
        chain = further
        further = chain[chain]
    return np.append(np.where(before < 0, partners, chain[before]), chain[-1])


def _stable_argsort(keys):
    """NumPy's radix sort, which is for 16 bits, applied to each half of 32-bit keys."""
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    if keys.size >= 1 << 16:
        order = order[np.argsort((keys[order] >> 16).astype(np.uint16), kind="stable")]
    return order


@locked
def bernoulli(generator, shape, p: float, dtype=F32) -> np.ndarray:
    """Ones with probability ``p``: 53 random bits per value, whatever the dtype."""
    if dtype == F32 and (drawn := small_draws.coins(generator, shape, p)) is not None:
        return drawn
    # k * 2^-53 < p is the same as k < ceil(p * 2^53), on integers.
    below = np.uint64(math.ceil(p * 2.0**53))
    values = generator.long_words(math.prod(shape)) & np.uint64(2**53 - 1)
    return (values < below).astype(dtype).reshape(shape)


@locked
def bernoulli_tensor(generator, p: np.ndarray, dtype=None) -> np.ndarray:
    """Ones with the probabilities given: 24 random bits per value, 53 for float64 ones."""
    draw = generator.uniform64 if p.dtype == F64 else generator.uniform32
    u = draw(p.size).reshape(p.shape)
    return (u < p.astype(u.dtype)).astype(dtype or p.dtype)


@locked
def geometric(generator, shape, p: float, dtype=F32) -> np.ndarray:
    """The number of trials up to the first success: ``ceil(log(u) / log(1 - p))``."""
    log_failure = math.log1p(-p)
    u = generator.uniform64(math.prod(shape))
    with np.errstate(invalid="ignore"):
        values = through_libm(
            lambda m, u: m.log(u), lambda v: np.ceil(v / log_failure), u,
            F64 if np.dtype(dtype).kind in "iu" else np.dtype(dtype),
        )
        return values.astype(dtype).reshape(shape)


@locked
def multinomial(generator, weights: np.ndarray, count: int, replacement=False,
                transposed=False) -> np.ndarray:
    """Indices drawn by weight along the last axis, as int64.

    Args:
        transposed: whether the weights stand in memory in the reverse order of dimensions.
    """
    if not replacement or count == 1:
        shape = weights.shape[::-1] if transposed else weights.shape
        clocks = exponential(generator, shape, 1.0, weights.dtype)
        # The largest of weight / Exp(1) is drawn in proportion to the weights; so are the next ones.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            clocks = weights / (clocks.T if transposed else clocks)
        if count == 1:
            return np.argmax(clocks, -1, keepdims=True)
        return np.argsort(-clocks, -1, kind="stable")[..., :count]
    dtype, rows = weights.dtype, weights.reshape(-1, weights.shape[-1])
    result = np.empty((len(rows), count), _I64)
    for row, drawn in zip(rows, result, strict=True):
        cumulative = np.add.accumulate(row, dtype=None if dtype == F64 else F32)  # one by one
        cumulative = cumulative / cumulative[-1]
        cumulative[-1] = 1
        drawn[:] = np.searchsorted(cumulative.astype(F64), generator.uniform64(count))
    return result.reshape(*weights.shape[:-1], count)
