"""Emulated dtypes, which JAX does not have: results are kept in others, with the precision that they have."""

from __future__ import annotations

import functools

import jax
import numpy as np

from ..core import dtype as _dtype

# What can be done with tensors of dtypes that have no arithmetic.
_OF_SHELLS = frozenset("empty empty_strided empty_like clone detach alias".split())


def stored_dtype(op, slots, tensors, casts):
    """The dtype without a JAX one of its own that the results have, or None."""
    asked = [s[1] for s in slots if s[0] == "v" and isinstance(s[1], _dtype.dtype)]
    given = [t._ftorch_geometry.dtype for t in tensors]
    for d in (*given, *asked):
        if d.is_shell and op.name not in _OF_SHELLS:
            raise NotImplementedError(f"\"copy_\" not implemented for '{d.scalar_name}'")
    if asked or casts:
        found = (*asked, *casts.values())[0]
        return found if found.stored else None
    if any(d.is_complex for d in given):  # complex32 and complex64 are the same to JAX
        common = functools.reduce(_dtype._promote, given)
        return common if common.stored else None
    if op.name == "complex" and given[0] is _dtype.float16:
        return _dtype.complex32
    return next((d for d in given if d.stored), None)


def dtype_of_result(numpy_dtype, stored):
    if stored is not None:
        if numpy_dtype == stored.numpy:
            return stored
        if stored is _dtype.complex32 and numpy_dtype == np.float32:
            return _dtype.float16
    return _dtype.from_numpy(numpy_dtype)


def as_stored(array, dtype):
    """An array in the dtype that stands in for a tensor's, with its precision."""
    array = array.astype(dtype.numpy)
    if dtype is _dtype.complex32:  # a cast there and back could be optimized away
        return jax.lax.complex(*(jax.lax.reduce_precision(p, 5, 10) for p in (array.real, array.imag)))
    return array


def in_stored_dtypes(fn, dtypes):
    """A kernel's function with results as they are stored."""

    def storing(*operands):
        results = fn(*operands)
        if isinstance(results, tuple):
            return tuple(map(as_stored, results, dtypes))
        return as_stored(results, dtypes[0])

    return storing
