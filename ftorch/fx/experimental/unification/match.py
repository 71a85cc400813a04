"""Functions chosen by patterns with variables, the most specific pattern first."""

from __future__ import annotations

from .core import reify, unify
from .unification_tools import first, groupby
from .variable import isvar

__all__ = ["Dispatcher", "VarDispatcher", "edge", "first", "freeze", "groupby", "match", "ordering", "reify",
           "supercedes", "unify"]

global_namespace: dict = {}


def freeze(d):
    """A structure that can be a key: tuples and frozen sets in place of lists, sets and dictionaries.

    >>> freeze([1, {2: [3]}])
    (1, frozenset({(2, (3,))}))
    """
    if isinstance(d, dict):
        return frozenset((key, freeze(value)) for key, value in d.items())
    if isinstance(d, set):
        return frozenset(map(freeze, d))
    if isinstance(d, (tuple, list)):
        return tuple(map(freeze, d))
    return d


class Dispatcher:
    """A function of several implementations, each for the arguments that its pattern unifies with."""

    def __init__(self, name):
        self.name = name
        self.funcs: dict = {}
        self.ordering: list = []

    def add(self, signature, func):
        """Adds an implementation for a pattern."""
        self.funcs[freeze(signature)] = func
        self.ordering = ordering(self.funcs)

    def register(self, *signature):
        """A decorator that adds an implementation."""

        def decorate(func):
            self.add(signature, func)
            return self

        return decorate

    def resolve(self, args):
        """(the implementation for arguments, the values of its pattern's variables).

        Raises:
            NotImplementedError: if no pattern fits.
        """
        for signature in self.ordering:
            if len(signature) == len(args):
                found = unify(freeze(args), signature, {})
                if found is not False:
                    return self.funcs[signature], found
        known = "\n".join(map(str, self.ordering))
        raise NotImplementedError(f"No match found. \nKnown matches: {known or '[]'}\nInput: {args}")

    def __call__(self, *args):
        func, _ = self.resolve(args)
        return func(*args)


class VarDispatcher(Dispatcher):
    """A `Dispatcher` whose implementations take the values of their patterns' variables by name.

    >>> from ftorch.fx.experimental.unification import var
    >>> d, x = VarDispatcher("d"), var("x")
    >>> @d.register("inc", x)
    ... def increment(x):
    ...     return x + 1
    >>> d("inc", 10)
    11
    """

    def __call__(self, *args):
        func, found = self.resolve(args)
        return func(**{v.token: value for v, value in found.items()})


def match(*signature, **kwargs):
    """A decorator that adds an implementation to the function of that name.

    Args:
        namespace: where functions are by name (one of this module). Dispatcher: the class of new ones.
    """
    namespace = kwargs.get("namespace", global_namespace)
    kind = kwargs.get("Dispatcher", Dispatcher)

    def decorate(func):
        name = func.__name__
        if name not in namespace:
            namespace[name] = kind(name)
        namespace[name].add(signature, func)
        return namespace[name]

    return decorate


def supercedes(a, b) -> bool:
    """Whether pattern ``b`` fits whatever ``a`` fits."""
    if isvar(b) and not isvar(a):
        return True
    found = unify(a, b, {})
    if found is False:
        return False
    return all(isvar(key) or not isvar(value) for key, value in found.items()) and bool(reify(a, found) == a)


def edge(a, b, tie_breaker=hash) -> bool:
    """Whether pattern ``a`` is asked before ``b``."""
    if supercedes(a, b):
        return tie_breaker(a) > tie_breaker(b) if supercedes(b, a) else True
    return False


def ordering(signatures) -> list:
    """Patterns in the order in which they are asked: whatever is more specific comes first."""
    rest, found = sorted(map(freeze, signatures), key=repr), []
    while rest:
        free = [s for s in rest if not any(t is not s and edge(t, s) for t in rest)] or rest[:1]
        found += free
        rest = [s for s in rest if s not in free]
    return found
