"""State tracking: on what Python state a function depends, and what it changes, found out while it runs once.

While a program is captured, Python tells `Watch` of every function that is entered (``sys.setprofile``).
For the user's own functions it notes what their code can read: globals, closures, and of the objects
that they are given the attributes that the code names, before the code runs. Those values are the
program's guards. What is different afterwards was changed by the function: tensors are put there again
by each run of the program, a number that changes each time cannot be.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import gc
import os
import sys
import threading
import types
from typing import Any

from ..._alias import is_own
from ...eager import native
from ...eager.native.contexts import contextmanager, putting_back, repeatable
from ...eager.tensor import TensorBase
from . import purity
from .code_names import EVERYTHING, NOTHING
from .code_names import Names as _Names
from .python_state import SCALARS, restore, same_scalar, unchanged
from .reachable_state import Reachable, is_users_class
from .static_attributes import MISSING, attribute, in_class, module_of, scope_of
from .user_code import is_made, is_users

_LOGGING = frozenset(("debug", "info", "warning", "error", "critical", "exception", "log", "warn"))
# Functions of this package that say something about the process, or about where a tensor lies.
_TELLING = frozenset((
    "data_ptr", "_version", "is_leaf", "initial_seed", "get_rng_state", "seed", "get_num_threads",
    "get_num_interop_threads", "are_deterministic_algorithms_enabled", "is_deterministic_algorithms_warn_only_enabled",
    "get_deterministic_debug_mode", "get_float32_matmul_precision",
))
_NOT_OF_OBJECTS = frozenset(("abc", "typing", "enum", "contextlib", "functools", "types", "importlib", "threading"))
_BUILTINS = frozenset(dir(builtins))
_ENVIRONMENT = {
    type(os.environ).__getitem__.__code__: "environment key",
    type(os.environ).__iter__.__code__: "environment",
    type(os.environ).__len__.__code__: "environment",
}
LIBRARY = "library"  # of code of Python's library and NumPy: what it calls in C matters
COLLECTOR = "collector"  # of what Python's collector calls: no part of the call, with all that it calls


_MOST_NEW = 10000  # objects that are looked at in what a function gives
_SEQUENCES = (list, tuple, set, frozenset, collections.deque)
_ITERATORS = frozenset(map(type, (
    iter([]), iter(()), iter({}), iter({}.values()), iter({}.items()), iter(set()), reversed([]), iter(range(0)), iter(""),
    enumerate([]), zip(), map(bool, []), filter(None, []),
)))


class _Collection:
    """Which thread collects garbage now, if any: finalizers of what others left are no part of the call watched.

    It is asked by Python's collector for good (not while something is watched only), so that an interrupt finds nothing
    to be taken back.
    """

    thread: int | None = None

    def note(self, phase, _):
        self.thread = threading.get_ident() if phase == "start" else None

    __call__ = repeatable(note)

    def is_here(self) -> bool:
        return self.thread is not None and self.thread == threading.get_ident()


if native.module is None:
    _collection: Any = _Collection()
    _collects: Any = _collection.is_here
else:  # in C, where an interrupt that came there would not be dropped
    _collection, _collects = native.module.note_collection, native.module.collects
gc.callbacks.append(_collection)


def _codes_of_collector():
    """What others have the collector call, before `_collection` is told that it begins, or after it has ended.
    Hypothesis has a clock there."""
    for callback in gc.callbacks:
        if callback is _collection:
            continue
        callback = getattr(callback, "func", callback)
        if not hasattr(callback, "__code__"):
            callback = getattr(callback, "__func__", type(callback).__call__)
        yield getattr(callback, "__code__", None)


def _parts_of(value) -> list:
    """What a new object refers to, as far as Python's own types and the user's classes show it."""
    kind = type(value)
    sequence = next((k for k in _SEQUENCES if issubclass(kind, k)), None)
    if sequence is not None:
        parts = [*sequence.__iter__(value)]  # not a subclass's own
    elif issubclass(kind, dict):
        parts = [*dict.values(value)]
    elif kind in _ITERATORS:
        parts = [*value.__reduce__()[1]]
    else:
        parts = []
    scope = scope_of(value) if is_users_class(kind) else None
    return parts + [*(scope or {}).values()]


def _function_of(method):
    """The function of Python that a class's item is, or wraps, or None."""
    if issubclass(type(method), (staticmethod, classmethod)):
        method = attribute(method, "__func__")
    return method if type(method) is types.FunctionType else None


class Watch(Reachable):
    """See the module."""

    def __init__(self, capture):
        super().__init__(capture)
        self._entered: set = set()  # codes of the user's functions that ran
        self._before = None
        self._finder = None  # a frame that is no part of the call: of an import hook that is looking for a module

    # --- running

    def __enter__(self):
        self._before = sys.getprofile()
        sys.setprofile(self._event)
        return self

    @repeatable
    def __exit__(self, *_):
        before = self._before
        if before is None or callable(before):
            sys.setprofile(before)
        else:  # `cProfile.Profile`, which Python puts there but does not take back
            sys.setprofile(None)
            before.enable()

    def _event(self, frame, event, arg):
        if _collects():
            return
        if self._finder is not None:
            if frame is self._finder and event == "return":
                self._finder = None
        elif event == "call":
            code = frame.f_code
            if code.co_name == "find_spec" and frame.f_back.f_code.co_filename.startswith("<frozen importlib"):
                self._finder = frame  # a module is looked for once: what that takes is no part of the call
                return
            if code.co_name == "_find_and_load" and code.co_filename.startswith("<frozen importlib") and not (
                self._is_import_of_user(frame)
            ):
                self._finder = frame  # JAX imports what it compiles with when it first does
                return
            if code.co_name == "compile_or_get_cached" and not is_users(code.co_filename):
                self._finder = frame  # and looks into its folder of programs
                return
            names = self._codes.get(code)
            if names is None:
                names = self._codes[code] = self._names_of(code, frame)
                if names.__class__ is _Names and (code.co_freevars or self._calls_from_library(frame)):
                    self._not_named(frame, code)
            if names.__class__ is _Names:
                self._enter(frame, names)
            elif names is False:
                return
            elif names is COLLECTOR:
                self._finder = frame
            elif names is LIBRARY:
                if self._calls_from_user(frame) or code.co_name == "dispatch":
                    self._given_to_library(frame)
            elif names == "logs":
                if self._calls_from_user(frame):
                    self.capture.end(f"logging.{code.co_name} was called")
            elif names == "tells":
                if self._calls_from_user(frame):
                    self.capture.end(f"{code.co_name} was called")
            elif self._is_for_user(frame.f_back):
                self._environment(frame, names)
        elif event == "return":
            if arg is not None and frame.f_back is not None and self._codes.get(frame.f_code).__class__ is _Names:
                self._given_back(frame, arg)
        elif event == "c_call":
            names = self._codes.get(frame.f_code)
            if names.__class__ is _Names:
                if not purity.is_pure(arg) or arg is sys._getframe:
                    self._impure(arg)
            elif names is LIBRARY and not purity.is_pure(arg) and frame.f_code not in purity.MAKING_CLASSES and (
                self._is_for_user(frame.f_back)
            ):
                self._impure(arg)

    def _given_back(self, frame, value):
        """Notes what the user's code that called a function reads of the objects that it was given."""
        if issubclass(type(value), (*SCALARS, TensorBase)):
            return
        caller = frame.f_back
        while caller is not None and self._codes.get(caller.f_code).__class__ is not _Names:
            caller = caller.f_back
        if caller is None:
            return
        names, path = self._codes[caller.f_code], f"{frame.f_code.co_name}()"
        waiting, seen = [value], set()
        while waiting:
            found = waiting.pop()
            if id(found) in seen or issubclass(type(found), (*SCALARS, TensorBase)):
                continue
            seen.add(id(found))
            if id(found) in self.known:
                self.visit(found, names, 1, path)
            elif len(seen) > _MOST_NEW:
                self.capture.end(f"{path} gives too many objects to be watched")
                return
            elif module_of(type(found)) == "itertools":
                self.capture.end(f"{path} is an iterator")
            else:
                waiting += _parts_of(found)

    def _is_for_user(self, frame):
        """Whether the user's code called a frame of Python's library or NumPy, perhaps by others of those."""
        while frame is not None:
            names = self._codes.get(frame.f_code)
            if names is None:
                names = self._codes[frame.f_code] = self._names_of(frame.f_code, frame)
            if names.__class__ is _Names or names is False:
                return names is not False
            frame = frame.f_back
        return False

    def _impure(self, function):
        self.capture.end(f"{getattr(function, '__name__', function)} was called")

    def _environment(self, frame, what):
        """Notes what is read of the environment's variables."""
        held = purity.environment()
        if what == "environment key":
            with contextlib.suppress(Exception):
                key = os.environ.encodekey(frame.f_locals["key"])
                self._place(held, key, held.get(key, MISSING), False, NOTHING, 0, f"os.environ[{key!r}]")
        else:
            self._container(held, NOTHING, 0, "os.environ")

    def _given_to_library(self, frame):
        """Notes the user's objects that are given to a function of Python's library, which may read all of them."""
        if frame.f_code.co_name == "dispatch" and type(frame.f_locals.get("registry")) is dict:  # `singledispatch`
            self._container(frame.f_locals["registry"], NOTHING, 0, "registry")
        if frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_OF_OBJECTS:
            return
        for name, value in frame.f_locals.items():
            if id(value) in self.known and not callable(value) and not issubclass(type(value), types.ModuleType):
                self.visit(value, EVERYTHING, 1, name)

    def _calls_from_library(self, frame):
        """Whether this package or Python's library called, and not to import."""
        file = frame.f_back.f_code.co_filename if frame.f_back is not None else "<frozen"
        return not file.startswith("<frozen") and not is_users(file)

    def _is_import_of_user(self, frame):
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        return frame is None or is_users(frame.f_code.co_filename)

    def _calls_from_user(self, frame):
        back = frame.f_back
        return back is not None and is_users(back.f_code.co_filename)

    def _names_of(self, code, frame):
        if code in _codes_of_collector():
            return COLLECTOR
        if is_users(code.co_filename):
            return False if code.co_filename == "<string>" and is_made(frame.f_globals) else _Names(code)
        scope = frame.f_globals.get("__name__", "")
        root = scope.partition(".")[0]
        if root == "logging" and code.co_name in _LOGGING:
            return "logs"
        if code in _ENVIRONMENT:
            return _ENVIRONMENT[code]
        if is_own(scope) and code.co_name in _TELLING:
            return "tells"
        if root in ("importlib", "_frozen_importlib", "_frozen_importlib_external", "zipimport"):
            return False
        return LIBRARY if root == "numpy" or purity.is_standard(root) else False

    def _not_named(self, frame, code):
        """Notes a function that no name led to: a hook, the kernel of an operator, a closure's method.

        Python does not say which function a frame runs; the collector knows those with its code. Ones that
        are made meanwhile, by a function that ran, are nothing that the call depends on.
        """
        names = code.co_varnames[: code.co_argcount]
        first = frame.f_locals.get(names[0]) if names else None
        is_inner = any(code in maker.co_consts for maker in self._entered)
        method = _function_of(in_class(type(first), code.co_name))
        if method is not None and method.__code__ is code:
            maker = _function_of(in_class(type(first), "__init__"))
            is_new = getattr(maker, "__code__", None) in self._entered or (code.co_name == "__init__" and not scope_of(first))
            if not is_new and not issubclass(type(first), TensorBase):
                self.visit(first, self._codes[code], 0, names[0])
            if code.co_freevars and not is_inner:
                self.function(method)
        elif not code.co_name.startswith("<module") and not is_inner:
            for function in gc.get_referrers(code):
                if isinstance(function, types.FunctionType):
                    self.function(function)

    def makes(self, function) -> bool:
        """Whether a function was made by one that ran."""
        return id(function) not in self.known and any(function.__code__ in maker.co_consts for maker in self._entered)

    @contextmanager
    def trial(self):
        """Within, the user's code runs only to see what it does: what it changes is put back afterwards.

        Gives a list, to which the names of what was changed are added.
        """
        changed: list[str] = []
        inner = Watch(_Tried(changed))
        inner._entered = set(self._entered)
        with putting_back(inner._take_back, changed), inner:
            yield changed

    def _take_back(self, names: list[str]):
        """Puts back what the user's code changed, and adds its names."""
        places, containers = self.changes()
        for place, _ in places:
            place.set(place.value)
        for container, before, _ in containers:
            restore(container, before)
        names += [p.name for p, _ in places]
        names += [name or "a container" for _, _, name in containers]

    def _enter(self, frame, names):
        self._entered.add(frame.f_code)
        if names.attributes is not None and "_base" in names.attributes:
            self.capture.asks_place = True
        scope = frame.f_globals
        for name in names.globals:
            if name in scope:
                self._place(scope, name, scope[name], False, names, 0, name)
            elif name not in _BUILTINS:
                self._absent(scope, name, name)
        for name, level in names.imports:
            module = purity.module_named(name, scope.get("__package__"), level)
            if module is not None:
                self.visit(module, names, 0, name)
        for name, value in frame.f_locals.items():
            # What the function made itself is nothing that it depends on.
            if id(value) in self.known or "param_groups" in (scope_of(value) or ()):
                self.visit(value, names, 0, name)

    # --- afterwards

    def changes(self):
        """(places whose value is another now: [(place, value)]; containers that changed: names)."""
        places = []
        for place in self.places.values():
            now = place.get()
            if now is not place.value and not same_scalar(now, place.value):
                places.append((place, now))
        containers = [
            (container, before, name) for container, before, name in self.containers.values()
            if not unchanged(container, before)
        ]
        for scope, before, name in self.scopes.values():
            if scope.keys() != before:
                self.capture.end(f"attributes of {name or 'an object'} are set by computed names")
        if any(purity.content(value) != before for value, before, _ in self.buffers.values()):
            self.capture.end("an array of NumPy is changed by each call")
        return places, containers


class _Tried:
    """The capture of a `Watch.trial`: what would end one is an effect as well, and does not happen."""

    def __init__(self, changed):
        self._changed = changed

    def end(self, reason):
        self._changed.append(reason)
        raise RuntimeError(reason)
