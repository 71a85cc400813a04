"""`OrderedSet`: a set that keeps the order in which things were added (``torch.utils._ordered_set``)."""

from __future__ import annotations

from collections.abc import Iterable, MutableSet
from typing import Any, TypeVar

__all__ = ["OrderedSet"]

T = TypeVar("T")


class OrderedSet(MutableSet[T]):
    """A set in the order of insertion.

    >>> from ftorch.utils._ordered_set import OrderedSet
    >>> OrderedSet([3, 1, 3]) | OrderedSet([2])
    OrderedSet([3, 1, 2])
    """

    __slots__ = ("_dict",)

    def __init__(self, iterable: Iterable[T] | None = None) -> None:
        self._dict: dict[T, None] = dict.fromkeys(iterable or ())

    def __contains__(self, elem: object) -> bool:
        return elem in self._dict

    def __iter__(self):
        return iter(self._dict)

    def __reversed__(self):
        return reversed(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def add(self, elem: T) -> None:  # noqa: D102
        self._dict[elem] = None

    def discard(self, elem: T) -> None:  # noqa: D102
        self._dict.pop(elem, None)

    def clear(self) -> None:  # noqa: D102
        self._dict.clear()

    def pop(self) -> T:
        """Takes the element that was added last.

        Raises:
            KeyError: there is none.
        """
        if not self._dict:
            raise KeyError("pop from an empty set")
        return self._dict.popitem()[0]

    def copy(self) -> OrderedSet[T]:  # noqa: D102
        return OrderedSet(self)

    def update(self, *others: Iterable[T]) -> None:  # noqa: D102
        for other in others:
            self._dict.update(dict.fromkeys(other))

    def union(self, *others: Iterable[T]) -> OrderedSet[T]:  # noqa: D102
        made = self.copy()
        made.update(*others)
        return made

    def difference_update(self, *others: Iterable[T]) -> None:  # noqa: D102
        for other in others:
            for elem in list(other):
                self.discard(elem)

    def difference(self, *others: Iterable[T]) -> OrderedSet[T]:  # noqa: D102
        made = self.copy()
        made.difference_update(*others)
        return made

    def intersection(self, *others: Iterable[T]) -> OrderedSet[T]:  # noqa: D102
        kept = [set(other) for other in others]
        return OrderedSet(elem for elem in self if all(elem in other for other in kept))

    def intersection_update(self, *others: Iterable[T]) -> None:  # noqa: D102
        self._dict = self.intersection(*others)._dict

    def issubset(self, other: Iterable[T]) -> bool:  # noqa: D102
        other = set(other)
        return all(elem in other for elem in self)

    def issuperset(self, other: Iterable[T]) -> bool:  # noqa: D102
        return all(elem in self for elem in other)

    def symmetric_difference(self, other: Iterable[T]) -> OrderedSet[T]:  # noqa: D102
        return self ^ OrderedSet(other)

    def symmetric_difference_update(self, other: Iterable[T]) -> None:  # noqa: D102
        self._dict = self.symmetric_difference(other)._dict

    def __ior__(self, other: Any):
        self.update(other)
        return self

    def __repr__(self) -> str:
        return f"OrderedSet({list(self)})"

    def __reduce__(self):
        return OrderedSet, (list(self),)
