"""What values a symbolic number can have (``torch.utils._sympy.value_ranges``)."""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from .numbers import int_oo


class ValueRangeError(RuntimeError):
    """A range without values."""


@dataclass(frozen=True)
class ValueRanges:
    """An interval, its ends included.

    >>> ValueRanges(1, 5) & ValueRanges(3, 9)
    ValueRanges(lower=3, upper=5)
    """

    lower: object
    upper: object

    def __post_init__(self):
        for name in ("lower", "upper"):
            object.__setattr__(self, name, sympy.sympify(getattr(self, name)))
        if not self.lower <= self.upper:  # type: ignore[operator]
            raise ValueRangeError(f"Invalid ranges [{self.lower}:{self.upper}]")

    @property
    def is_bool(self) -> bool:
        """Whether it is of truth values."""
        return self.lower in (sympy.true, sympy.false)

    @property
    def is_int(self) -> bool:
        """Whether it is of whole numbers."""
        return not self.is_bool and bool(self.lower.is_integer and self.upper.is_integer)  # type: ignore

    @property
    def is_float(self) -> bool:
        """Whether it is of other numbers."""
        return not self.is_bool and not self.is_int

    def __contains__(self, x):
        return bool(self.lower <= x) and bool(x <= self.upper)  # type: ignore[operator]

    def issubset(self, other) -> bool:
        """Whether another range has all of its values."""
        return bool(other.lower <= self.lower) and bool(self.upper <= other.upper)  # type: ignore

    def __and__(self, other):
        return ValueRanges(sympy.Max(self.lower, other.lower), sympy.Min(self.upper, other.upper))

    def __or__(self, other):
        return ValueRanges(sympy.Min(self.lower, other.lower), sympy.Max(self.upper, other.upper))

    def is_singleton(self) -> bool:
        """Whether it has one value."""
        return self.lower == self.upper

    @staticmethod
    def wrap(value) -> ValueRanges:
        """A range as it is, a number as the range of it alone."""
        return value if isinstance(value, ValueRanges) else ValueRanges(value, value)

    @staticmethod
    def unknown() -> ValueRanges:
        """All numbers."""
        return ValueRanges(-sympy.oo, sympy.oo)

    @staticmethod
    def unknown_int() -> ValueRanges:
        """All whole numbers."""
        return ValueRanges(-int_oo, int_oo)

    @staticmethod
    def unknown_bool() -> ValueRanges:
        """Both truth values."""
        made = object.__new__(ValueRanges)
        object.__setattr__(made, "lower", sympy.false)
        object.__setattr__(made, "upper", sympy.true)
        return made
