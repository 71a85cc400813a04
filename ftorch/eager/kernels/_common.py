"""What kernels share: dimension wrapping, precision of intermediate results, error texts."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from ..core.dtype import dtype as Dtype
from ..core.dtype import finfo, float32, from_numpy, iinfo, promote_types
from ..core.errors import size_mismatch
from ..core.geometry import Size, channels_last_stride, geometry, is_channels_last, pointwise_stride

Array = jax.Array

_OPMATH = {
    np.dtype(np.float16): np.dtype(np.float32),
    np.dtype(ml_dtypes.bfloat16): np.dtype(np.float32),
}


def opmath(dtype) -> np.dtype:
    """The dtype in which PyTorch computes intermediate results of ``dtype``."""
    dtype = np.dtype(dtype)
    return _OPMATH.get(dtype, dtype)


def product(a: Array, b: Array) -> Array:
    """``a @ b``, as precisely as JAX's setting says, which is that of `set_float32_matmul_precision`."""
    return jnp.matmul(a, b)


# Numbers beyond what these dtypes have become the nearest one; nan stays nan.
_BOUNDED = {
    np.dtype(ml_dtypes.float8_e4m3fn): lambda x: jnp.clip(x, -448, 448),
    np.dtype(ml_dtypes.float8_e8m0fnu): lambda x: jnp.maximum(jnp.abs(x), np.float32(2.0**-127)),  # powers of two
}


def converted(x, dtype):
    """``x.astype(dtype)`` as PyTorch's CPU converts, for booleans and numbers out of range.

    XLA makes a choice of the product of a converted boolean and a number, so that no mask would let
    a nan or an infinity through: 0 * nan were 0.
    """
    if x.dtype == np.bool_ and jnp.issubdtype(dtype, jnp.inexact):
        return jnp.where(x, np.ones((), dtype), np.zeros((), dtype))
    if jnp.issubdtype(x.dtype, jnp.floating) and jnp.issubdtype(dtype, jnp.integer):
        return _truncated(x, np.dtype(dtype))
    if dtype in _BOUNDED:
        return _BOUNDED[np.dtype(dtype)](x.astype(np.float32)).astype(dtype)
    return x.astype(dtype)


def filled(size, value, dtype):
    """An array of one number, as `converted` has it."""
    if np.dtype(dtype) in _BOUNDED:
        return jnp.full(size, converted(jnp.asarray(value, np.float32), dtype))
    return jnp.full(size, value, dtype)


# What x86 converts floating-point numbers to first; narrower integers are the low bits of that.
_VIA = {"uint8": np.int64, "int64": np.int64, "uint32": np.int64, "uint64": np.int64}


def _truncated(x, dtype):
    """Floating-point numbers as integers: what does not fit (nan, too) is the least integer of 32 or 64
    bits, of which narrower dtypes take the low bits. XLA would take the nearest integer that fits."""
    x = up(x)
    via = np.dtype(_VIA.get(dtype.name, np.int32))
    if dtype == np.uint64:
        half = np.asarray(2.0**63, x.dtype)
        low, high = (_truncated(v, np.dtype(np.int64)).astype(dtype) for v in (x, x - half))
        return jnp.where(x >= half, high ^ np.uint64(1 << 63), low)
    limit = 2.0 ** (8 * via.itemsize - 1)
    fits = (x >= -limit) & (x < limit)
    return jnp.where(fits, x.astype(via), np.asarray(np.iinfo(via).min, via)).astype(dtype)


def up(x):
    """``x`` in the precision of intermediate results."""
    return x.astype(opmath(x.dtype))


def cast(x, dtype):
    """``x`` in another dtype; of complex numbers in a real one their real part, of which JAX would warn."""
    is_cut = is_complex(x) and not np.issubdtype(dtype, np.complexfloating) and dtype != np.bool_
    return (x.real if is_cut else x).astype(dtype)


def as_common(a, b):
    """Both in PyTorch's common dtype (dimensions carry no weight)."""
    common = promote_types(from_numpy(a.dtype), from_numpy(b.dtype)).numpy
    return a.astype(common), b.astype(common)


def difference(a, b):
    """``a - b`` in the common dtype; of integers as integers, which wrap around.

    Raises:
        RuntimeError: for booleans.
    """
    refuse_bool_difference(a.dtype == np.bool_, b.dtype == np.bool_)
    a, b = as_common(a, b)
    return a - b


def refuse_cast(have, want):
    """Raises PyTorch's error for a result in place, or into ``out``, whose dtype is of a higher category."""
    raise RuntimeError(f"result type {dtype_name(have)} can't be cast to the desired output type {dtype_name(want)}")


def refuse_bool_difference(*is_bool):
    """Raises PyTorch's error if any operand of a subtraction is boolean."""
    if all(is_bool):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if any(is_bool):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        )


def is_complex(x) -> bool:
    return jnp.issubdtype(x.dtype, jnp.complexfloating)


def is_floating(x) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


def is_integral(x) -> bool:
    """Integer or bool, as PyTorch's isIntegralType(includeBool=true)."""
    return jnp.issubdtype(x.dtype, jnp.integer) or x.dtype == jnp.bool_


def wrap_dim(dim: int, ndim: int) -> int:
    """A dimension counted from the front.

    Raises:
        IndexError: in PyTorch's words; a 0-d tensor takes -1 and 0.
    """
    extent = max(ndim, 1)
    if not -extent <= dim < extent:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-extent}, {extent - 1}], but got "
            f"{dim})"
        )
    return dim + extent if dim < 0 else dim


def wrap_dims(dims, ndim: int, *, empty_is_all: bool = True) -> tuple[int, ...]:
    """Several distinct dimensions counted from the front; None (and ``()``) means all of them."""
    if dims is None or (empty_is_all and isinstance(dims, (tuple, list)) and not len(dims)):
        return tuple(range(ndim))
    if isinstance(dims, int):
        dims = (dims,)
    if ndim > 64:
        raise RuntimeError("only tensors with up to 64 dims are supported")
    wrapped = tuple(wrap_dim(d, ndim) for d in dims)
    for i, d in enumerate(wrapped):
        if d in wrapped[:i]:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return tuple(d for d in wrapped if d < ndim)


def default_float() -> np.dtype:
    """The dtype that integers become where a result is a fraction."""
    from ..core.dtype import get_default_dtype

    return get_default_dtype().numpy


def dtype_name(dtype) -> str:
    """PyTorch's scalar type name, as error messages have it: ``Float``, ``Long``."""
    from ..core.dtype import from_numpy

    return from_numpy(dtype).scalar_name


def broadcast_shapes(*shapes) -> tuple[int, ...]:
    """The shape that several shapes broadcast to.

    Raises:
        RuntimeError: in PyTorch's words.
    """
    result: tuple[int, ...] = ()
    for shape in shapes:
        ndim = max(len(result), len(shape))
        a, b = ((1,) * (ndim - len(s)) + tuple(s) for s in (result, shape))
        for d in reversed(range(ndim)):
            if a[d] != b[d] and 1 not in (a[d], b[d]):
                raise RuntimeError(size_mismatch(a[d], b[d], d))
        result = tuple(m if n == 1 else n for m, n in zip(a, b, strict=True))
    return result


def check_fits(value, dtype: Dtype, halves: bool = False) -> None:
    """Raises PyTorch's error where a number has no counterpart in a dtype.

    Unsigned types take negative integers modulo their size, half precision takes everything unless
    ``halves``.
    """
    if dtype.category == 0 or dtype.is_complex:
        return
    if isinstance(value, complex):
        if value.imag != 0:
            raise _overflow(dtype)
        value = value.real
    if dtype.is_floating_point:
        checked = halves or dtype is float32
        if checked and math.isfinite(value) and abs(value) > _greatest(dtype):
            raise _overflow(dtype)
        return
    lowest, highest = _limits(dtype)
    if value < 0 and isinstance(value, float) and not dtype.is_signed:
        raise _overflow(dtype)
    if not lowest <= value <= highest:
        raise _overflow(dtype)


@functools.cache
def _greatest(dtype: Dtype):
    return finfo(dtype).max


@functools.cache
def _limits(dtype: Dtype):
    limits = iinfo(dtype)
    return limits.min if dtype.is_signed else -limits.max, limits.max


def _overflow(dtype: Dtype):
    return RuntimeError(f"value cannot be converted to type {dtype.cpp_name} without overflow")


def fused_multiply_add(a, b, c):
    """``a * b + c`` rounded once, as the processor's instruction in PyTorch's loop does.

    Numbers of a narrower type have room in float64; of float64 the product's error (Dekker's) is added last.
    """
    if a.dtype in (np.float32, np.float16, jnp.bfloat16):
        wide = np.float64
        return (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(a.dtype)
    if a.dtype != np.float64:
        return a * b + c

    def split(x):
        big = x * 134217729.0  # 2**27 + 1: Veltkamp's
        high = big - (big - x)
        return high, x - high

    product = a * b
    (a1, a2), (b1, b2) = split(a), split(b)
    error = a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)
    total = product + c
    back = total - product
    return total + (((product - (total - back)) + (c - back)) + error)


def from_both_ends(start, end, steps):
    """Evenly spaced numbers: the first half counted from the start, the second from the end."""
    if steps == 1:
        return start[None]
    # The barrier keeps XLA from multiplying with a rounded reciprocal.
    step = (end - start) / lax.optimization_barrier(jnp.asarray(max(steps - 1, 1), start.dtype))
    index = jnp.arange(steps, dtype=start.real.dtype)  # int64 would turn float32 into float64
    ahead, behind = fused_multiply_add(step, index, start), fused_multiply_add(-step, steps - 1 - index, end)
    return jnp.where(jnp.arange(steps) < steps // 2, ahead, behind)


# --- how strides of results follow ---------------------------------------------------------


def as_images(inputs, static, shapes):
    """Images whose channels lie together where the first input's do."""
    last = is_channels_last(inputs[0])
    return [channels_last_stride(shape) if last and len(shape) == inputs[0].ndim else None for shape in shapes]


def as_lines(inputs, static, shapes):
    """Lines (N, C, L) as images of one row, which PyTorch makes of them: channels lie together where the first input's do."""
    g = inputs[0]
    if g.ndim != 3:
        return [None] * len(shapes)
    (n, c, length), (s, t, u) = g.shape, g.stride
    last = is_channels_last(geometry(Size((n, c, 1, length)), g.dtype, g.device, (s, t, length * u, u)))
    return [(c * shape[2], 1, c) if last else None for shape in shapes]


def as_volumes(inputs, static, shapes):
    """Volumes whose channels lie together where the first input's do, one alone as well."""
    g = inputs[0]
    if g.ndim != 4:
        return as_images(inputs, static, shapes)
    last = not g.is_contiguous and g.stride == channels_last_stride((1, *g.shape))[1:]
    return [channels_last_stride((1, *shape))[1:] if last else None for shape in shapes]


def as_count(count, dtype, least=0):
    """A number of elements, at least some, as an array to calculate with; of symbolic sizes, which are no numbers
    (`ftorch.export`), too."""
    if isinstance(count, (int, float)):
        return np.asarray(max(count, least), dtype)
    return jnp.maximum(jnp.asarray(count), least).astype(dtype)


def unbiased_factor(count, dtype):
    """What turns the mean square of a number of elements into their variance's unbiased estimate."""
    if isinstance(count, int):
        return np.asarray(count / max(count - 1, 1), dtype)
    return as_count(count, dtype) / as_count(count - 1, dtype, 1)


def in_order(inputs, static, shapes):
    """Those of an elementwise call of the first input, or of a part of it that has the result's sizes."""
    g = inputs[0]
    parts = [geometry(Size(shape), g.dtype, g.device, g.stride) for shape in shapes if len(shape) == g.ndim]
    return [pointwise_stride(part.shape, [part]) for part in parts] or [None] * len(shapes)


as_images.is_basic = as_lines.is_basic = as_volumes.is_basic = in_order.is_basic = True  # type: ignore[attr-defined]
