"""Reachability: what Python objects a function's code can reach, in containers, attributes, closures, classes, modules.

`Reachable` walks from a value along the names in the code that is given it (`code_names`). What it finds
there becomes guards. A bound of the walk, or an object whose state nobody here knows, ends the capture.
"""

from __future__ import annotations

import collections
import functools
import logging
import operator
import os
import sys
import threading
import types
from typing import Any

from ..._alias import is_own
from ...eager.tensor import TensorBase
from . import purity
from .code_names import EVERYTHING, NOTHING, Names
from .python_state import (
    SCALARS,
    ModuleState,
    OptimizerState,
    Place,
    length,
    look,
    modules_in,
    snapshot,
)
from .static_attributes import (
    MISSING,
    attribute,
    in_class,
    module_of,
    mro_of,
    scope_of,
    vars_of,
)
from .user_code import is_users

_CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque)
_VIEWS = (type({}.keys()), type({}.values()), type({}.items()))
_PLAIN = (list, tuple, dict, set, frozenset, collections.deque, collections.OrderedDict, collections.defaultdict)
_OF_TYPES = frozenset(dir(type))
_LARGEST = 4096  # elements of a container that guards compare
_DEEPEST = 64
_MOST = 20000  # objects that are looked at in one capture


class _Imported:
    """The modules that are there, as a state that is watched: their number."""

    @property
    def count(self):
        return len(sys.modules)

    @count.setter
    def count(self, _):
        """Imports are not taken back."""


_IMPORTED = _Imported()
_DECIMAL = purity.DecimalContext()


def is_users_class(kind) -> bool:
    """Whether a class is of the user's own code."""
    module = module_of(kind)
    return is_users(attribute(sys.modules.get(module), "__file__") or "<user>") and not purity.is_standard(module)


class Reachable:
    """See the module.

    Attributes:
        places: {(id of a holder, key): `Place`}.
        containers: {id: (container, its elements before, its name)}.
        buffers: {id: (array of NumPy or another buffer, its content, its name)}.
        scopes: {id: (an object's attributes that code computes names of, which there were, its name)}.
        modules, optimizers: those that the function uses, children included.
        known: ids of objects that were there before.
        given: ids of the containers among the arguments: others may come with the next call.
    """

    def __init__(self, capture):
        self.capture = capture
        self.places: dict[tuple, Place] = {}
        self.containers: dict[int, tuple] = {}
        self.buffers: dict[int, tuple] = {}
        self.scopes: dict[int, tuple] = {}
        self.modules: dict[int, Any] = {}
        self.optimizers: dict[int, Any] = {}
        self.held: list = []  # what ids stand for
        self.known: set[int] = set()
        self.given: set[int] = set()
        self._visited: set = set()
        self._codes: dict = {}  # {code: its names, or what it is otherwise}

    def _place(self, holder, key, value, attribute, names, depth, path):
        at = (id(holder), key)
        if at not in self.places:
            self.places[at] = Place(holder, key, value, attribute, path)
        self.visit(value, names, depth, path)

    def arguments(self, args, kwargs):
        """Notes the arguments of the call."""
        for value in (*args, *kwargs.values()):
            self.visit(value, NOTHING, 1, "argument")
        inside: list = [args, kwargs]
        while inside:
            value = inside.pop()
            if id(value) not in self.given and issubclass(type(value), (list, tuple, dict)):
                self.given.add(id(value))
                kind = next(k for k in (dict, list, tuple) if issubclass(type(value), k))
                inside += dict.values(value) if kind is dict else kind.__iter__(value)  # not a subclass's own

    def function(self, function, names=None):
        """Notes a function's closure and defaults."""
        while issubclass(type(function), functools.partial):
            for value in (*attribute(function, "args"), *attribute(function, "keywords").values()):
                self.visit(value, names or NOTHING, 1, "")
            function = attribute(function, "func")
        if issubclass(type(function), types.MethodType):
            self.visit(function.__self__, names or NOTHING, 1, "self")
            function = function.__func__
        code = attribute(function, "__code__")
        while type(code) is types.CodeType and not is_users(code.co_filename):  # a decorator's, of a library
            function = attribute(function, "__wrapped__")
            code = attribute(function, "__code__")
        if not issubclass(type(function), types.FunctionType):
            return
        own = self._codes.get(code)
        if own is None:
            own = self._codes[code] = Names(code)
        for key in ("__defaults__", "__kwdefaults__"):
            held, path = getattr(function, key), f"the defaults of {function.__name__}"
            if type(held) is tuple and all(issubclass(type(value), SCALARS) for value in held):
                self.places.setdefault((id(function), key), Place(function, key, held, True, path))
            elif held:
                self._place(function, key, held, True, own, 1, path)
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            self._place(cell, "cell_contents", value, True, own, 1, name)
        if function.__dict__ and names is not None:
            scope = function.__dict__
            for name in scope if names.attributes is None else names.attributes & scope.keys():
                if name != "__wrapped__":
                    self._place(scope, name, scope[name], False, names, 2, f"{function.__name__}.{name}")

    def visit(self, value, names, depth, path):
        """Notes what code with the given names can read of a value."""
        kind = type(value)
        if issubclass(type(value), SCALARS):
            return
        key = (id(value), id(names))
        if key in self._visited:
            return
        if issubclass(type(value), TensorBase):
            if scope := scope_of(value):
                self._scope(scope, names, depth, path)
            return
        if depth > _DEEPEST or len(self._visited) > _MOST:
            self.capture.end(f"{path.partition('.')[0] or kind.__name__} refers to too many objects to be watched")
            return
        if purity.is_decimal(value):
            self._place(_DECIMAL, "rounding", _DECIMAL.rounding, True, NOTHING, depth, "decimal.getcontext()")
        self._visited.add(key)
        self.known.add(id(value))
        self.held.append((value, names))
        if issubclass(type(value), _CONTAINERS):
            self._container(value, names, depth, path)
            if kind not in _PLAIN and scope_of(value):
                self._attributes(value, names, depth, path)
        elif issubclass(type(value), (types.FunctionType, types.MethodType, functools.partial)):
            self.function(value, names)
        elif issubclass(type(value), type):
            if is_users_class(value):
                self._class(value, names, depth, path)
        elif issubclass(type(value), types.ModuleType):
            self._module(value, names, depth, path)
        elif kind is operator.attrgetter and names.attributes is not None:
            self.capture.end(f"{path or 'an attrgetter'} reads attributes that no code names")
        elif issubclass(type(value), purity.IMMUTABLE) or issubclass(type(value), purity.HARMLESS):
            return
        else:
            self._object(value, kind, names, depth, path)

    def _container(self, value, names, depth, path):
        if id(value) not in self.containers:
            if length(value) > _LARGEST:
                self.capture.end(f"{path or 'a container'} has {length(value)} elements, too many to be watched")
                return
            self.containers[id(value)] = (value, snapshot(value), path)
        is_dict = issubclass(type(value), dict)
        for item in self.containers[id(value)][1]:
            item = item[1] if is_dict else item
            if not issubclass(type(item), SCALARS):
                self.visit(item, names, depth + 1, path)

    def _scope(self, scope, names, depth, path):
        """Notes what a dictionary of attributes has of the names."""
        for name in list(scope) if names.attributes is None else names.attributes & scope.keys():
            self._place(scope, name, scope[name], False, names, depth + 1, f"{path}.{name}")

    def _absent(self, scope, name, path):
        """Notes that a dictionary has not what code asks for."""
        if (id(scope), name) not in self.places:
            self.places[id(scope), name] = Place(scope, name, MISSING, False, path)

    def _module(self, module, names, depth, path):
        scope: dict[str, Any] = scope_of(module) or {}
        name = str(scope.get("__name__"))
        root, own = name.partition(".")[0], is_own(name)
        if root in ("jax", "jaxlib"):
            return
        if (
            own
            and names.attributes is not None
            and "backends" in names.attributes & scope.get("_PACKAGES", frozenset())
        ):
            module.backends  # noqa: B018  the switches are there before the code asks for them: it is imported when used
        if names.attributes is None:
            wanted = scope.keys() if self._is_users_module(module) else names.globals & scope.keys()
        else:
            wanted = names.attributes & scope.keys()
        if self._is_users_module(module):
            for name in wanted:
                if not name.startswith("__"):
                    self._place(scope, name, scope[name], False, names, depth + 1, f"{path}.{name}")
            return
        for name in wanted:
            value = scope[name]
            if issubclass(type(value), (types.FunctionType, type, types.BuiltinFunctionType)):
                continue
            if scope["__name__"] == "numpy.random" and callable(value):
                self.capture.end(f"{path}.{name} was called")
            elif value is sys.modules:
                # Which modules there are changes by imports only, which make them more.
                self._place(_IMPORTED, "count", len(value), True, names, depth + 1, f"{path}.{name}")
            elif issubclass(type(value), types.ModuleType):
                if str((scope_of(value) or {}).get("__name__")).partition(".")[0] == root:
                    self.visit(value, names, depth + 1, f"{path}.{name}")
            elif issubclass(type(value), SCALARS):
                if not own or not name.startswith("_"):
                    self._place(scope, name, value, False, names, depth + 1, f"{path}.{name}")
            elif not own and root != "numpy" and value is not os.environ:
                self._place(scope, name, value, False, names, depth + 1, f"{path}.{name}")
        flags = scope.get("_flags")  # of `torch.backends`
        if own and type(flags) is dict and names.attributes is not None:
            self._scope(flags, names, depth, path)

    @staticmethod
    def _is_users_module(module):
        file, name = attribute(module, "__file__"), str(attribute(module, "__name__"))
        return (is_users(file) if file else name.partition(".")[0] not in sys.stdlib_module_names) and (
            not is_own(name)
        )

    def _object(self, value, kind, names, depth, path):
        from ...nn import Module
        from ...optim import Optimizer
        from ...optim.lr_scheduler import LRScheduler

        if issubclass(type(value), Module):
            for m in modules_in(value):
                if id(m) not in self.modules:
                    self.modules[id(m)] = ModuleState(m)
                    self.known.add(id(m))
                scope = self.modules[id(m)].scope
                if not is_own(module_of(type(m))):
                    self._attributes(m, names, depth, path)
                else:
                    self._put_on(m, scope, names, depth, path)
                    for hook in (*scope["_forward_hooks"].values(), *scope["_forward_pre_hooks"].values()):
                        self.visit(hook, names, depth, "hook")
                for p in scope["_parameters"].values():
                    if p is not None and scope_of(p):
                        self.visit(p, names, depth, path)
            return
        scope: dict[str, Any] = scope_of(value) or {}
        # What is the optimizer's own, not another's that properties show.
        if issubclass(type(value), Optimizer) and "param_groups" in scope and "state" in scope:
            if id(value) not in self.optimizers:
                self.optimizers[id(value)] = OptimizerState(value)
            if names.attributes is not None and "param_groups" in names.attributes:
                self._container(scope["param_groups"], names, depth, f"{path}.param_groups")
            return
        if issubclass(type(value), LRScheduler):
            self.visit(scope.get("optimizer"), EVERYTHING, depth, "optimizer")
            for name in ("_last_lr", "last_epoch"):
                if names.attributes is not None and (
                    name in names.attributes or f"get{name}" in names.attributes
                ):
                    self._place(scope, name, scope.get(name), False, names, depth, f"{path}.{name}")
            return
        if issubclass(type(value), logging.Logger):
            while scope:
                for name in ("level", "disabled", "parent"):
                    self._place(scope, name, scope.get(name), False, NOTHING, depth, f"{path}.{name}")
                scope = scope_of(scope.get("parent")) or {}
            return
        if issubclass(type(value), types.MappingProxyType) or kind in _VIEWS:
            if kind in _VIEWS:
                self.capture.end(f"{path or 'a view'} shows a dictionary")
            elif value and not issubclass(type(next(iter(value.values()))), types.FunctionType):
                self.capture.end(f"{path or 'a mapping proxy'} shows another dictionary")
            return
        if names.attributes is not None and issubclass(type(value), purity.WEAK):
            self.capture.end(f"{path or 'a weak reference'} refers to what may vanish")
            return
        if in_class(kind, "__next__") is not MISSING:
            self.capture.end(f"{path or kind.__name__} is an iterator")
            return
        if purity.of_library(value):
            self._attributes(value, names, depth, path)
            return
        if issubclass(type(value), purity.BUFFERS):
            self._buffer(value, path)
        elif names.attributes is not None and purity.is_unknown(value):
            self.capture.end(f"{path or 'an object'} is of {kind.__name__}, a class whose state cannot be watched")
            return
        standard = purity.is_library(module_of(kind)) and kind is not types.SimpleNamespace
        if standard and names.attributes is not None and not issubclass(type(value), (threading.local, property)):
            names = EVERYTHING  # the library's methods read what they want
        self._attributes(value, names, depth, path)

    def _put_on(self, module, scope, names, depth, path):
        """Notes what code reads of attributes that users gave a module of the library; scalars are in its state."""
        tables = {id(table) for table, _ in (*self.modules[id(module)].tables, *self.modules[id(module)].hooks)}
        tables.add(id(self.modules[id(module)].parts))
        for name in list(scope) if names.attributes is None else names.attributes & scope.keys():
            value = scope[name]
            if id(value) not in tables and not issubclass(type(value), SCALARS):
                self._place(scope, name, value, False, names, depth + 1, f"{path}.{name}")

    def _buffer(self, value, path):
        if id(value) not in self.buffers:
            content = purity.content(value)
            if content is None:
                self.capture.end(f"{path or 'an array'} is too large, or of objects, to be watched")
            self.buffers[id(value)] = (value, content, path)

    def _class(self, kind, names, depth, path):
        """Notes what the user's classes that a class inherits from say."""
        seen: set = set()
        for base in (*mro_of(kind), *mro_of(type(kind))):
            if module_of(base) == "builtins" or not is_users_class(base):
                continue
            scope = vars_of(base)
            for name in list(scope) if names.attributes is None else names.attributes & scope.keys():
                if not name.startswith("__") and name not in seen:
                    self._class_item(scope, name, names, depth, path)
            if names.attributes is not None:
                for name in names.attributes - scope.keys() - seen - _OF_TYPES:
                    if in_class(kind, name) is not MISSING or in_class(type(kind), name) is not MISSING:
                        self._absent(scope, name, f"{path}.{name}")
                seen |= names.attributes & scope.keys()

    def _class_item(self, scope, name, names, depth, path):
        item = scope[name]
        if issubclass(type(item), (types.GetSetDescriptorType, types.MemberDescriptorType)):
            return
        self._place(scope, name, item, False, names, depth + 1, f"{path}.{name}")
        if issubclass(type(item), (staticmethod, classmethod)):
            self.visit(attribute(item, "__func__"), names, depth + 1, path)

    def _attributes(self, value, names, depth, path):
        kind = type(value)
        own = is_own(module_of(kind))
        every = own or names.attributes is None
        if issubclass(type(value), threading.local):
            if in_class(kind, "__getattribute__") is not vars(threading.local)["__getattribute__"]:
                self.capture.end(f"{path or 'an object'} is of {kind.__name__}, whose attributes are each thread's own")
                return
            scope = look(value, "__dict__")
            for name in names.attributes or scope:
                at = scope.get(name, in_class(kind, name))
                if name in scope or issubclass(type(at), SCALARS) or (at is MISSING and name in names.asked):
                    self._place(value, name, at, True, names, depth + 1, f"{path}.{name}")
            self._class(kind, names, depth, path)
            return
        scope = scope_of(value)
        if scope is not None:
            for name in list(scope) if every else names.attributes & scope.keys():
                if own and not issubclass(type(scope[name]), (*SCALARS, TensorBase)):
                    continue
                self._place(scope, name, scope[name], False, names, depth + 1, f"{path}.{name}")
        if own:
            return
        if every:
            if scope is not None:
                self.scopes.setdefault(id(scope), (scope, frozenset(scope), path))
            if scope is not None and id(value) not in self.modules:
                self.places.setdefault((id(value), "__class__"), Place(value, "__class__", kind, True, f"{path}.__class__"))
            self._data_of_classes(kind, scope or (), names, depth, path)
            for name in names.asked - scope.keys() if scope is not None else ():
                if in_class(kind, name) is MISSING:
                    self._absent(scope, name, f"{path}.{name}")
            return
        self._named_of_class(value, kind, scope, names, depth, path)

    def _data_of_classes(self, kind, scope, names, depth, path):
        """Notes what the user's classes of an object say that is no function, where code reads attributes by computed names."""
        seen = set(scope)
        for base in mro_of(kind):
            if is_users_class(base) and module_of(base) != "builtins":
                for name, item in [*vars_of(base).items()]:
                    if name not in seen and not name.startswith("__") and not callable(item) and (
                        in_class(type(item), "__get__") is MISSING
                    ):
                        self._class_item(vars_of(base), name, names, depth, path)
                    seen.add(name)

    def _named_of_class(self, value, kind, scope, names, depth, path):
        """Notes what an object's class has of the names, and where the object or another class may come to have it."""
        wanted = names.attributes if scope is None else names.attributes - scope.keys()
        if not wanted:
            return
        if id(value) in self.modules:
            tables = [scope.get(k) or () for k in ("_parameters", "_buffers", "_modules")]
            wanted = {n for n in wanted if not any(n in table for table in tables)}
        elif scope is not None and (id(value), "__class__") not in self.places:
            self.places[id(value), "__class__"] = Place(value, "__class__", kind, True, f"{path}.__class__")
        found: set = set()
        above = []  # classes before the one that has a name
        for base in mro_of(kind):
            if module_of(base) == "builtins" or is_own(module_of(base)):
                continue
            own = vars_of(base)
            for name in wanted & own.keys() if "__slots__" in own else ():
                if type(own[name]) is types.MemberDescriptorType:
                    at = attribute(value, name, MISSING)
                    if at is not MISSING:
                        self._place(value, name, at, True, names, depth + 1, f"{path}.{name}")
            for name in (wanted & own.keys()) - found:
                found.add(name)
                self._class_item(own, name, names, depth, path)
                for other in above:
                    self._absent(vars_of(other), name, f"{path}.{name}")
                if scope is not None and not issubclass(type(own[name]), property):
                    self._absent(scope, name, f"{path}.{name}")
            above.append(base)
        if scope is not None:
            for name in (wanted & names.asked) - found:
                if in_class(kind, name) is MISSING:
                    self._absent(scope, name, f"{path}.{name}")
