"""What kernels share: dimension wrapping, precision of intermediate results, error texts."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from ..dtype import dtype as Dtype
from ..dtype import finfo, float32, from_numpy, iinfo, promote_types

Array = jax.Array

_OPMATH = {
    np.dtype(np.float16): np.dtype(np.float32),
    np.dtype(ml_dtypes.bfloat16): np.dtype(np.float32),
}


def opmath(dtype) -> np.dtype:
    """The dtype in which PyTorch computes intermediate results of ``dtype``."""
    dtype = np.dtype(dtype)
    return _OPMATH.get(dtype, dtype)


def converted(x, dtype):
    """``x.astype(dtype)`` whose booleans are numbers to XLA, too.

    XLA makes a choice of the product of a converted boolean and a number, so that no mask would let
    a nan or an infinity through: 0 * nan were 0.
    """
    if x.dtype == np.bool_ and jnp.issubdtype(dtype, jnp.inexact):
        return jnp.where(x, np.ones((), dtype), np.zeros((), dtype))
    return x.astype(dtype)


def up(x):
    """``x`` in the precision of intermediate results."""
    return x.astype(opmath(x.dtype))


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
    wrapped = tuple(wrap_dim(d, ndim) for d in dims)
    for i, d in enumerate(wrapped):
        if d in wrapped[:i]:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return tuple(d for d in wrapped if d < ndim)


def default_float() -> np.dtype:
    """The dtype that integers become where a result is a fraction."""
    from ..dtype import get_default_dtype

    return get_default_dtype().numpy


def dtype_name(dtype) -> str:
    """PyTorch's scalar type name, as error messages have it: ``Float``, ``Long``."""
    from ..dtype import from_numpy

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
                raise RuntimeError(
                    f"The size of tensor a ({a[d]}) must match the size of tensor b ({b[d]}) at "
                    f"non-singleton dimension {d}"
                )
        result = tuple(m if n == 1 else n for m, n in zip(a, b, strict=True))
    return result


def check_fits(value, dtype: Dtype, halves: bool = False) -> None:
    """Raises PyTorch's error where a number has no counterpart in a dtype.

    Unsigned types take negative numbers modulo their size, half precision takes everything unless
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
        if checked and math.isfinite(value) and abs(value) > finfo(dtype).max:
            raise _overflow(dtype)
        return
    limits = iinfo(dtype)
    lowest = limits.min if dtype.is_signed else -limits.max
    if not lowest <= value <= limits.max:
        raise _overflow(dtype)


def _overflow(dtype: Dtype):
    return RuntimeError(f"value cannot be converted to type {dtype.cpp_name} without overflow")
