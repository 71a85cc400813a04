"""On what Python state a function depends, and what it changes, found out while it runs once.

While a program is captured, Python tells `Watch` of every function that is entered (``sys.setprofile``).
For the user's own functions it notes what their code can read: globals, closures, and of the objects
that they are given the attributes that the code names, before the code runs. Those values are the
program's guards. What is different afterwards was changed by the function: tensors are put there again
by each run of the program, a number that changes each time cannot be.
"""

from __future__ import annotations

import collections
import contextlib
import dis
import functools
import gc
import os
import sys
import sysconfig
import types
from typing import Any

from ..eager.tensor import TensorBase
from .state import (
    SCALARS,
    ModuleState,
    OptimizerState,
    restore,
    same_scalar,
    snapshot,
    unchanged,
)  # fmt: skip

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_SITE = tuple({os.path.join(sysconfig.get_paths()[k], "") for k in ("purelib", "platlib")})
_SKIPPED_PACKAGES = ("jax", "jaxlib", "numpy", "ml_dtypes", "opt_einsum")
_CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque)
_OPAQUE = (types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.GetSetDescriptorType)
_LARGEST = 256  # elements of a container that are looked at one by one
_DEEPEST = 6
MISSING = object()

# Built-in functions whose effect or result a program would not repeat.
_IMPURE_MODULES = frozenset(("time", "_random", "posix", "_io", "_socket", "secrets", "io", "random",
                             "_warnings"))  # fmt: skip
_IMPURE = frozenset(("print", "input", "open", "breakpoint"))
_IMPURE_OWNERS = ("random", "numpy.random", "_io", "_random")
_LOGGING = frozenset(("debug", "info", "warning", "error", "critical", "exception", "log", "warn"))
_BY_NAME = frozenset(("getattr", "setattr", "hasattr", "delattr", "vars", "__dict__"))


def is_users(filename: str) -> bool:
    """Whether a file is the user's code: not this package, Python's library, JAX or NumPy."""
    if filename.startswith((_HERE, "<frozen", "<ftorch")):
        return False
    for site in _SITE:
        if filename.startswith(site):
            return filename[len(site) :].split(os.sep, 1)[0] not in _SKIPPED_PACKAGES
    return not filename.startswith(_STDLIB)


def _is_made(scope) -> bool:
    """Whether code without a file is what the standard library made: a named tuple's, or of a library's class, whose
    globals it has."""
    package, _, rest = scope.get("__name__", "").partition(".")
    return package in ("ftorch", *_SKIPPED_PACKAGES) or (package.startswith("namedtuple_") and not rest)


def users_line() -> str:
    """Where the user's code is now, as PyTorch's errors say it."""
    import linecache

    frame = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return ""
    name, line = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(name, line).strip()
    text = f'\n\nfrom user code:\n   File "{name}", line {line}, in {frame.f_code.co_name}\n'
    return text + (f"    {source}\n" if source else "")


class _Names:
    """What a code object can reach: names of globals, and of attributes (None: any)."""

    def __init__(self, code):
        self.globals: set[str] = set()
        self.attributes: set[str] | None = set()
        self._add(code)

    def _add(self, code):
        strings, by_name = set(), False
        for step in dis.get_instructions(code):
            name = step.opname
            if step.opcode not in dis.hasname:
                continue
            if name.endswith(("_GLOBAL", "_GLOBALS", "_NAME")):
                self.globals.add(step.argval)
                by_name = by_name or step.argval in _BY_NAME
            elif "ATTR" in name or "METHOD" in name:
                if self.attributes is not None:
                    self.attributes.add(step.argval)
                by_name = by_name or step.argval in _BY_NAME
        for constant in code.co_consts:
            if isinstance(constant, str) and constant.isidentifier():
                strings.add(constant)
            elif isinstance(constant, types.CodeType):
                self._add(constant)
        if by_name:
            self.attributes = None
        elif self.attributes is not None:
            self.attributes |= strings if by_name else set()

    def wants(self, name):
        return self.attributes is None or name in self.attributes


NOTHING = _Names((lambda: None).__code__)


class Place:
    """Where a value was found: an item of a dictionary (``attribute`` false) or an attribute."""

    __slots__ = ("holder", "key", "value", "attribute", "name")

    def __init__(self, holder, key, value, attribute, name):
        self.holder, self.key, self.value = holder, key, value
        self.attribute, self.name = attribute, name

    @property
    def label(self):
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    def get(self):
        if self.attribute:
            try:
                return getattr(self.holder, self.key)
            except (AttributeError, ValueError):
                return MISSING
        return self.holder.get(self.key, MISSING)

    def set(self, value):
        if self.attribute:
            object.__setattr__(self.holder, self.key, value) if not isinstance(
                self.holder, types.CellType
            ) else setattr(self.holder, self.key, value)
        elif value is MISSING:
            self.holder.pop(self.key, None)
        else:
            self.holder[self.key] = value


class Watch:
    """See the module.

    Attributes:
        places: {(id of a holder, key): `Place`}.
        containers: {id: (container, its elements before, its name)}.
        modules, optimizers: those that the function uses, children included.
        reason: why a program would not do the same as the function, or None.
    """

    def __init__(self, capture):
        self.capture = capture
        self.places: dict[tuple, Place] = {}
        self.containers: dict[int, tuple] = {}
        self.modules: dict[int, Any] = {}
        self.optimizers: dict[int, Any] = {}
        self.held: list = []  # what ids stand for
        self.known: set[int] = set()  # ids of objects that were there before
        self._visited: set = set()
        self._codes: dict = {}
        self._entered: set = set()  # codes of the user's functions that ran
        self._before = None

    # --- running

    def __enter__(self):
        self._before = sys.getprofile()
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_):
        before = self._before
        if before is None or callable(before):
            sys.setprofile(before)
        else:  # `cProfile.Profile`, which Python puts there but does not take back
            sys.setprofile(None)
            before.enable()

    def _event(self, frame, event, arg):
        if event == "call":
            code = frame.f_code
            names = self._codes.get(code)
            if names is None:
                names = self._codes[code] = self._names_of(code, frame)
                if names.__class__ is _Names and (code.co_freevars or self._calls_from_library(frame)):
                    self._not_named(frame, code)
            if names.__class__ is _Names:
                self._enter(frame, names)
            elif names == "logs" and self._calls_from_user(frame):
                self.capture.end(f"logging.{code.co_name} was called")
        elif event == "c_call" and self._codes.get(frame.f_code).__class__ is _Names:
            self._built_in(arg)

    def _calls_from_library(self, frame):
        """Whether this package or Python's library called, and not to import."""
        file = frame.f_back.f_code.co_filename if frame.f_back is not None else "<frozen"
        return not file.startswith("<frozen") and not is_users(file)

    def _calls_from_user(self, frame):
        back = frame.f_back
        return back is not None and is_users(back.f_code.co_filename)

    def _names_of(self, code, frame):
        if is_users(code.co_filename):
            return False if code.co_filename == "<string>" and _is_made(frame.f_globals) else _Names(code)
        if code.co_name in _LOGGING and frame.f_globals.get("__name__") == "logging":
            return "logs"
        return False

    def _built_in(self, function):
        name = getattr(function, "__name__", "")
        owner = getattr(function, "__self__", None)
        kind = type(owner).__module__ if owner is not None else None
        module = getattr(function, "__module__", None)
        if module is None and isinstance(owner, types.ModuleType):
            module = owner.__name__
        if (
            (module in ("builtins", None) and name in _IMPURE) or module in _IMPURE_MODULES
            or (kind and kind.startswith(_IMPURE_OWNERS))
        ):  # fmt: skip
            self.capture.end(f"{name} was called")

    def _not_named(self, frame, code):
        """Notes a function that no name led to: a hook, the kernel of an operator, a closure's method.

        Python does not say which function a frame runs; the collector knows those with its code. Ones that
        are made meanwhile, by a function that ran, are nothing that the call depends on.
        """
        names = code.co_varnames[: code.co_argcount]
        first = frame.f_locals.get(names[0]) if names else None
        is_inner = any(code in maker.co_consts for maker in self._entered)
        method = getattr(type(first), code.co_name, None)
        if getattr(method, "__code__", None) is code:
            maker = getattr(type(first).__init__, "__code__", None)
            if maker not in self._entered and not isinstance(first, TensorBase):
                self.visit(first, self._codes[code], 0, names[0])
            if code.co_freevars and not is_inner:
                self.function(method)
        elif not code.co_name.startswith("<module") and not is_inner:
            for function in gc.get_referrers(code):
                if isinstance(function, types.FunctionType):
                    self.function(function)

    @contextlib.contextmanager
    def trial(self):
        """Within, the user's code runs only to see what it does: what it changes is put back afterwards.

        Gives a list, to which the names of what was changed are added.
        """
        changed: list[str] = []
        inner = Watch(_Tried(changed))
        inner._entered = set(self._entered)
        try:
            with inner:
                yield changed
        finally:
            places, containers = inner.changes()
            for place, _ in places:
                place.set(place.value)
            for container, before, _ in containers:
                restore(container, before)
            changed += [p.name for p, _ in places]
            changed += [name or "a container" for _, _, name in containers]

    def _enter(self, frame, names):
        self._entered.add(frame.f_code)
        scope = frame.f_globals
        for name in names.globals:
            if name in scope:
                self._place(scope, name, scope[name], False, names, 0, name)
        for name, value in frame.f_locals.items():
            # What the function made itself is nothing that it depends on.
            if id(value) in self.known or hasattr(value, "param_groups"):
                self.visit(value, names, 0, name)

    # --- what can be reached

    def _place(self, holder, key, value, attribute, names, depth, path):
        at = (id(holder), key)
        if at not in self.places:
            self.places[at] = Place(holder, key, value, attribute, path)
        self.visit(value, names, depth, path)

    def arguments(self, args, kwargs):
        """Notes the arguments of the call."""
        for value in (*args, *kwargs.values()):
            self.visit(value, NOTHING, 1, "argument")

    def function(self, function, names=None):
        """Notes a function's closure and defaults."""
        while isinstance(function, functools.partial):
            for value in (*function.args, *function.keywords.values()):
                self.visit(value, names or NOTHING, 1, "")
            function = function.func
        if isinstance(function, types.MethodType):
            self.visit(function.__self__, names or NOTHING, 1, "self")
            function = function.__func__
        code = getattr(function, "__code__", None)
        while code is not None and not is_users(code.co_filename):  # a decorator's, of a library
            function = getattr(function, "__wrapped__", None)
            code = getattr(function, "__code__", None)
        if not isinstance(function, types.FunctionType):
            return
        own = self._codes.get(code)
        if own is None:
            own = self._codes[code] = _Names(code)
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self.visit(value, own, 1, "a default")
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            self._place(cell, "cell_contents", value, True, own, 1, name)

    def visit(self, value, names, depth, path):
        """Notes what code with the given names can read of a value."""
        kind = type(value)
        if isinstance(value, SCALARS) or depth > _DEEPEST:
            return
        key = (id(value), id(names))
        if key in self._visited:
            return
        if isinstance(value, TensorBase):
            return
        self._visited.add(key)
        self.known.add(id(value))
        self.held.append((value, names))
        if isinstance(value, _CONTAINERS):
            self._container(value, names, depth, path)
        elif isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            self.function(value, names)
        elif isinstance(value, type):
            if is_users(getattr(sys.modules.get(value.__module__), "__file__", None) or "<user>"):
                self._namespace(value.__dict__, names, depth, path)
        elif isinstance(value, types.ModuleType):
            file = getattr(value, "__file__", None)
            if file and is_users(file) and not value.__name__.startswith("ftorch"):
                self._namespace(value.__dict__, names, depth, path)
        elif isinstance(value, _OPAQUE):
            return
        else:
            self._object(value, kind, names, depth, path)

    def _container(self, value, names, depth, path):
        if id(value) not in self.containers:
            self.containers[id(value)] = (value, snapshot(value), path)
        held = self.containers[id(value)][1]
        if len(held) > _LARGEST:
            return
        for item in held:
            self.visit(item[1] if isinstance(value, dict) else item, names, depth + 1, path)

    def _namespace(self, scope, names, depth, path):
        for name in scope if names is None or names.attributes is None else names.attributes:
            if name in scope and not name.startswith("__"):
                self._place(scope, name, scope[name], False, names, depth + 1, f"{path}.{name}")

    def _object(self, value, kind, names, depth, path):
        from ..nn import Module
        from ..optim import Optimizer
        from ..optim.lr_scheduler import LRScheduler

        if isinstance(value, Module):
            for m in value.modules():
                if id(m) not in self.modules:
                    self.modules[id(m)] = ModuleState(m)
                    self.known.add(id(m))
                if not type(m).__module__.startswith("ftorch"):
                    self._attributes(m, names, depth, path)
                elif m._forward_hooks or m._forward_pre_hooks:
                    for hook in (*m._forward_hooks.values(), *m._forward_pre_hooks.values()):
                        self.visit(hook, names, depth, "hook")
            return
        if isinstance(value, Optimizer):
            if id(value) not in self.optimizers:
                self.optimizers[id(value)] = OptimizerState(value)
            if names is not None and names.attributes is not None and (
                "param_groups" in names.attributes
            ):
                self._container(value.param_groups, names, depth, f"{path}.param_groups")
            return
        if isinstance(value, LRScheduler):
            self.visit(value.optimizer, None, depth, "optimizer")
            for name in ("_last_lr", "last_epoch"):
                if names is not None and names.attributes is not None and (
                    name in names.attributes or f"get{name}" in names.attributes
                ):
                    self._place(value.__dict__, name, value.__dict__.get(name), False, names,
                                depth, f"{path}.{name}")  # fmt: skip
            return
        if hasattr(kind, "__next__"):
            self.capture.end(f"{path or kind.__name__} is an iterator")
            return
        self._attributes(value, names, depth, path)

    def _attributes(self, value, names, depth, path):
        kind = type(value)
        own = kind.__module__.startswith("ftorch")
        scope = getattr(value, "__dict__", None)
        every = own or names is None or names.attributes is None
        if isinstance(scope, dict):
            for name in list(scope) if every else names.attributes & scope.keys():
                if own and not isinstance(scope[name], (*SCALARS, TensorBase)):
                    continue
                self._place(scope, name, scope[name], False, names, depth + 1, f"{path}.{name}")
            if not every:
                tables = [scope.get(k) or () for k in ("_parameters", "_buffers", "_modules")]
                for name in names.attributes - scope.keys():
                    if any(name in table for table in tables):
                        continue
                    # Not there yet: the code may put it there, also where the class has a value.
                    at = (id(scope), name)
                    if at not in self.places and isinstance(
                        getattr(kind, name, None), (*SCALARS, *_CONTAINERS, TensorBase)
                    ):
                        self.places[at] = Place(scope, name, MISSING, False, f"{path}.{name}")
        if own or every:
            return
        for base in kind.__mro__:
            if base.__module__ == "builtins" or base.__module__.startswith("ftorch"):
                continue
            for name in getattr(base, "__slots__", ()):
                if names.wants(name) and hasattr(value, name) and isinstance(name, str):
                    self._place(value, name, getattr(value, name), True, names, depth + 1,
                                f"{path}.{name}")  # fmt: skip
            for name in names.attributes & base.__dict__.keys():
                item = base.__dict__[name]
                if isinstance(item, (*SCALARS, *_CONTAINERS, TensorBase)):
                    self._place(base.__dict__, name, item, False, names, depth + 1, f"{path}.{name}")
                elif isinstance(item, types.FunctionType):
                    self.function(item)

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
        ]  # fmt: skip
        return places, containers


class _Tried:
    """The capture of a `Watch.trial`: what would end one is an effect as well, and does not happen."""

    def __init__(self, changed):
        self._changed = changed

    def end(self, reason):
        self._changed.append(reason)
        raise RuntimeError(reason)
