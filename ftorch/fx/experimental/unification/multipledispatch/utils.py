"""Signatures as text and as lists."""

from __future__ import annotations

import itertools
from collections import OrderedDict

__all__ = ["raises", "expand_tuples", "reverse_dict", "groupby", "typename"]


def raises(err, lamda) -> bool:
    """Whether a function of nothing raises an exception of a class."""
    try:
        lamda()
    except err:
        return True
    return False


def expand_tuples(L) -> list:
    """The signatures that a signature with alternatives stands for.

    >>> expand_tuples([int, (float, str)])
    [(<class 'int'>, <class 'float'>), (<class 'int'>, <class 'str'>)]
    """
    if not L:
        return [()]
    if not any(isinstance(item, tuple) for item in L):
        return [tuple(L)]
    return list(itertools.product(*(item if isinstance(item, tuple) else (item,) for item in L)))


def reverse_dict(d) -> dict:
    """{value: the keys that have it}, of a dictionary of lists of values.

    >>> reverse_dict({"a": (1, 2), "b": (2,)})
    OrderedDict([(1, ('a',)), (2, ('a', 'b'))])
    """
    found: dict = OrderedDict()
    for key, values in d.items():
        for value in values:
            found[value] = (*found.get(value, ()), key)
    return found


def groupby(func, seq) -> dict:
    """{what a function gives: the elements for which it does}.

    >>> groupby(len, ["a", "bc", "d"])
    OrderedDict([(1, ['a', 'd']), (2, ['bc'])])
    """
    found: dict = OrderedDict()
    for item in seq:
        found.setdefault(func(item), []).append(item)
    return found


def typename(type) -> str:
    """The name of a class, or of alternatives.

    >>> typename((int, float))
    '(int, float)'
    """
    try:
        return type.__name__
    except AttributeError:
        return typename(*type) if len(type) == 1 else f"({', '.join(map(typename, type))})"


def str_signature(sig) -> str:
    """A signature as text.

    >>> str_signature((int, float))
    'int, float'
    """
    return ", ".join(cls.__name__ for cls in sig)
