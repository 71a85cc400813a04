"""Errors about sizes without tracing: a kernel's own checks are run on stand-ins that have nothing but shape and dtype,
while JAX computes nothing.

Kernels begin with checks of shapes and dtypes. JAX's tracer, under which they also run, takes milliseconds to raise what
they say, and programs catch such errors in loops. The first time that a stand-in makes a kernel raise at some line, the
kernel is traced, too; from then on that line is trusted.
"""

from __future__ import annotations

import math
import os

import numpy as np

from ..core import jax_internals
from ..core.places import ENGINE

_KERNELS = os.path.join(ENGINE, "kernels", "")
_trusted: dict = {}  # {(code, line): whether tracing raised the same}


class _NeedsArray(BaseException):
    """The kernel's checks are over: it computes."""


class Sizes:
    """Stands for an array of a shape and dtype, of which nothing can be computed."""

    __slots__ = ("shape", "dtype", "ndim", "size")

    def __init__(self, shape, dtype):
        self.shape, self.dtype, self.ndim, self.size = shape, dtype, len(shape), math.prod(shape)

    @property
    def T(self):
        return Sizes(self.shape[::-1], self.dtype)

    @property
    def mT(self):
        return Sizes((*self.shape[:-2], *self.shape[:-3:-1]), self.dtype)

    def astype(self, dtype):
        return Sizes(self.shape, np.dtype(dtype))

    def __getattr__(self, name):
        if name.startswith("__"):  # C code that asks for a protocol takes no other error for "no"
            raise AttributeError(name)
        raise _NeedsArray

    def __len__(self):
        return self.shape[0]


def _refuse(*_, **__):
    raise _NeedsArray


for _name in (
    "add radd sub rsub mul rmul matmul rmatmul truediv rtruediv floordiv rfloordiv mod rmod divmod rdivmod pow rpow "
    "and rand or ror xor rxor lshift rlshift rshift rrshift neg pos abs invert lt le gt ge eq ne getitem iter bool "
    "contains complex int float index round array"
).split():
    setattr(Sizes, f"__{_name}__", _refuse)
Sizes.__hash__ = _refuse  # type: ignore[assignment, method-assign]


_refusing = jax_internals.refusing(_NeedsArray)


def raise_early(fn, geometries, scalars, trace):
    """Raises what a kernel's checks say of sizes and dtypes; returns if they say nothing, or need values.

    Args:
        fn: the kernel as a function of flat operands.
        geometries: of its tensors; ``scalars``: NumPy's dtypes of its numbers.
        trace: runs the kernel on abstract values, with the same error; None: only what is trusted already is raised.
    """
    if not geometries or _refusing is None:
        return
    operands = stand_ins([(g.shape, g.dtype.numpy) for g in geometries], scalars)
    error = _raised(fn, operands)
    if error is None:
        return
    try:
        if _is_trusted(error, fn, operands, trace):
            raise error.with_traceback(None) from None
    finally:
        error = None  # else its traceback's frames and this one hold each other, and the caller's tensors


def stand_ins(shaped, scalars) -> list[Sizes]:
    """What stands for a kernel's operands.

    Args:
        shaped: (shape, NumPy's dtype) of each tensor; ``scalars``: NumPy's dtypes of its numbers.
    """
    return [Sizes(shape, dtype) for shape, dtype in shaped] + [
        Sizes((), dtype) for dtype in scalars
    ]


def refuses(fn, operands) -> bool:
    """Whether a kernel's checks raise an error for `stand_ins`, as `raise_early` would."""
    return _refusing is not None and _raised(fn, operands) is not None


def _is_trusted(error, fn, operands, trace):
    """Whether an error is the kernel's own."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None or not at.tb_frame.f_code.co_filename.startswith(_KERNELS):
        if _raised(fn, operands).__class__ is not error.__class__:  # it came from outside: from another thread
            raise error
        return False
    place = at.tb_frame.f_code, at.tb_lineno
    trusted = _trusted.get(place)
    if trusted is None and trace is not None:
        trusted = _trusted[place] = _is_real(error, trace)
    return bool(trusted)


def _raised(fn, operands):
    try:
        with _refusing():
            fn(*operands)
    except _NeedsArray:
        return None
    except Exception as error:  # noqa: BLE001
        return error
    return None


def _is_real(error, trace):
    try:
        trace()
    except Exception as other:
        if other.__class__ is not error.__class__ or str(other) != str(error):
            raise
        return True
    return False
