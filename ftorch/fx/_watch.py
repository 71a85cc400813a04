"""Public functions and tensor methods that hand calls with proxies over, while something is traced.

``__torch_function__`` sees which function was called, but not how its arguments were written; a graph
keeps a call as the program makes it. So for the time of a trace the namespaces hold functions that
look for proxies first. Calls of functions that a program took out of the namespaces before (stored in
a list, say) still arrive through the protocol.
"""

from __future__ import annotations

import functools
import types

from ..eager.tensor import Tensor
from . import _targets
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
def _functions() -> dict[int, types.FunctionType]:
    """{id of a public function: the one that takes its place}."""
    found: dict[int, types.FunctionType] = {}
    for _, functions in _targets.holders():
        for function in functions.values():
            if id(function) not in found:
                found[id(function)] = _watched(function)
    return found


@functools.cache
def _methods() -> dict[str, types.FunctionType]:
    return {
        name: _watched_method(function, _targets.METHOD_OF_OPERATOR.get(name, name))
        for name, function in _targets.methods().items()
    }  # fmt: skip


class Patches:
    """Replacements in dictionaries and of attributes, taken back when the ``with`` ends."""

    def __init__(self):
        self._undo: list = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        while self._undo:
            self._undo.pop()()

    def entry(self, dictionary: dict, key, value) -> None:
        """Replaces an entry of a dictionary."""
        old = dictionary[key]
        self._undo.append(lambda: dictionary.__setitem__(key, old))
        dictionary[key] = value

    def attribute(self, owner: type, name: str, value) -> None:
        """Replaces an attribute of a class."""
        if name in vars(owner):
            old = vars(owner)[name]
            self._undo.append(lambda: setattr(owner, name, old))
        else:
            self._undo.append(lambda: delattr(owner, name))
        setattr(owner, name, value)

    def watch(self) -> None:
        """Watches everything public."""
        _targets.prepare()
        watched = _functions()
        for dictionary, functions in _targets.holders():
            self._undo.append(functools.partial(dictionary.update, functions))
            dictionary.update((k, watched[id(f)]) for k, f in functions.items())
        for name, method in _methods().items():
            self.attribute(Tensor, name, method)

    def watch_scope(self, scope: dict, more: dict[int, object] | None = None) -> None:
        """Watches the public functions, and those of ``more`` (by id), that a dictionary holds."""
        watched = _functions()
        for key, value in list(scope.items()):
            replacement = (more or {}).get(id(value)) or watched.get(id(value))
            if replacement is not None and isinstance(key, str) and not key.startswith("__"):
                self.entry(scope, key, replacement)
