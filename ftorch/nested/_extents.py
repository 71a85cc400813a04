"""The extents of dimensions whose sizes differ from component to component."""

from __future__ import annotations

import itertools
import weakref

_numbers = itertools.count(1)


class Ragged:
    """The extent of a dimension that differs from component to component, or a multiple: equal to itself only."""

    is_extent = True  # which a `torch.Size` may hold

    def __init__(self, number=None, factor=1):
        self.number = next(_numbers) if number is None else number
        self.factor = factor

    def __repr__(self):
        return f"j{self.number}" if self.factor == 1 else f"{self.factor}*j{self.number}"

    def __eq__(self, other):
        return isinstance(other, Ragged) and (self.number, self.factor) == (other.number, other.factor)

    def __hash__(self):
        return hash((self.number, self.factor))

    def __mul__(self, other):
        return Ragged(self.number, self.factor * other) if isinstance(other, int) else NotImplemented

    __rmul__ = __mul__

    def __ge__(self, other):
        if isinstance(other, Ragged) and other.number == self.number:
            return self.factor >= other.factor
        if not isinstance(other, int) or other > 2:
            raise RuntimeError("nested int comparison is indeterminate")
        return True

    def __gt__(self, other):
        if isinstance(other, Ragged) and other.number == self.number:
            return self.factor > other.factor
        return self >= (other + 1 if isinstance(other, int) else other)

    def __lt__(self, other):
        return not self >= other

    def __le__(self, other):
        return not self > other


_extents: dict[int, tuple] = {}


def extent_of(structure) -> Ragged:
    """The ragged extent of what has these offsets (or lengths): one for a tensor."""
    found = _extents.get(id(structure))
    if found is None or found[0]() is not structure:
        key = id(structure)
        found = _extents[key] = weakref.ref(structure, lambda _: _extents.pop(key, None)), Ragged()
    return found[1]
