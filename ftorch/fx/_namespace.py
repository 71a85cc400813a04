"""``Namespace``: unique names that are legal in generated code."""

from __future__ import annotations

import builtins
import keyword
import math
import re
from typing import Any, NamedTuple

_ILLEGAL = re.compile(r"[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"(.+)_(\d+)$")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


class CustomBuiltin(NamedTuple):
    """A name that generated code may use without asking: how it is imported, and what it is."""

    import_str: str
    obj: Any


def custom_builtins() -> dict[str, CustomBuiltin]:
    """The names every generated function has in its globals."""
    import ftorch

    from ..utils import _pytree as pytree
    from . import _pytree as fx_pytree

    return {
        "inf": CustomBuiltin("from math import inf", math.inf),
        "nan": CustomBuiltin("from math import nan", math.nan),
        "NoneType": CustomBuiltin("NoneType = type(None)", type(None)),
        "torch": CustomBuiltin("import ftorch as torch", ftorch),
        "device": CustomBuiltin("from ftorch import device", ftorch.device),
        "fx_pytree": CustomBuiltin("import ftorch.fx._pytree as fx_pytree", fx_pytree),
        "pytree": CustomBuiltin("import ftorch.utils._pytree as pytree", pytree),
    }


def snake_case(text: str) -> str:
    """``"MyModule"`` as ``"my_module"``."""
    return _HUMP.sub("_", text).lower()


class Namespace:
    """Gives out names: each once, each object its own."""

    def __init__(self):
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._counts: dict[str, int] = {}
        self._reserved = custom_builtins()

    def create_name(self, candidate: str, obj: Any | None) -> str:
        """A name like ``candidate`` that is free; the same again for the same object.

        Args:
            obj: what the name stands for, or None if that does not matter.
        """
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        candidate = _ILLEGAL.sub("_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        match = _NUMBERED.match(candidate)
        base, number = (match[1], int(match[2])) if match else (candidate, 0)
        if match:
            candidate = f"{base}_{number}"
        number = number or self._counts.get(base, 0)
        while candidate in self._used_names or self._is_illegal(candidate, obj):
            number += 1
            candidate = f"{base}_{number}"
        self._used_names.add(candidate)
        self._counts[base] = number
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Says what a name stands for that was given out for nothing in particular."""
        self._obj_to_name.setdefault(obj, name)

    def _rename_object(self, obj: Any, name: str) -> None:
        self._obj_to_name[obj] = name
        self._used_names.add(name)

    def _is_illegal(self, name, obj):
        if keyword.iskeyword(name):
            return True
        if hasattr(builtins, name):
            return obj is not getattr(builtins, name)
        return name in self._reserved and obj is not self._reserved[name].obj
