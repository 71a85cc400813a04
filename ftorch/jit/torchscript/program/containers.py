"""Lists and dictionaries that programs take as they are, not copied (``torch.jit.script`` of a list or dictionary)."""

from __future__ import annotations

from ....eager.tensor import TensorBase
from .builtins import RaisedError
from .casts import CastError, cast
from .types import Type, infer

__all__ = ["ScriptDict", "ScriptList"]


def _typed(value, expected, what):
    if type(value) is not expected:
        name = f"Script{expected.__name__.capitalize()}"
        raise TypeError(
            "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
            f"    1. torch._C.{name}(arg0: {expected.__name__})\n\nInvoked with: {value!r}"
        )
    found = infer(value)
    if found is None:
        raise RaisedError(f"Unable to infer type of {what}: {what.capitalize()} inputs to traced functions must have "
                          "consistent element type")
    return found


class _Container:
    _data: list | dict
    _type: Type

    def __len__(self):
        return len(self._data)

    def __iter__(self):
        return iter(self._data)

    def __contains__(self, value):
        return self._checked(value, 0) in self._data

    def _checked(self, value, part):
        wanted = self._type.args[part]
        try:
            if isinstance(value, TensorBase) and wanted.name != "Tensor":
                raise CastError
            return cast(value, wanted)
        except CastError:
            raise TypeError from None


class ScriptList(_Container):
    """A list of one type, which programs change where they are called with it.

    >>> import ftorch as torch
    >>> numbers = torch.jit.script([1, 2])
    >>> numbers.append(3)
    >>> numbers, type(numbers).__name__
    ([1, 2, 3], 'ScriptList')

    Raises:
        TypeError: it is made of something else, or something of another type comes in.
        Error: the elements are of several types.
    """

    def __init__(self, data: list):
        self._type = _typed(data, list, "list")
        self._data = [self._checked(value, 0) for value in data]

    def __getitem__(self, index):
        if not isinstance(index, slice):
            return self._data[self._place(index)]
        part = ScriptList.__new__(ScriptList)
        part._data, part._type = self._data[index], self._type
        return part

    def __setitem__(self, index, value):
        if not isinstance(index, slice):
            value = self._checked(value, 0)
            self._data[self._place(index)] = value
            return
        values = [self._checked(v, 0) for v in value]
        if len(values) != len(self._data[index]):
            raise RuntimeError("Left and right hand size of slice assignment have different sizes")
        self._data[index] = values

    def __delitem__(self, index):
        del self._data[self._place(index)]

    def _place(self, index):
        if isinstance(index, int) and not -len(self._data) <= index < len(self._data):
            raise IndexError("")
        return index

    def __repr__(self):
        return repr(self._data)

    def append(self, value) -> None:
        """Puts a value behind the last."""
        self._data.append(self._checked(value, 0))

    def extend(self, values) -> None:
        """Puts values behind the last."""
        self._data.extend([self._checked(value, 0) for value in values])

    def insert(self, index: int, value) -> None:
        """Puts a value before that at an index."""
        self._data.insert(index, self._checked(value, 0))

    def pop(self, index: int = -1):
        """Takes a value away, and gives it."""
        if self._data and not -len(self._data) <= index < len(self._data):
            raise IndexError("list index out of range")
        return self._data.pop(index)

    def remove(self, value) -> None:
        """Takes the first value away that is equal to one."""
        value = self._checked(value, 0)
        if value not in self._data:
            raise ValueError("")
        self._data.remove(value)

    def clear(self) -> None:
        """Takes all values away."""
        self._data.clear()

    def count(self, value) -> int:
        """How many values are equal to one."""
        return self._data.count(self._checked(value, 0))


class ScriptDict(_Container):
    """A dictionary of one type of keys and one of values, which programs change where they are called with it.

    >>> import ftorch as torch
    >>> torch.jit.script({"a": 1})["a"]
    1

    Raises:
        TypeError: it is made of something else, or something of another type comes in.
        Error: the keys or the values are of several types.
    """

    def __init__(self, data: dict):
        self._type = _typed(data, dict, "dictionary")
        self._data = {self._checked(key, 0): self._checked(value, 1) for key, value in data.items()}

    def __getitem__(self, key):
        key = self._key(key)
        if key not in self._data:
            raise KeyError("")
        return self._data[key]

    def __setitem__(self, key, value):
        self._data[self._checked(key, 0)] = self._checked(value, 1)

    def __delitem__(self, key):
        key = self._checked(key, 0)
        if key not in self._data:
            raise KeyError("")
        del self._data[key]

    def __contains__(self, key):
        return self._key(key) in self._data

    def _key(self, key):
        try:
            return self._checked(key, 0)
        except TypeError:
            raise KeyError("") from None

    def __repr__(self):
        return f"{{{', '.join(f'{key}: {value}' for key, value in self._data.items())}}}"

    def keys(self):
        """An iterator over the keys."""
        return iter(self._data)

    def items(self):
        """An iterator over pairs."""
        return iter(self._data.items())
