"""Unification of objects by their attributes."""

from __future__ import annotations

from .core import _reify, _unify, reify, unify

__all__ = ["unifiable", "reify_object", "unify_object"]


def unifiable(cls):
    """A decorator of classes whose objects are unified by their attributes.

    >>> from ftorch.fx.experimental.unification import unify, var
    >>> @unifiable
    ... class Point:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> unify(Point(1, var("y")), Point(1, 2), {})
    {~y: 2}
    """
    _unify.add((cls, cls, dict), unify_object)
    _reify.add((cls, dict), reify_object)
    return cls


def _state(o):
    if hasattr(o, "__slots__"):
        return {name: getattr(o, name) for name in o.__slots__}
    return o.__dict__


def reify_object(o, s):
    """An object with the values of variables in its attributes; itself where there are none."""
    state = _state(o)
    found = reify(state, s)
    if found == state:
        return o
    new = object.__new__(type(o))
    for name, value in found.items():
        setattr(new, name, value)
    return new


def unify_object(u, v, s):
    """The values of variables with which two objects of a class have equal attributes, or False."""
    return unify(_state(u), _state(v), s) if type(u) is type(v) else False
