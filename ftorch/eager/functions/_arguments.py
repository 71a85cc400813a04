"""Argument parsing for functions written by hand, as PyTorch's generated parser does it."""

from __future__ import annotations

import numpy as np

from ..call.argument_types import type_name
from ..call.operands import plain_number
from ..core import dtype as dtypes
from ..tensor import TensorBase

_FROM_PYTHON = {
    bool: dtypes.bool, int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128,
}
def _is_integer(value):
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_integer_tensor(value):
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iu"
    return isinstance(value, TensorBase) and value.numel() == 1 and value.dtype.category == 1


def sizes(name: str, given: tuple, size=None) -> tuple[int, ...]:
    """The sizes of ``name(2, 3)``, ``name((2, 3))`` or ``name(size=(2, 3))``.

    Raises:
        TypeError, RuntimeError: in PyTorch's words.
    """
    if size is not None:
        given = (size,)
    elif not given:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    if len(given) == 1:
        only = given[0]
        if isinstance(only, (tuple, list)):
            given = only
        elif not _is_integer(only) and not _is_integer_tensor(only):
            raise TypeError(
                f"{name}(): argument 'size' (position 1) must be tuple of ints, not "
                f"{type_name(only)}"
            )
    for n in given:
        if type(n) is not int:
            return _converted(name, given)
        if n < 0:
            raise _negative(name, given)
        if n >= 1 << 63:
            raise _overflow(name, given.index(n))
    return tuple(given)


def _overflow(name, at):
    return TypeError(f"{name}(): argument 'size' failed to unpack the object at pos {at + 1} with error "
                     '"Overflow when unpacking long long"')


def _converted(name, given):
    for i, n in enumerate(given):
        if _is_integer(n) or _is_integer_tensor(n):
            continue
        if i == 0:
            raise TypeError(
                f"{name}(): argument 'size' (position 1) must be tuple of ints, but found element "
                f"of type {type_name(n)} at pos 0"
            )
        raise TypeError(
            f"{name}(): argument 'size' failed to unpack the object at pos {i + 1} with error "
            f'"type must be tuple of ints,but got {type_name(n)}"'
        )
    return sizes(name, (tuple(int(n) for n in given),))


def _negative(name, given):
    if name == "zeros":
        return RuntimeError("zeros: Dimension size must be non-negative.")
    wrong = next(n for n in given if n < 0)
    return RuntimeError(
        f"Trying to create tensor with negative dimension {wrong}: {list(given)}"
    )


def number(name: str, argument: str, position: int, value):
    """A Python number; a 0-d tensor that requires no grad gives its value.

    Raises:
        TypeError: for anything else.
    """
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return plain_number(value)
    if isinstance(value, TensorBase) and value.ndim == 0 and not value.requires_grad:
        return value.item()
    kind = "Tensor" if isinstance(value, TensorBase) else type_name(value)
    raise TypeError(
        f"{name}(): argument '{argument}' (position {position}) must be Number, not {kind}"
    )


def integer(name: str, argument: str, position: int, value) -> int:
    """A Python int; integer 0-d tensors give their value.

    Raises:
        TypeError: for anything else.
    """
    if _is_integer(value) or _is_integer_tensor(value):
        return int(value)
    raise TypeError(
        f"{name}(): argument '{argument}' (position {position}) must be int, not "
        f"{type_name(value)}"
    )


def as_dtype(name: str, given) -> dtypes.dtype | None:
    """A ``dtype=`` argument: None, a dtype, or a Python type that stands for one.

    Raises:
        TypeError: for anything else.
    """
    if given is None or isinstance(given, dtypes.dtype):
        return given
    if isinstance(given, type) and given in _FROM_PYTHON:
        return _FROM_PYTHON[given]
    raise TypeError(f"{name}(): argument 'dtype' must be torch.dtype, not {type_name(given)}")


def mismatch(name: str, *given, **named) -> TypeError:
    """The error of arguments that fit none of PyTorch's overloads."""
    words = [type_name(v) for v in given]
    words += [f"{k}={type_name(v)}" for k, v in named.items()]
    return TypeError(
        f"{name}() received an invalid combination of arguments - got ({', '.join(words)}), but "
        "expected one of its documented signatures"
    )
