"""Static attribute access: what Python objects hold, read without running code of theirs.

``isinstance``, ``getattr`` and ``hasattr`` ask a class's own ``__getattribute__``, ``__class__`` and properties; those
of its metaclass, where the object is a class. The watch looks at objects that the user's code may never touch, so it
reads them as the interpreter itself does: by their types (``issubclass(type(value), kind)``, here and wherever captures
ask of what class an object is), dictionaries and slots.
"""

from __future__ import annotations

import types
from typing import Any

MISSING = object()

# The getters of `type` itself, which no metaclass stands before.
mro_of = vars(type)["__mro__"].__get__
vars_of = vars(type)["__dict__"].__get__
_MODULE = vars(type)["__module__"].__get__
_OF_C = (types.MemberDescriptorType, types.GetSetDescriptorType)


def module_of(kind: type) -> str:
    """The name of the module that a class was made in."""
    name = _MODULE(kind)
    return name if type(name) is str else ""


def in_class(kind: type, name: str) -> Any:
    """What a class or those that it inherits from have under a name, as it lies there; `MISSING` if nothing."""
    for base in mro_of(kind):
        found = vars_of(base).get(name, MISSING)
        if found is not MISSING:
            return found
    return MISSING


def scope_of(value) -> dict | None:
    """The dictionary of an object's own attributes, if it has one."""
    for base in mro_of(type(value)):
        found = vars_of(base).get("__dict__")
        if type(found) in _OF_C:  # not a property that the class shows in its place
            return found.__get__(value)
    return None


def attribute(value, name: str, default: Any = None) -> Any:
    """An attribute: a slot's or a C member's value, else what is in the object's dictionary, else in its class."""
    found = in_class(type(value), name)
    if type(found) in _OF_C:
        try:
            return found.__get__(value)
        except (AttributeError, ValueError):  # an empty slot, an empty cell
            return default
    scope = scope_of(value)
    if scope is not None and name in scope:
        return scope[name]
    return default if found is MISSING else found
