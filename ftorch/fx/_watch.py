"""Public functions and tensor methods that hand calls with proxies over, while something is traced.

``__torch_function__`` sees which function was called, but not how its arguments were written; a graph
keeps a call as the program makes it. So while a thread traces, it calls functions that look for proxies
first (`ftorch.fx._interception`). Calls of functions that a program took out of the namespaces before
(stored in a list, say) still arrive through the protocol.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from ..eager.core.public_functions import is_function
from . import _targets
from ._interception import Interception, original
from .proxy import proxies_in


def _watched(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        proxy = next(proxies_in((args, kwargs)), None)
        if proxy is None:
            return function(*args, **kwargs)
        return type(proxy).__torch_function__(function, (type(proxy),), args, kwargs)

    return call


def _watched_method(function, name):
    @functools.wraps(function)
    def call(*args, **kwargs):
        proxy = next(proxies_in((args, kwargs)), None)
        if proxy is None:
            return function(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return call


@functools.cache
def _functions() -> dict[int, Callable]:
    """{id of a public function: the one that takes its place}."""
    found: dict[int, Callable] = {}
    for _, functions in _targets.holders():
        for function in functions.values():
            if id(function) not in found:
                found[id(function)] = _watched(function)
    return found


@functools.cache
def _methods() -> dict[str, Callable]:
    return {
        name: _watched_method(function, _targets.METHOD_OF_OPERATOR.get(name, name))
        for name, function in _targets.methods().items()
    }


class Patches(Interception):
    """What a trace's thread calls instead, until the ``with`` ends."""

    def watch(self) -> None:
        """Watches everything public."""
        _targets.prepare()
        self.functions(_functions())
        self.methods(_methods())

    def watch_scope(self, scope: dict, more: dict[int, object] | None = None) -> None:
        """Watches the public functions, and those of ``more`` (by id), that a dictionary holds."""
        watched = _functions()
        for key, value in list(scope.items()):
            value = original(value) if is_function(value) else value
            replacement = (more or {}).get(id(value)) or watched.get(id(value))
            if replacement is not None and isinstance(key, str) and not key.startswith("__"):
                self.place(scope, key, replacement)
