"""Overload resolution: one function for a name, which picks by the types of the arguments.

What it picked it remembers for arguments of the same types: as a compiled call where types alone
decide, else as the overload to try first.
"""

from __future__ import annotations

from ..call import op as _op
from ..core.public_functions import public_of
from ..dispatch import running_calls
from . import deprecated_signatures
from .mismatch import message, texts

FEW = 8  # elements of a list or tuple whose types are looked at
_MAX_RECIPES = 256


def _types(args, kwargs):
    """A key: the types of the arguments, of the elements of short lists, the names of keywords."""
    key = tuple(map(type, args))
    if kwargs:
        key += (*kwargs, *map(type, kwargs.values()))
    if list in key or tuple in key:
        lists = [a for a in (*args, *kwargs.values()) if type(a) in (list, tuple)]
        key += tuple((len(a), *map(type, a[:FEW])) if len(a) <= FEW else type(a[0]) for a in lists)
    return key


def overloaded(name: str, bounds: list, form: str):
    """A function of several overloads, which are tried in order.

    Args:
        bounds: the `binding.Bound` of each.
        form: "function", "method", "inplace" or "inplace function".
    """
    chosen: dict = {}
    calls: dict = {}
    inplace = form.startswith("inplace")
    writing = [b for b in bounds if form == "function" and "out" in b.definition.forms]

    def function(*args, **kwargs):
        key = _types(args, kwargs)
        found = calls.get(key)
        if found is not None:
            return found(*args, **kwargs)
        out = kwargs.pop("out", None) if kwargs and writing else None
        if out is not None and (override := _override(public_of(function), args, {**kwargs, "out": out})) is not NotImplemented:
            return override
        bound = chosen.get(key)
        matched = None if bound is None else bound.match(args, kwargs)
        if matched is not None:
            if key not in calls and "out" not in key:
                calls[key] = bound.compiled(matched, args, kwargs, inplace)
        else:
            for bound in bounds if out is None else writing:
                matched = bound.match(args, kwargs)
                if matched is not None:
                    if len(chosen) < _MAX_RECIPES:
                        chosen[key] = bound
                    break
            else:
                override = _override(public_of(function), args, kwargs)
                if override is not NotImplemented:
                    return override
                if out is not None:
                    kwargs["out"] = out
                definitions = [b.definition for b in bounds]
                if name in deprecated_signatures.NAMES:
                    made = deprecated_signatures.call(name, form, args, kwargs, lambda: texts(name, definitions, form))
                    if made is not NotImplemented:
                        return made
                raise TypeError(message(name, definitions, form, args, kwargs))
        return bound.invoke([value for _, value in matched], inplace, out)

    function.__name__ = function.__qualname__ = name
    running_calls.own_code(function, name)
    return function


def _override(function, args, kwargs):
    handler = _op.hooks.function_override
    return NotImplemented if handler is None else handler(function, args, kwargs)
