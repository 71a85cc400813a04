"""Dataclass inputs: objects that are made anew for each call, such as a batch as a dataclass, settings in a namespace.

Arguments that are no containers are known by their identity, and a function that is given another object
each time would be compiled each time. Once a second object of a class comes, calls are made with what
objects of that class hold: the function is given copies, and what it changes of these is changed in the
objects.
"""

from __future__ import annotations

import types
from typing import Any

from ...eager.tensor import TensorBase
from ...utils import _pytree as pytree
from .python_state import CONSTANTS, SCALARS
from .static_attributes import MISSING, in_class, mro_of, scope_of, vars_of

_DATA = (TensorBase, *SCALARS, *CONSTANTS)
_MAKERS = (object.__new__, types.SimpleNamespace.__new__)
_DEEPEST = 4  # objects in objects
NONE = frozenset()  # of classes, and there will be none


class Stand:
    """Stands for the object of a number among a call's arguments and results."""

    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return other.__class__ is Stand and other.number == self.number

    def __hash__(self):
        return hash((Stand, self.number))


def is_data(value, classes: set[type], depth=0) -> bool:
    """Whether an object is of plain Python and holds only data: tensors, numbers, containers, such objects.

    Args:
        classes: is given its class and those of objects in it.
    """
    cls = type(value)
    plain = (
        in_class(cls, "__new__") in _MAKERS and type(in_class(cls, "__getattribute__")) is types.WrapperDescriptorType
        and not any(in_class(cls, name) is not MISSING for name in ("__next__", "__del__"))
        and not any("__slots__" in vars_of(c) for c in mro_of(cls)[:-1])
    )
    if not plain or depth > _DEEPEST or callable(value) or issubclass(type(value), (type, *_DATA)) or not scope_of(value):
        return False  # one without attributes is known by its identity
    classes.add(cls)
    leaves = pytree.tree_leaves(scope_of(value))
    return all(issubclass(type(x), _DATA) or is_data(x, classes, depth + 1) for x in leaves)


def classes_of(leaves, held, method) -> set[type]:
    """The classes of a call's objects of which others were given before.

    Args:
        held: the leaves of calls before.
        method: the function's name; an object that has it as its method is what it works for, no data.
    """
    known = {type(x): x for before in held for x in before}
    found: set[type] = set()
    for x in leaves:
        classes: set[type] = set()
        if known.get(type(x), x) is not x and in_class(type(x), method) is MISSING and is_data(x, classes):
            found |= classes
    return found


def call(compiled, classes, args, kwargs):
    """Calls a compiled form of `run` with what objects of the classes hold."""
    objects: list[Any] = []
    numbers: dict[int, int] = {}

    def closed(x):
        if type(x) not in classes:
            return x
        if id(x) not in numbers:
            numbers[id(x)] = len(objects)
            objects.append(x)
        return Stand(numbers[id(x)])

    args, kwargs = pytree.tree_map(closed, (args, kwargs))
    held = []
    for x in objects:  # grows meanwhile, by objects in objects
        held.append((type(x), pytree.tree_map(closed, dict(vars(x)))))
    results, changes = compiled(held, args, kwargs)

    def own(x):
        return objects[x.number] if type(x) is Stand else x

    for x, (new, gone) in zip(objects, changes, strict=True):
        for name, value in pytree.tree_map(own, new).items():
            old = vars(x).get(name)
            if type(old) is type(value) is list:
                old[:] = value
            elif type(old) is type(value) is dict:
                old.clear()
                old.update(value)
            else:
                vars(x)[name] = value
        for name in gone:
            vars(x).pop(name, None)
    return pytree.tree_map(own, results)


def _is_same(value, before):
    """Whether a value is what it was, taken apart by pytree."""
    if before is None:
        return False
    leaves, structure = pytree.tree_flatten(value)
    return structure == before[1] and all(a is b for a, b in zip(leaves, before[0], strict=True))


def run(function, held, args, kwargs):
    """``function`` with copies of objects: (its results, of each object what is new and what is gone)."""
    copies = [cls.__new__(cls) for cls, _ in held]
    numbers = {id(x): n for n, x in enumerate(copies)}

    def own(x):
        return copies[x.number] if type(x) is Stand else x

    def closed(x):
        return Stand(numbers[id(x)]) if id(x) in numbers else x

    before = []
    for x, (_, values) in zip(copies, held, strict=True):
        vars(x).update(pytree.tree_map(own, values))
        before.append({k: pytree.tree_flatten(v) for k, v in vars(x).items()})
    args, kwargs = pytree.tree_map(own, (args, kwargs))
    results = pytree.tree_map(closed, function(*args, **kwargs))
    changes = [
        (
            pytree.tree_map(closed, {k: v for k, v in vars(x).items() if not _is_same(v, values.get(k))}),
            [k for k in values if k not in vars(x)],
        )
        for x, values in zip(copies, before, strict=True)
    ]
    return results, changes
