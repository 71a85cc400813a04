"""What a program takes for a value that comes from Python: numbers converted, sequences copied."""

from __future__ import annotations

import operator

import numpy as np

from ....eager.core import device as _device
from ....eager.tensor import TensorBase
from .types import Type, code, conforms

__all__ = ["CastError", "cast"]


class CastError(Exception):
    """A value does not fit a declared type."""


def cast(value, t: Type, instance=None):
    """A value that came from Python as one of a type: sequences are copied, numbers converted.

    Args:
        instance: makes an object of a program's class of an object of Python's: given the value and
            the class's name, it returns None where they do not belong together.

    Raises:
        CastError: if it does not fit.
    """
    made = _CASTS.get(t.name)
    if made is not None:
        return made(value, t, instance)
    if conforms(value, t):
        return value
    if t.is_class:
        found = value._c if hasattr(value, "_c") else instance and instance(value, t.name)
        if found is not None:
            return found
    raise _refused(value)


def _refused(value):
    return CastError(f"Unable to cast Python instance of type {type(value)} to C++ type '?' "
                     "(#define PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for details)")


def _tensor(value, t, instance):
    if isinstance(value, TensorBase):
        return value
    raise CastError(f"Unable to cast {value} to Tensor")


def _optional(value, t, instance):
    return None if value is None else cast(value, t.args[0], instance)


def _union(value, t, instance):
    for a in t.args:
        if conforms(value, a):
            return value
    for a in t.args:
        try:
            return cast(value, a, instance)
        except CastError:
            pass
    raise CastError(
        f"Expected a member of {t} but instead found type {type(value).__name__}"
    )


def _items(value):
    """What can be iterated over as a list can."""
    if isinstance(value, (str, bytes, dict)) or not hasattr(value, "__getitem__"):
        raise _refused(value)
    try:
        return list(value)
    except TypeError:
        raise _refused(value) from None


def _list(value, t, instance):
    if isinstance(value, TensorBase):
        raise _refused(value)
    if hasattr(value, "_type") and value._type == t:  # a `ScriptList`: the program has its elements in common
        return value._data
    if t.size is not None and conforms(value, t.args[0]):
        value = [value] * t.size
    return [cast(v, t.args[0], instance) for v in _items(value)]


def _tuple(value, t, instance):
    items = _items(value)
    if len(items) != len(t.args):
        raise CastError(f"Object {value} had a different number of elements than type {t}")
    return tuple(cast(v, a, instance) for v, a in zip(items, t.args))


def _dict(value, t, instance):
    if hasattr(value, "_type") and value._type == t:
        return value._data
    if not isinstance(value, dict):
        raise _refused(value)
    key, item = t.args
    return {cast(k, key, instance): cast(v, item, instance) for k, v in value.items()}


def _number_of(value):
    """A Python number for a tensor of one element; other values as they are."""
    if isinstance(value, TensorBase) and value.numel() == 1:
        return value.item()
    return value.item() if isinstance(value, np.generic) else value


def _int(value, t, instance):
    if isinstance(value, TensorBase):
        value = int(value) if value.numel() == 1 else value
    elif isinstance(value, np.generic) and value.shape == ():
        value = int(value)
    try:
        return operator.index(code(value))
    except TypeError:
        raise _refused(value) from None


def _float(value, t, instance):
    number = _number_of(value)
    if isinstance(number, (int, float)):
        return float(number)
    raise _refused(value)


def _complex(value, t, instance):
    number = _number_of(value)
    if isinstance(number, (int, float, complex)):
        return complex(number)
    raise _refused(value)


def _bool(value, t, instance):
    if hasattr(type(value), "__bool__") and not isinstance(value, str):
        try:
            return bool(value)
        except (ValueError, RuntimeError):
            pass
    raise _refused(value)


def _device_of(value, t, instance):
    if isinstance(value, (str, _device.device)):
        return _device.device(value)
    raise _refused(value)


def _number(value, t, instance):
    number = _number_of(value)
    if isinstance(number, (int, float, complex)):
        return number
    raise _refused(value)


_CASTS = {
    "Tensor": _tensor, "Optional": _optional, "Union": _union, "List": _list, "Tuple": _tuple,
    "Dict": _dict, "int": _int, "float": _float, "complex": _complex, "bool": _bool,
    "Device": _device_of, "number": _number,
}
