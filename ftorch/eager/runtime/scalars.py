"""Scalar operands of steps: their kinds, and how they are handed to kernels."""

from __future__ import annotations

import numpy as np

from ..core import jax_internals

INT, FLOAT, COMPLEX = "i", "f", "c"


def weak(scalar, kind):
    """A traced scalar that does not take part in JAX's promotion, like a Python number."""
    return jax_internals.weak_scalar(scalar, _WEAK_DTYPES[kind])


_WEAK_DTYPES = {
    INT: np.dtype(np.int64), FLOAT: np.dtype(np.float64), COMPLEX: np.dtype(np.complex128),
}
NUMPY_SCALARS = {INT: np.int64, FLOAT: np.float64, COMPLEX: np.complex128}


def packed(kinds, values):
    """Python numbers as NumPy's, which JAX takes without asking for their types."""
    return [NUMPY_SCALARS[k](v) for k, v in zip(kinds, values)]


def numbers_of(kinds, ints, floats):
    """The scalar operands of one step, taken from the trace's packed ones."""
    return [
        next(ints) if k == INT else next(floats) if k == FLOAT else complex(next(floats), next(floats))
        for k in kinds
    ]


def packed_apart(kinds, numbers):
    """The integers and the floats of one step's scalar operands, as a trace has them."""
    ints = [n for k, n in zip(kinds, numbers) if k == INT]
    floats = [(n,) if k == FLOAT else (n.real, n.imag) for k, n in zip(kinds, numbers) if k != INT]
    return ints, [part for parts in floats for part in parts]
