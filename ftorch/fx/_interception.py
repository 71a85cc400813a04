"""Public functions, tensor methods and attributes of classes that do something else in one thread for a while.

Tracers and recorders have to see calls as they are written, before their arguments are bound. While at least one
is at work, functions stand in the namespaces and in class Tensor which ask what is wanted in the calling thread;
threads that want nothing get the function itself. What stands there is counted under a lock and taken away with
the last one, so any number of threads can trace at once and nothing is left behind.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

from ..eager.core import forking
from ..eager.core.public_functions import is_function
from ..eager.native.contexts import repeatable
from ..eager.tensor import Tensor
from . import _targets


class _Wanted(threading.local):
    """What this thread wants: by the name of a method, the id of a function, or a place."""

    methods: tuple[dict[str, Any], ...] = ()
    functions: tuple[dict[int, Any], ...] = ()

    def __init__(self):
        self.places: dict[tuple, list] = {}


_wanted = _Wanted()
_lock = forking.rlock()
_users: dict[str, set] = {"methods": set(), "functions": set()}  # who wants any
_methods: dict[str, tuple] = {}  # {name: (what class Tensor had of its own or _ABSENT, what it found)}
_places: dict[tuple, tuple] = {}  # {(id of a holder, name): (who wants it, holder, original, dispatcher)}
_ABSENT = object()


# --- tensor methods


def _method(name, original):
    def call(*args, **kwargs):
        for table in _wanted.methods[::-1]:
            found = table.get(name)
            if found is not None:
                return found(*args, **kwargs)
        return original(*args, **kwargs)

    return _like(call, original, name)


def _like(call, original, name):
    functools.update_wrapper(call, original)
    call.__code__ = call.__code__.replace(co_name=name, co_qualname=name)
    call._intercepted = original
    return call


def _attribute(name, original):
    def call(self):
        for table in _wanted.methods[::-1]:
            found = table.get(name)
            if found is not None:
                return (found.fget if isinstance(found, property) else found)(self)
        return original.__get__(self)

    call.__code__ = call.__code__.replace(co_name=name, co_qualname=name)
    return property(call, getattr(original, "fset", None), getattr(original, "fdel", None), original.__doc__)


def tensor_attribute(name: str):
    """What class Tensor has by a name, whoever intercepts it."""
    with _lock:
        if name in _methods:
            return _methods[name][1]
        for cls in Tensor.__mro__:
            if name in vars(cls):
                return vars(cls)[name]
    raise AttributeError(name)


def tensor_attributes() -> dict[str, Any]:
    """What class Tensor has of its own, whoever intercepts it."""
    with _lock:
        own = {name: before for name, (before, _) in _methods.items()}
        return {n: own.get(n, v) for n, v in vars(Tensor).items() if own.get(n, v) is not _ABSENT}


def _show_methods(names):
    for name in names:
        if name not in _methods:
            found = tensor_attribute(name)
            _methods[name] = vars(Tensor).get(name, _ABSENT), found
            is_method = is_function(found)
            setattr(Tensor, name, _method(name, found) if is_method else _attribute(name, found))


def _hide_methods():
    for name, (before, _) in _methods.items():
        if before is not _ABSENT:
            setattr(Tensor, name, before)
        elif name in vars(Tensor):
            delattr(Tensor, name)
    _methods.clear()


# --- functions of namespaces


@functools.cache
def _function(original):
    key = id(original)

    def call(*args, **kwargs):
        for table in _wanted.functions[::-1]:
            found = table.get(key)
            if found is not None:
                return found(*args, **kwargs)
        return original(*args, **kwargs)

    return _like(call, original, original.__name__)


@functools.cache
def _dispatchers():
    return [
        (dictionary, functions, {k: _function(f) for k, f in functions.items()})
        for dictionary, functions in _targets.holders()
    ]


# --- anything else


def _place_dispatcher(key, original):
    def call(*args, **kwargs):
        stack = _wanted.places.get(key)
        return (stack[-1][1] if stack else original)(*args, **kwargs)

    return _like(call, original, getattr(original, "__name__", "call"))


def _get(holder, name):
    return holder.get(name, _ABSENT) if isinstance(holder, dict) else vars(holder).get(name, _ABSENT)


def _set(holder, name, value):
    if isinstance(holder, dict):
        if value is _ABSENT:
            holder.pop(name, None)
        else:
            holder[name] = value
    elif value is _ABSENT:
        delattr(holder, name)
    else:
        setattr(holder, name, value)


class Interception:
    """What this thread wants instead of functions and methods, until the ``with`` ends.

    An interrupt may come anywhere: what undoes a step is noted before it begins, and may be done twice.
    """

    def __init__(self):
        self._undo: list = []

    def __enter__(self):
        return self

    @repeatable
    def __exit__(self, *_):
        while self._undo:
            self._undo[-1]()
            self._undo.pop()

    def methods(self, table: dict[str, Any]) -> None:
        """Tensor methods and properties by name: functions, or properties, that are called instead."""
        user, before = object(), _wanted.methods

        def undo():
            _wanted.methods = before
            with _lock:
                _users["methods"].discard(user)
                if not _users["methods"]:
                    _hide_methods()

        self._undo.append(undo)
        with _lock:
            _users["methods"].add(user)
            _show_methods(table)
        _wanted.methods = (*before, table)

    def functions(self, table: dict[int, Any]) -> None:
        """Public functions by id."""
        user, before = object(), _wanted.functions

        def undo():
            _wanted.functions = before
            with _lock:
                _users["functions"].discard(user)
                if not _users["functions"]:
                    for dictionary, functions, _ in _dispatchers():
                        dictionary.update(functions)

        self._undo.append(undo)
        with _lock:
            is_first = not _users["functions"]
            _users["functions"].add(user)
            for dictionary, _, dispatchers in _dispatchers() if is_first else ():
                dictionary.update(dispatchers)
        _wanted.functions = (*before, table)

    def place(self, holder, name: str, value) -> None:
        """A function in a dictionary, or of a class (also one that it inherits, or has not)."""
        key, user = (id(holder), name), object()

        def undo():
            _wanted.places[key] = [wanted for wanted in _wanted.places.get(key, ()) if wanted[0] is not user]
            with _lock:
                entry = _places.get(key)
                if entry is None:
                    return
                entry[0].discard(user)
                if not entry[0]:
                    if _get(holder, name) is entry[3]:
                        _set(holder, name, entry[2])
                    _places.pop(key, None)

        self._undo.append(undo)
        with _lock:
            entry = _places.get(key)
            if entry is None:
                before = _get(holder, name)
                found = before
                if found is _ABSENT:
                    found = value if isinstance(holder, dict) else getattr(holder, name, value)
                entry = _places[key] = {user}, holder, before, _place_dispatcher(key, found)
                _set(holder, name, entry[3])
            entry[0].add(user)
        _wanted.places.setdefault(key, []).append((user, value))


def original(function):
    """The function that another one of this module asks for."""
    return getattr(function, "_intercepted", function)
