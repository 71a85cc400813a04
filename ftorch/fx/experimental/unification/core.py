"""``unify`` and ``reify`` of tuples, lists, dictionaries and slices."""

from __future__ import annotations

from .variable import isvar

__all__ = ["reify", "unify"]


def reify(e, s):
    """A value with the variables replaced by what is known of them.

    >>> from ftorch.fx.experimental.unification import Var, reify
    >>> x = Var()
    >>> reify((x, [2, x]), {x: 1})
    (1, [2, 1])
    """
    if isvar(e):
        return reify(s[e], s) if e in s else e
    if isinstance(e, (tuple, list)):
        return type(e)(reify(x, s) for x in e)
    if isinstance(e, dict):
        return {k: reify(v, s) for k, v in e.items()}
    if isinstance(e, slice):
        return slice(*reify((e.start, e.stop, e.step), s))
    custom = getattr(type(e), "_reify_", None)
    return e if custom is None else custom(e, s)


def unify(u, v, s=None):
    """What variables must be for two values to be equal, or False.

    >>> from ftorch.fx.experimental.unification import Var, unify
    >>> x = Var()
    >>> unify((1, x), (1, 2), {}) == {x: 2}
    True
    >>> unify((x, x), (1, 2), {})
    False
    """
    s = {} if s is None else s
    u, v = _known(u, s), _known(v, s)
    if u == v:
        return s
    if isvar(u):
        return {**s, u: v}
    if isvar(v):
        return {**s, v: u}
    if type(u) is not type(v):
        return False
    if isinstance(u, (tuple, list)):
        pairs = None if len(u) != len(v) else zip(u, v)
    elif isinstance(u, dict):
        pairs = None if u.keys() != v.keys() else ((u[k], v[k]) for k in u)
    elif isinstance(u, slice):
        pairs = zip((u.start, u.stop, u.step), (v.start, v.stop, v.step))
    elif hasattr(type(u), "_unify_"):
        return type(u)._unify_(u, v, s)
    else:
        return False
    if pairs is None:
        return False
    for a, b in pairs:
        s = unify(a, b, s)
        if s is False:
            return False
    return s


def _known(value, s):
    """What a variable is known to be."""
    while isvar(value) and value in s:
        value = s[value]
    return value
