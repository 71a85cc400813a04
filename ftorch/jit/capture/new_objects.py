"""Object reconstruction: what objects of Python a compiled function returns, each run makes anew, as it would.

A closure that the function makes gets cells of its own, an object of a class written in Python a dictionary of its own: what
is in them are results like others. What nobody can make again (iterators, modules) ends the capture.
"""

from __future__ import annotations

import array
import collections
import copy
import functools
import types

import numpy as np

from ..._alias import is_own
from . import purity
from .python_state import SCALARS, look
from .static_attributes import (
    MISSING,
    attribute,
    in_class,
    module_of,
    mro_of,
    scope_of,
    vars_of,
)

_COPIED = (bytearray, array.array, np.ndarray)
_ALWAYS = (*SCALARS, type, types.ModuleType, *purity.IMMUTABLE, *purity.HARMLESS)


def describe(value, results):
    """How a run makes a value that is neither a tensor nor a list, tuple or dictionary: a recipe for `make`.

    Args:
        results: `Results`, which describe the parts.
    """
    captured, known = results.captured, results.captured.known
    if id(value) in known or (issubclass(type(value), _ALWAYS) and not issubclass(type(value), types.BuiltinFunctionType)):
        return "constant", value
    found = results.objects.get(id(value))
    if found is not None:
        if id(value) in results.begun:
            raise captured.Unsupported(f"a {type(value).__name__} that holds itself is made by each call")
        return found
    recipe: list = ["object", value]  # holds the value, so that its id is no other's
    results.objects[id(value)] = recipe

    def part(x):
        return results._any(x, results.slots)

    def called(maker, parts):
        results.begun.add(id(value))
        recipe[:] = "call", value, maker, [part(x) for x in parts]
        results.begun.discard(id(value))

    if issubclass(type(value), types.FunctionType):
        made = captured.trace.watch.makes(value)
        recipe[:] = _function(value, captured, part, results) if made else ("constant", value)
    elif issubclass(type(value), types.MethodType):
        called(types.MethodType, (value.__func__, value.__self__))
    elif issubclass(type(value), types.BuiltinFunctionType):
        owner = attribute(value, "__self__")
        if owner is not None and not issubclass(type(owner), types.ModuleType) and id(owner) not in known:
            raise captured.Unsupported(f"a method of a new {type(owner).__name__} is made by each call")
        recipe[:] = "constant", value
    elif type(value) is functools.partial:
        keys = list(value.keywords)
        called(functools.partial(_partial, keys), (value.func, *value.keywords.values(), *value.args))
    elif type(value) in (set, frozenset):
        called(functools.partial(_gathered, type(value)), value)
    elif type(value) is collections.deque:
        maker = functools.partial(_gathered, functools.partial(collections.deque, maxlen=value.maxlen))
        called(maker, value)
    elif issubclass(type(value), types.MappingProxyType):
        called(types.MappingProxyType, [dict(value)])
    elif issubclass(type(value), BaseException):
        called(functools.partial(_exception, type(value)), (value.args, dict(vars(value))))
    elif issubclass(type(value), _COPIED):
        recipe[:] = "copy", value, copy.copy(value)
    elif in_class(type(value), "__next__") is not MISSING:
        raise captured.Unsupported(f"{type(value).__name__}, an iterator, is made by each call")
    else:
        _object(recipe, value, captured, part)
    return recipe


def _function(value, captured, part, results):
    cells = []
    for cell in value.__closure__ or ():
        found = results.objects.get(id(cell))
        if found is None and id(cell) in captured.cells:
            found = "constant", cell
        elif found is None:
            found = results.objects[id(cell)] = ["cell", cell, None]
            try:
                found[2] = part(cell.cell_contents)
            except ValueError:
                pass  # nothing is in it yet
        cells.append(found)
    extra = [part(x) for x in (value.__defaults__, value.__kwdefaults__, dict(value.__dict__))]
    return "function", value, cells, extra


def _object(recipe, value, captured, part):
    from ...nn import Module

    kind = type(value)
    if issubclass(type(value), Module):
        raise captured.Unsupported(f"{kind.__name__}, a module, is made by each call")
    items = [(k, True, v) for k, v in dict.items(value)] if issubclass(type(value), dict) else []
    scope = scope_of(value)
    attributes = [] if scope is None else [(k, False, v) for k, v in scope.items()]
    for base in mro_of(kind):
        if "__slots__" in vars_of(base):
            for name, slot in vars_of(base).items():
                if type(slot) is types.MemberDescriptorType:
                    try:
                        attributes.append((name, False, look(value, name)))
                    except AttributeError:
                        pass  # nothing was put there
    base = purity.c_base(kind)
    library = purity.is_library(module_of(kind)) or is_own(module_of(kind))
    if not (items or attributes) or (library and not holds([v for *_, v in (*items, *attributes)])):
        empty = issubclass(type(value), (dict, list)) or (base is object and not library)
        recipe[:] = ("copy", value, copy.copy(value)) if empty and not callable(value) else ("constant", value)
        return
    plain = base is object and in_class(kind, "__new__") is object.__new__
    described = [(k, is_item, part(v)) for k, is_item, v in (*items, *attributes)]
    recipe[:] = "object", kind if plain else copy.copy(value), described, value


def holds(value):
    """Whether there is a tensor in a value."""
    from ...eager.tensor import TensorBase

    if issubclass(type(value), TensorBase):
        return True
    if issubclass(type(value), dict):
        return holds([*dict.values(value), *(scope_of(value) or {}).values()])
    if issubclass(type(value), (list, tuple)):
        return any(map(holds, value))
    scope = None if issubclass(type(value), type) or callable(value) else scope_of(value)
    return bool(scope) and any(map(holds, scope.values()))


def _partial(keys, function, *values):
    named = dict(zip(keys, values))
    return functools.partial(function, *values[len(keys) :], **named)


def _exception(kind, args, scope):
    made = kind.__new__(kind, *args)
    made.args = args
    vars(made).update(scope)
    return made


def _gathered(kind, *elements):
    return kind(elements)


def make(recipe, making, memo):
    """What a recipe gives in a run: ``making`` makes the parts, ``memo`` keeps what is made."""
    kind = recipe[0]
    if kind == "call":
        return recipe[2](*map(making, recipe[3]))
    if kind == "copy":
        return copy.copy(recipe[2])
    if kind == "cell":
        cell = memo[id(recipe)] = types.CellType()
        if recipe[2] is not None:
            cell.cell_contents = making(recipe[2])
        return cell
    if kind == "function":
        return _made_function(recipe, making, memo)
    template = recipe[1]
    if issubclass(type(template), type):
        result = memo[id(recipe)] = object.__new__(template)
    else:
        result = memo[id(recipe)] = copy.copy(template)
    for key, is_item, part in recipe[2]:
        if is_item:
            result[key] = making(part)
        else:
            object.__setattr__(result, key, making(part))
    return result


def _made_function(recipe, making, memo):
    _, old, cells, extra = recipe
    new, waiting = [], []
    for how in cells:
        if how[0] == "constant":
            new.append(how[1])
            continue
        cell = memo.get(id(how))
        if cell is None:
            cell = memo[id(how)] = types.CellType()
            waiting.append((cell, how[2]))
        new.append(cell)
    function = types.FunctionType(old.__code__, old.__globals__, old.__name__, None, tuple(new) or None)
    memo[id(recipe)] = function  # before what is in the cells, which may be the function
    function.__qualname__, function.__module__, function.__doc__ = old.__qualname__, old.__module__, old.__doc__
    function.__annotations__ = dict(old.__annotations__)
    function.__defaults__, function.__kwdefaults__, scope = map(making, extra)
    function.__dict__.update(scope)
    for cell, how in waiting:
        if how is not None:
            cell.cell_contents = making(how)
    return function
