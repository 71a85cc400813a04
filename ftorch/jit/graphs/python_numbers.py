"""Unbacked symbols: Python numbers that a recorded function took from tensors: ``x.sum().item()``.

In the graph they are values like tensors. Asked what they are (by ``if``, ``range``, ``int``), they say
so to the recorder: the graph would hold for one value only.
"""

from __future__ import annotations

import operator

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_UNARY = ("neg", "pos", "abs")


class Number:
    """A number of a recorder.

    Attributes:
        value: what it is in the call that is recorded.
    """

    __slots__ = ("recorder", "value")

    def __init__(self, recorder, value):
        self.recorder, self.value = recorder, value

    def _known(self):
        self.recorder.asked(self.value)
        return self.value

    def __index__(self):
        return operator.index(self._known())

    def __int__(self):
        return int(self._known())

    def __float__(self):
        return float(self._known())

    def __bool__(self):
        return bool(self._known())

    def __hash__(self):
        return hash(self._known())

    def __format__(self, how):
        return format(self._known(), how)

    def __str__(self):
        return str(self._known())

    __repr__ = __str__


def _combine(name, swapped):
    function = getattr(operator, name)

    def method(self, other):
        if not isinstance(other, (int, float, Number)):
            return NotImplemented
        operands = (other, self) if swapped else (self, other)
        return self.recorder.number(function, operands, function(*map(plain, operands)))

    return method


def _alone(name):
    function = getattr(operator, name)
    return lambda self: self.recorder.number(function, (self,), function(self.value))


for _name in (*_BINARY, *_COMPARISONS):
    setattr(Number, f"__{_name}__", _combine(_name, False))
for _name in _BINARY:
    setattr(Number, f"__r{_name}__", _combine(_name, True))
for _name in _UNARY:
    setattr(Number, f"__{_name}__", _alone(_name))


def plain(value):
    """A value with numbers in the place of `Number`, in containers as well."""
    if isinstance(value, Number):
        return value.value
    if (
        isinstance(value, tuple)
        and not hasattr(value, "_fields")
        and not hasattr(value, "n_fields")
    ):
        return tuple(map(plain, value))
    if type(value) is list:
        return list(map(plain, value))
    if isinstance(value, slice):
        return slice(plain(value.start), plain(value.stop), plain(value.step))
    return value
