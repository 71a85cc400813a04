"""Unification of nested structures with variables in them."""

from __future__ import annotations

from collections.abc import Iterator

from .multipledispatch import Dispatcher
from .unification_tools import assoc
from .variable import isvar

__all__ = ["reify", "unify"]

_reify, _unify = Dispatcher("_reify"), Dispatcher("_unify")


def walk(key, d):
    """What a variable stands for, through variables that stand for others."""
    while isvar(key) and key in d:
        key = d[key]
    return key


def reify(e, s):
    """A structure with the values of its variables.

    >>> from ftorch.fx.experimental.unification import var
    >>> x, y = var(), var()
    >>> reify((1, x, (3, y)), {x: 2, y: 4})
    (1, 2, (3, 4))
    """
    if isvar(e):
        return reify(s[e], s) if e in s else e
    return _reify(e, s)


@_reify.register(tuple, dict)
def _(t, s):
    return tuple(reify(v, s) for v in t)


@_reify.register(list, dict)
def _(t, s):
    return [reify(v, s) for v in t]


@_reify.register(dict, dict)
def _(d, s):
    return {k: reify(v, s) for k, v in d.items()}


@_reify.register(Iterator, dict)
def _(t, s):
    return (reify(v, s) for v in t)


@_reify.register(object, dict)
def _(o, s):
    return o


def unify(u, v, s=None):
    """The values of variables with which two structures are equal; False if there are none.

    >>> from ftorch.fx.experimental.unification import var
    >>> unify((1, var("x")), (1, 2))
    {~x: 2}
    """
    s = {} if s is None else s
    u, v = walk(u, s), walk(v, s)
    if u == v:
        return s
    if isvar(u):
        return assoc(s, u, v)
    if isvar(v):
        return assoc(s, v, u)
    return _unify(u, v, s)


@_unify.register((tuple, list, Iterator), (tuple, list, Iterator), dict)
def _(u, v, s):
    if isinstance(u, Iterator) or isinstance(v, Iterator):
        u, v = tuple(u), tuple(v)
    if type(u) is not type(v) or len(u) != len(v):
        return False
    for a, b in zip(u, v):
        s = unify(a, b, s)
        if s is False:
            return False
    return s


@_unify.register(dict, dict, dict)
def _(u, v, s):
    if u.keys() != v.keys():
        return False
    for k, value in u.items():
        s = unify(value, v[k], s)
        if s is False:
            return False
    return s


@_unify.register(object, object, dict)
def _(u, v, s):
    return False



