"""Normal numbers: Box and Muller's transform, in the two ways that PyTorch does it."""

from __future__ import annotations

import math

import numpy as np

from .. import native
from . import small_draws
from .arithmetic import F32, F64, cast, fma64, libm, locked
from .random_words import BlockSampler, buffer

_f32 = F32.type


# Cephes' logf, sinf and cosf in the order of operations of PyTorch's vector code. Anything else
# differs in the last bit of one value in seven.


def _log(xp, fma, x):
    """Natural logarithm of float32 numbers in (0, 1]."""
    bits = x.view(np.int32)
    exponent = ((bits >> 23) - 126).astype(F32)
    x = ((bits & 0x7FFFFF) | 0x3F000000).view(F32)
    small = x < _f32(0.707106781186547524)
    exponent = exponent - small.astype(F32)
    x = (x - _f32(1)) + xp.where(small, x, _f32(0))
    square = x * x
    y = xp.full_like(x, _f32(7.0376836292e-2))
    for coefficient in (
        -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
    ):
        y = fma(y, x, _f32(coefficient))
    y = fma(y * x, square, exponent * _f32(-2.12194440e-4))
    y = y - square * _f32(0.5)
    return fma(exponent, _f32(0.693359375), x + y)


def _sin_cos(xp, fma, x):
    """Sine and cosine of float32 numbers in [0, 2 pi]."""
    octant = ((x * _f32(1.27323954473516)).astype(np.int32) + 1) & ~1
    turns = octant.astype(F32)
    for part_of_pi in (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8):
        x = fma(turns, _f32(part_of_pi), x)
    square = x * x
    cos = _horner(fma, square, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
    cos = fma(square, square * cos, -(square * _f32(0.5))) + _f32(1)
    sin = _horner(fma, square, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
    sin = fma(x, square * sin, x)
    swap, negative_sin, negative_cos = octant & 2 != 0, octant & 4 != 0, (octant + 2) & 4 != 0
    sin, cos = xp.where(swap, cos, sin), xp.where(swap, sin, cos)
    return xp.where(negative_sin, -sin, sin), xp.where(negative_cos, -cos, cos)


def _horner(fma, x, a, b, c):
    return fma(fma(x, _f32(a), _f32(b)), x, _f32(c))


def _float32_normal(xp, fma, words, mean, std):
    """Of each 16 words, eight radii then eight angles, to eight cosines then eight sines."""
    u = (words & np.uint32(0xFFFFFF)).astype(np.int32).astype(F32) * _f32(2**-24)
    u = u.reshape(-1, 2, 8)
    radius = xp.sqrt(_f32(-2) * _log(xp, fma, _f32(1) - u[:, 0]))
    # The idle minimum keeps a compiler from contracting this product with the sum that follows.
    sin, cos = _sin_cos(xp, fma, xp.minimum(_f32(2 * math.pi) * u[:, 1], _f32(7)))
    return fma(radius * cos, std, mean), fma(radius * sin, std, mean)


_normal32 = BlockSampler(_float32_normal, probe=(0.1, 0.7), few=native.function("ftorch_normal", "pnffp"))


@locked
def normal(generator, shape, mean=0.0, std=1.0, dtype=F32, contiguous=True) -> np.ndarray:
    """Normal numbers (``randn``, ``normal_``). ``std`` is that of a complex number as a whole.

    Args:
        contiguous: whether the tensor to be filled is; PyTorch fills others one by one, which gives
            other numbers.
    """
    dtype, count = np.dtype(dtype), math.prod(shape)
    if dtype.kind == "c":
        part = F32 if dtype == np.complex64 else F64
        parts = normal(generator, (*shape, 2), mean, std / math.sqrt(2), part, contiguous)
        return parts.view(dtype).reshape(shape)
    drawn = small_draws.normal(
        generator, shape, mean, std, dtype, contiguous, _normal32.is_few_exact
    )
    if drawn is not None:
        return drawn
    if count < 16 or not contiguous:
        return cast(fma64(_one_by_one(generator, count), std, mean), dtype).reshape(shape)
    if dtype == F64:
        return _float64_normal(generator, count, mean, std).reshape(shape)
    return _float32_blocks(generator, count, mean, std, skips=dtype == F32)[:count].astype(
        dtype, copy=False
    ).reshape(shape)


def _float32_blocks(generator, count, mean, std, skips):
    # What is left over from the groups of 16 is not made into a short group: the last 16 values are
    # drawn anew, after all the others. Halves draw nothing for the rest before that.
    whole = count // 16 * 16
    values = buffer(-(-count // 16) * 16, F32)

    def draw(start, stop):
        if stop <= whole:
            return generator.words(stop - start)
        words = generator.words(whole - start)
        generator.words(count - whole if skips else 0)
        return np.concatenate([words, generator.words(16)])

    _normal32.fill(values, draw, (mean, std))
    if whole < count:
        values[count - 16 : count] = values[whole:].copy()
    return values


def _float64_normal(generator, count, mean, std):
    u = generator.uniform64(count)
    whole = count // 16 * 16
    values = buffer(count, F64)
    values[:whole] = _float64_blocks(u[:whole], mean, std)
    if whole < count:
        values[-16:] = _float64_blocks(generator.uniform64(16), mean, std)
    return values


def _float64_blocks(u, mean, std):
    u = u.reshape(-1, 2, 8)
    radius = np.sqrt(-2 * libm.log(1 - u[:, 0]))
    angle = 2 * math.pi * u[:, 1]
    # The complex exponential of an imaginary number is the C library's cosine and sine.
    direction = np.zeros(angle.shape, np.complex128)
    direction.imag = angle
    np.exp(direction, out=direction)
    values = np.stack([radius * direction.real, radius * direction.imag], 1)
    return fma64(values, std, mean).reshape(-1)


def _one_by_one(generator, count):
    """Standard normals as ``at::normal_distribution<double>`` draws them: two at a time.

    The generator keeps the second of a pair for the next call, of whatever dtype.
    """
    values = [] if generator.cached_normal is None or not count else [generator.cached_normal]
    pairs = (count - len(values) + 1) // 2
    u = generator.few_uniforms(2 * pairs)
    for u1, u2 in zip(u[0::2], u[1::2], strict=True):
        radius, angle = math.sqrt(-2.0 * math.log1p(-u2)), 2.0 * math.pi * u1
        values += radius * math.cos(angle), radius * math.sin(angle)
    if count:
        generator.cached_normal = values[count] if len(values) > count else None
    return np.array(values[:count], F64)


@locked
def log_normal(generator, shape, mean=1.0, std=2.0, dtype=F32) -> np.ndarray:
    """The exponential of a normal number."""
    values = fma64(_one_by_one(generator, math.prod(shape)), std, mean)
    return cast(libm.exp(values), np.dtype(dtype)).reshape(shape)
