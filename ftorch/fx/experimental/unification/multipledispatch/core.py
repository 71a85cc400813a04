"""``@dispatch(int, float)``: adds an implementation to the function of that name."""

from __future__ import annotations

import inspect

from .dispatcher import Dispatcher, MethodDispatcher

__all__ = ["dispatch", "ismethod"]

global_namespace: dict = {}


def dispatch(*types, **kwargs):
    """A decorator: the function is an implementation, for these classes of arguments, of a function of its name.

    >>> @dispatch(int)
    ... def half(x):
    ...     return x // 2
    >>> @dispatch(float)
    ... def half(x):
    ...     return x / 2
    >>> half(3), half(3.0)
    (1, 1.5)
    """
    namespace = kwargs.get("namespace", global_namespace)

    def decorate(func):
        name = func.__name__
        if ismethod(func):
            scope = inspect.currentframe().f_back.f_locals  # type: ignore[union-attr]
            dispatcher = scope.get(name, MethodDispatcher(name))
        else:
            dispatcher = namespace.setdefault(name, Dispatcher(name))
        dispatcher.add(types, func)
        return dispatcher

    return decorate


def ismethod(func) -> bool:
    """Whether a function's first parameter is ``self``."""
    return next(iter(inspect.signature(func).parameters), None) == "self"
