"""The arithmetic that update rules are written in, on arrays and on tensors.

A rule is one function. It runs on JAX arrays, where a step over all parameters is one program, and
(``differentiable=True``) on tensors, where every operation is recorded. Arrays of half precision are
computed in float32 and rounded after each operation, as PyTorch does.
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
from jax import lax

from ..eager.kernels._common import opmath


def _round(x, dtype):
    """``x`` with the precision of ``dtype``; XLA may leave out a mere cast there and back."""
    info = jnp.finfo(dtype)
    return lax.reduce_precision(x, exponent_bits=info.nexp, mantissa_bits=info.nmant)


def _rounded(function):
    """Runs a formula in the precision of intermediate results and rounds to the first's dtype."""

    @functools.wraps(function)
    def run(self, x, *others):
        work = opmath(x.dtype)
        others = (jnp.asarray(other).astype(work) for other in others)
        result = function(self, x.astype(work), *others)
        return (result if work == x.dtype else _round(result, x.dtype)).astype(x.dtype)

    return run


class ArrayMath:
    """Formulas on arrays. Scalars may be 0-d arrays of any precision: they are cast to fit."""

    @staticmethod
    def number(scalar):
        """A 0-d state (the step count) in the precision of Python's floats."""
        return scalar.astype(jnp.float64)

    def add(self, x, y, alpha=1.0):
        # Unlike in the other formulas, PyTorch rounds these numbers to the tensor's dtype first.
        if opmath(x.dtype) != x.dtype:
            y, alpha = (_round(jnp.asarray(v, opmath(x.dtype)), x.dtype) for v in (y, alpha))
        return self._add(x, y, alpha)

    @_rounded
    def _add(self, x, y, alpha):
        return x + alpha * y

    @_rounded
    def mul(self, x, y):
        return x * y

    @_rounded
    def div(self, x, y):
        if jnp.ndim(x) and not jnp.ndim(y) and x.dtype in (jnp.float32, jnp.float64):
            return x * (1 / jnp.asarray(y, x.dtype))  # one division for all elements
        return x / y

    @_rounded
    def lerp(self, x, end, weight):
        distance = end - x
        return jnp.where(
            jnp.abs(weight) < 0.5, x + weight * distance, end - distance * (1 - weight)
        )

    @_rounded
    def addcmul(self, x, a, b, value=1.0):
        return x + value * a * b

    @_rounded
    def addcdiv(self, x, a, b, value=1.0):
        return x + value * a / b

    @_rounded
    def sqrt(self, x):
        return jnp.sqrt(x)

    @_rounded
    def clamp(self, x, low, high):
        return jnp.clip(x, low, high)

    @_rounded
    def rsqrt_above(self, x, low):
        return 1 / jnp.sqrt(jnp.maximum(x, low))

    abs = staticmethod(jnp.abs)
    sign = staticmethod(jnp.sign)
    maximum = staticmethod(jnp.maximum)
    where = staticmethod(jnp.where)


class TensorMath:
    """The same formulas on tensors, recorded like any other operation."""

    @staticmethod
    def number(scalar):
        return scalar.clone()

    @staticmethod
    def add(x, y, alpha=1.0):
        return x + alpha * y

    @staticmethod
    def mul(x, y):
        return x * y

    @staticmethod
    def div(x, y):
        return x / y

    @staticmethod
    def lerp(x, end, weight):
        return x + weight * (end - x)

    @staticmethod
    def addcmul(x, a, b, value=1.0):
        return x + value * a * b

    @staticmethod
    def addcdiv(x, a, b, value=1.0):
        return x + value * a / b

    @staticmethod
    def sqrt(x):
        return x**0.5 if isinstance(x, float) else x.sqrt()

    @staticmethod
    def clamp(x, low, high):
        return x.clamp(low, high)

    @staticmethod
    def abs(x):
        return x.abs()

    @staticmethod
    def sign(x):
        return x.sign()

    @staticmethod
    def maximum(x, y):
        from ..eager.core import api

        return api.maximum(x, api.as_tensor(y, dtype=x.dtype))

    @staticmethod
    def where(condition, x, y):
        from ..eager.core import api

        return api.where(condition, x, y)


ARRAYS, TENSORS = ArrayMath(), TensorMath()
