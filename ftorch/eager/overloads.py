"""Names with several overloads: one function that picks by the types of the arguments.

What it picked it remembers for arguments of the same types: as a compiled call where types alone
decide, else as the overload to try first.
"""

from __future__ import annotations

from . import op as _op
from . import overrides

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
        form: "function", "method" or "inplace".
    """
    chosen: dict = {}
    calls: dict = {}
    inplace = form == "inplace"

    def function(*args, **kwargs):
        key = _types(args, kwargs)
        found = calls.get(key)
        if found is not None:
            return found(*args, **kwargs)
        out = kwargs.pop("out", None) if kwargs else None
        bound = chosen.get(key)
        matched = None if bound is None else bound.match(args, kwargs)
        if matched is not None:
            if key not in calls and "out" not in key:
                calls[key] = bound.compiled(matched, args, kwargs, inplace)
        else:
            for bound in bounds:
                matched = bound.match(args, kwargs)
                if matched is not None:
                    if len(chosen) < _MAX_RECIPES:
                        chosen[key] = bound
                    break
            else:
                override = _override(function, args, kwargs)
                if override is not NotImplemented:
                    return override
                raise TypeError(_no_match(name, bounds, args, kwargs))
        return bound.invoke([value for _, value in matched], inplace, out)

    function.__name__ = function.__qualname__ = name
    overrides.own_code(function, name)
    return function


def _override(function, args, kwargs):
    handler = _op.hooks.get("function_override")
    return NotImplemented if handler is None else handler(function, args, kwargs)


def _no_match(name, bounds, args, kwargs):
    got = [type(a).__name__ for a in args]
    got += [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
    lines = [
        f"{name}() received an invalid combination of arguments - got ({', '.join(got)}), but "
        "expected one of:"
    ]
    for bound in bounds:
        parts, star = [], False
        for parameter, a, _ in bound.parameters:
            if a.is_keyword_only and not star:
                parts.append("*")
                star = True
            parts.append(f"{_type_text(a.type)} {parameter}"
                         + (f" = {a.default_text}" if a.has_default else ""))  # fmt: skip
        lines.append(f" * ({', '.join(parts)})")
    return "\n".join(lines) + "\n"


def _type_text(kind):
    names = {"SymInt": "int", "ScalarType": "torch.dtype"}
    if kind.base == "Scalar" and not kind.is_list:
        return "Number"
    base = names.get(kind.base, kind.base)
    return f"tuple of {base}s" if kind.is_list else base


