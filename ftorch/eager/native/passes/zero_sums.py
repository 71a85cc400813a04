"""Signed zeros: XLA's simplifier leaves out sums with a known zero, which makes ``-0. + 0.`` a minus zero.

The zero is one that the compiler does not know, so a program gives the sign that its steps give one by one.
"""

from __future__ import annotations

import jax
import numpy as np
from jax import lax
from jax.extend.core import Literal

_MOVES = frozenset("broadcast_in_dim reshape transpose convert_element_type copy squeeze expand_dims".split())
_SIGNS = {"add": False, "add_any": False, "sub": True}  # whether it is a minus zero that changes a sign


def _is_zero(value, negative):
    """Whether all elements of a constant are zeros of one sign."""
    value = np.asarray(value)
    if jax.numpy.issubdtype(value.dtype, np.integer):
        return not negative and not value.any()
    if not jax.numpy.issubdtype(value.dtype, np.inexact) or value.any():
        return False
    signs = np.signbit(value.real.astype(np.float64)) | np.signbit(value.imag.astype(np.float64))
    return bool(signs.all() if negative else not signs.any())


def is_visible(eqn) -> bool:
    """Whether an equation adds a zero that stands there."""
    negative = _SIGNS.get(eqn.primitive.name)
    return negative is not None and any(isinstance(v, Literal) and _is_zero(v.val, negative) for v in eqn.invars)


class ZeroSums:
    """The known zeros of a program.

    Args:
        flat: the program (`inlining.Flat`).
    """

    def __init__(self, flat):
        self._known: dict[int, tuple[bool, bool]] = {}  # {a name: whether it is zero, minus zero}
        self._constants = flat.constants
        self._zero: dict = {}

    def _of(self, name, negative):
        if isinstance(name, Literal):
            return _is_zero(name.val, negative)
        if id(name) not in self._known and name in self._constants:
            value = self._constants[name]
            plain = isinstance(value, np.ndarray | np.generic | float | int)
            self._known[id(name)] = (plain and _is_zero(value, False), plain and _is_zero(value, True))
        return self._known.get(id(name), (False, False))[negative]

    def made(self, step, inputs):
        """The results of a sum with a known zero, or None; notes what moves zeros."""
        eqn = step.eqn
        if eqn.primitive.name in _MOVES or eqn.primitive.name in ("neg", "mul"):
            self._follow(eqn.primitive.name, step)
            return None
        negative = _SIGNS.get(eqn.primitive.name)
        if negative is None or not jax.numpy.issubdtype(dtype := eqn.outvars[0].aval.dtype, np.inexact):
            return None
        places = [i for i, x in enumerate(step.inputs) if self._of(x, negative) and (not negative or i)]
        if len(places) != 1 or not isinstance(dtype, np.dtype):
            return None
        shape = eqn.outvars[0].aval.shape
        zero = self._unknown(dtype)
        x = lax.broadcast_in_dim(inputs[1 - places[0]], shape, range(np.ndim(inputs[1 - places[0]])))
        return [lax.add(x, lax.broadcast(zero, shape) if shape else zero)]

    def _follow(self, name, step):
        """Notes that a step gives zeros: it moves some, or multiplies them with a number."""
        for place, x in enumerate(step.inputs):
            plus, minus = self._of(x, False), self._of(x, True)
            if (plus or minus) and jax.numpy.issubdtype(step.eqn.outvars[0].aval.dtype, np.integer):
                self._known[id(step.outputs[0])] = plus, minus  # there is one zero, times whatever
                return
            if plus or minus:
                factor = step.inputs[1 - place] if name == "mul" else None
                if factor is not None and not (isinstance(factor, Literal) and np.isfinite(factor.val).all()):
                    return
                turned = name == "neg" or factor is not None and bool(np.signbit(np.real(factor.val)))
                self._known[id(step.outputs[0])] = (minus, plus) if turned else (plus, minus)
                return

    def _unknown(self, dtype):
        """A zero that the compiler does not know."""
        zero = self._zero.get(dtype)
        if zero is None:
            part = np.dtype(np.float64 if dtype in (np.float64, np.complex128) else np.float32)
            zero = lax.neg(jax.ffi.ffi_call("ftorch_zero", jax.ShapeDtypeStruct((), part))())
            zero = lax.complex(zero, zero) if dtype.kind == "c" else lax.convert_element_type(zero, dtype)
            self._zero[dtype] = zero
        return zero
