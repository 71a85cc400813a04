"""Small helpers of unification: hashable values, chains of bindings, an order of dependencies."""

from __future__ import annotations

import graphlib

from .match import freeze
from .multipledispatch.utils import raises, reverse_dict

__all__ = ["freeze", "hashable", "raises", "reverse_dict", "transitive_get", "xfail"]


def hashable(x) -> bool:
    """Whether a value can be the key of a dict.

    >>> hashable(1), hashable([])
    (True, False)
    """
    return not raises(TypeError, lambda: hash(x))


def transitive_get(key, d):
    """What a key leads to, over keys that are values.

    >>> transitive_get(1, {1: 2, 2: 3, 3: 4})
    4
    """
    while hashable(key) and key in d:
        key = d[key]
    return key


def _toposort(edges) -> list:
    """Nodes in an order in which each comes before those that depend on it: ``edges[a]`` are what depends on a.

    Raises:
        ValueError: they depend on each other.
    """
    sorter: graphlib.TopologicalSorter = graphlib.TopologicalSorter()
    for node, later in edges.items():
        sorter.add(node)
        for other in later:
            sorter.add(other, node)
    try:
        return list(sorter.static_order())
    except graphlib.CycleError:
        raise ValueError("Input has cycles") from None


def xfail(func) -> None:
    """Calls a function that is expected to raise; what it raises is dropped, and so is it if it raises nothing."""
    raises(Exception, func)
