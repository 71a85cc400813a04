"""Unification of objects by their attributes."""

from __future__ import annotations

from .core import reify, unify

__all__ = ["reify_object", "unifiable", "unify_object"]


def unifiable(cls):
    """Lets the objects of a class unify by their attributes.

    >>> from ftorch.fx.experimental.unification import Var, unifiable, unify
    >>> @unifiable
    ... class A:
    ...     def __init__(self, a):
    ...         self.a = a
    >>> x = Var()
    >>> unify(A(x), A(2), {}) == {x: 2}
    True
    """
    cls._unify_ = unify_object
    cls._reify_ = reify_object
    return cls


def reify_object(o, s):
    """An object with the variables in its attributes replaced."""
    known = reify(o.__dict__, s)
    if known == o.__dict__:
        return o
    made = object.__new__(type(o))
    made.__dict__.update(known)
    return made


def unify_object(u, v, s):
    """`unify` of two objects' attributes."""
    return unify(u.__dict__, v.__dict__, s) if type(u) is type(v) else False
