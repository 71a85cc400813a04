"""``python tools/stubs.py``: writes ``ftorch/__init__.pyi`` from what the package holds.

Functions and methods are bound at import, where editors and type checkers do not see them; the stub
spells them out. Ops get their signatures from their schemas, everything else from its own.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import os
import types

import ftorch
from ftorch.eager.core import places
from ftorch.eager.core.public_functions import KINDS, python_of
from ftorch.eager.core.registry import OpDef
from ftorch.eager.surface.attach import public_functions
from ftorch.eager.tensor import Tensor

_TYPES = {
    "Tensor": "Tensor", "int": "_int", "SymInt": "_int", "float": "_float", "bool": "_bool",
    "str": "str", "Scalar": "Number", "ScalarType": "dtype", "Device": "DeviceLike",
    "Layout": "layout", "MemoryFormat": "memory_format", "Generator": "Generator",
}

_HEADER = '''\
"""Types of the public names. Written by ``python tools/stubs.py``; do not edit."""
# ruff: noqa

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload
import builtins

from . import {packages}
{imports}

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
Number = builtins.int | builtins.float | builtins.bool | builtins.complex
DeviceLike = device | str | builtins.int
'''


def _argument_type(kind) -> str:
    text = _TYPES.get(kind.base, "Any")
    if kind.is_list:
        text = "_int | Sequence[_int]" if text == "_int" else f"Sequence[{text}]"
    return f"{text} | None" if kind.is_optional else text


def _default(argument) -> str:
    value = argument.default
    if isinstance(value, (builtins.bool, builtins.int, str, type(None))):
        return repr(value)
    return "..."


def _op_signature(definition: OpDef, first: str, takes_out: bool) -> str:
    """The parameters and result of an op as a Python signature."""
    parts, star = [], False
    for i, (a, kind) in enumerate(zip(definition.schema.arguments, definition.kinds)):
        name = first if i == 0 and a.name == "self" else a.name
        if a.is_keyword_only and not star:
            parts.append("*")
            star = True
        text = _argument_type(a.type)
        if i in definition.numbers and not (i == 0 and first == "self"):
            text = text.replace("Tensor", "Tensor | Number")
        if i == 0 and first == "self":
            parts.append("self")
        elif a.has_default:
            parts.append(f"{name}: {text} = {_default(a)}")
        else:
            parts.append(f"{name}: {text}")
    if takes_out:
        if not star:
            parts.append("*")
        parts.append("out: Any = None")
    returns = [_TYPES.get(r.type.base, "Any") for r in definition.schema.returns]
    if any(r.type.is_list for r in definition.schema.returns):
        result = "tuple[Tensor, ...]"
    elif len(returns) == 1:
        result = returns[0]
    else:
        result = f"tuple[{', '.join(returns)}]" if returns else "None"
    return f"({', '.join(_ordered(parts))}) -> {result}"


def _ordered(parts):
    # A parameter without a default may not follow one with: give it one too.
    seen, out = False, []
    for part in parts:
        if part == "*":
            out.append(part)
            continue
        if " = " in part:
            seen = True
        elif seen and part != "self" and "*" not in out:
            part += " = ..."
        out.append(part)
    return out


def _python_signature(function, is_method=False) -> str:
    """The parameters of a Python function, without the types it does not give."""
    try:
        signature = inspect.signature(python_of(function))
    except (TypeError, ValueError):
        return "(self, *args: Any, **kwargs: Any) -> Any" if is_method else \
            "(*args: Any, **kwargs: Any) -> Any"
    parts, star = [], False
    for position, p in enumerate(signature.parameters.values()):
        if p.kind is p.VAR_POSITIONAL:
            parts.append(f"*{p.name}: Any")
            star = True
        elif p.kind is p.VAR_KEYWORD:
            parts.append(f"**{p.name}: Any")
        else:
            if p.kind is p.KEYWORD_ONLY and not star:
                parts.append("*")
                star = True
            plain = p.default is p.empty
            text = "self" if is_method and position == 0 else f"{p.name}: Any"
            parts.append(text if plain else f"{text} = ...")
    return f"({', '.join(parts)}) -> Any"


def _definition(name, value, first, indent="") -> list[str]:
    """The stub lines of one function or method."""
    if not name.isidentifier():
        return []
    is_method = first == "self"
    ops = getattr(python_of(value), "__ftorch_ops__", None) or ()
    if not ops:
        return [f"{indent}def {name}{_python_signature(value, is_method)}: ..."]
    lines = []
    for definition in ops:
        takes_out = not is_method and "out" in definition.forms
        if len(ops) > 1:
            lines.append(f"{indent}@overload")
        signature = _op_signature(definition, first, takes_out)
        lines.append(f"{indent}def {name}{signature}: ...")
    return lines


def _is_function(value):
    return isinstance(value, KINDS)


def _tensor_class() -> list[str]:
    lines = ["class Tensor:"]
    for name, value in sorted(vars(Tensor).items()):
        if name in ("__dict__", "__weakref__", "__doc__", "__module__", "__init_subclass__"):
            continue
        if name == "__new__":
            lines.append("    def __init__(self, *data: Any, device: Any = ...) -> None: ...")
        elif isinstance(value, property):
            kind = {"shape": "Size", "dtype": "dtype", "device": "device", "ndim": "_int",
                    "requires_grad": "_bool", "is_leaf": "_bool"}.get(name)
            kind = kind or ("Tensor" if name in ("T", "mT", "H", "mH", "data", "real", "imag") else "Any")
            lines += ["    @property", f"    def {name}(self) -> {kind}: ..."]
            if value.fset is not None and value.fset.__name__ != "refuse":
                lines += [f"    @{name}.setter", f"    def {name}(self, value: Any) -> None: ..."]
        elif _is_function(value):
            lines += _definition(name, value, "self", "    ")
        elif isinstance(value, (classmethod, staticmethod)):
            lines.append(f"    {name}: Any")
        elif not name.startswith("__"):
            is_plain = value is not None and type(value).__module__ == "builtins"
            lines.append(f"    {name}: {type(value).__name__ if is_plain else 'Any'}")
    return lines


def generate() -> str:
    """The text of ``ftorch/__init__.pyi``."""
    derived = public_functions()
    imported, functions, values = [], [], []
    for name, value in sorted(vars(ftorch).items()):
        if isinstance(value, types.ModuleType) or name == "Tensor" or name in ftorch._ELSEWHERE:
            continue
        if name.startswith("__"):
            continue
        home = _home(value)
        if isinstance(value, type) and home.startswith("ftorch"):
            imported.append(f"from {home.removeprefix('ftorch')} import {value.__name__} as {name}")
        elif derived.get(name) is value and _is_function(value):
            functions += _definition(name, value, "input")
        elif _is_function(value) and home.startswith("ftorch.") and not name.startswith("_"):
            origin = value.__name__
            if getattr(inspect.getmodule(value), origin, None) is value:
                imported.append(f"from {home.removeprefix('ftorch')} import {origin} as {name}")
            else:
                functions += _definition(name, value, "input")
        elif isinstance(value, (ftorch.dtype, ftorch.layout, ftorch.memory_format)):
            values.append(f"{name}: {type(value).__name__}")
        elif not name.startswith("_") and not _is_function(value):
            values.append(f"{name}: Any")
    for name, path in sorted(ftorch._ELSEWHERE.items()):
        imported.append(f"from .{path} import {name} as {name}")
    packages = sorted(
        name for name in ftorch._PACKAGES if _exists(os.path.dirname(ftorch.__file__), name)
    )
    header = _HEADER.format(
        packages=", ".join(f"{p} as {p}" for p in (*packages, "autograd", "random")),
        imports="\n".join(dict.fromkeys(imported)),
    )
    return "\n".join([header, *values, "", *_tensor_class(), "", *functions, ""])


def _home(value):
    """The module in which something is defined; classes of the data model say that it is the package."""
    home = getattr(value, "__module__", None) or ""
    if home != "ftorch" or not isinstance(value, type):
        return home
    modules = (importlib.import_module(f"ftorch.eager.core.{name}") for name in _CORE)
    return next(m.__name__ for m in modules if vars(m).get(value.__name__) is value)


_CORE = ("geometry", "dtype", "formats", "device")


def _exists(folder, name):
    return os.path.exists(os.path.join(folder, name)) or os.path.exists(
        os.path.join(folder, name + ".py")
    )


def path() -> str:
    """Where the stub is kept."""
    return os.path.join(places.PACKAGE, "__init__.pyi")


if __name__ == "__main__":
    with open(path(), "w") as file:
        file.write(generate())
