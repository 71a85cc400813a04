"""Sources of the methods that ``dataclasses.dataclass`` makes: ``__init__``, ``__eq__`` and the comparisons."""

from __future__ import annotations

import dataclasses
import linecache
import typing

_ORDER = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}
_GENERATED = {
    "__init__", "__repr__", "__eq__", "__hash__", "__replace__", "__setattr__", "__delattr__", "__getstate__",
    "__setstate__", *_ORDER,
}


def with_source(cls: type, functions: dict) -> dict:
    """The functions of a data class that programs can have: what was generated is written out.

    Raises:
        NotImplementedError: for a field with a ``default_factory``.
    """
    found = {}
    for name, function in functions.items():
        if not _is_generated(name, function):
            found[name] = function
        elif name == "__init__":
            found[name] = _init(cls)
        elif name == "__eq__":
            found[name] = _comparison(cls, name, "==", " and ")
        elif name in _ORDER:
            found[name] = _ordering(cls, name, _ORDER[name])
    return found


def _is_generated(name, function):
    if name not in _GENERATED:
        return False
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return code is None or code.co_filename in ("<string>", dataclasses.__file__)


def _made(cls, name, text, scope):
    """A function of a text, which ``inspect.getsource`` finds."""
    file = f"<{cls.__module__}.{cls.__qualname__}.{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope.setdefault("__name__", cls.__module__)
    exec(compile(text, file, "exec"), scope)
    return scope[name]


def _init(cls):
    hints, scope, arguments, body = typing.get_type_hints(cls), {}, [], []
    for field in dataclasses.fields(cls):
        if field.default_factory is not dataclasses.MISSING:
            raise NotImplementedError("Default factory initializers are not supported in TorchScript dataclasses")
        if not field.init:
            continue
        scope[f"_type_{field.name}"] = hints[field.name]
        argument = f"{field.name}: _type_{field.name}"
        if field.default is not dataclasses.MISSING:
            scope[f"_default_{field.name}"] = field.default
            argument += f" = _default_{field.name}"
        arguments.append(argument)
        body.append(f"    self.{field.name} = {field.name}\n")
    if hasattr(cls, "__post_init__"):
        body.append("    self.__post_init__()\n")
    text = f"def __init__(self, {', '.join(arguments)}) -> None:\n" + ("".join(body) or "    pass\n")
    return _made(cls, "__init__", text, scope)


def _comparison(cls, name, sign, between):
    parts = [f"self.{f.name} {sign} other.{f.name}" for f in dataclasses.fields(cls) if f.compare]
    text = f"def {name}(self, other: _type_self) -> bool:\n    return {between.join(parts) or 'True'}\n"
    return _made(cls, name, text, {"_type_self": cls})


def _ordering(cls, name, sign):
    fields = [f.name for f in dataclasses.fields(cls) if f.compare]
    lines = [f"def {name}(self, other: _type_self) -> bool:\n"]
    for field in fields:
        lines.append(f"    if self.{field} != other.{field}:\n        return self.{field} {sign[0]} other.{field}\n")
    lines.append(f"    return {'=' in sign}\n")
    return _made(cls, name, "".join(lines), {"_type_self": cls})
