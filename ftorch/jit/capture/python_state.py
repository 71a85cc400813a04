"""Snapshots of Python state: containers, modules and optimizers as they were, to see whether they changed."""

from __future__ import annotations

import collections
import operator
import types
from collections.abc import Iterator
from typing import Any

from ..._alias import is_own
from ...eager.core import device as _device
from ...eager.core import dtype as _dtype
from ...eager.core import formats
from .static_attributes import MISSING, in_class, module_of, mro_of, scope_of

SCALARS = (int, float, bool, str, bytes, complex, type(None))
CONSTANTS = (_dtype.dtype, _device.device, formats.memory_format, formats.layout, formats.qscheme)


def same_scalar(a, b):
    """Whether two values are equal numbers or strings of one type."""
    if type(a) is not type(b) or not issubclass(type(a), SCALARS):
        return False
    return (a == b and (a != 0 or str(a) == str(b))) or (a != a and b != b)


_BUILTIN = (dict, list, tuple, set, frozenset, collections.deque)


def builtin_of(container) -> type:
    """Python's own container that a container's class inherits from."""
    return next(k for k in _BUILTIN if issubclass(type(container), k))


def snapshot(container):
    """What is in a container now. Subclasses' own ``__len__`` and ``__iter__`` are not asked."""
    kind = builtin_of(container)
    return tuple(dict.items(container) if kind is dict else kind.__iter__(container))


def length(container) -> int:
    """The number of a container's elements, of which subclasses are not asked either."""
    return builtin_of(container).__len__(container)


def restore(container, before):
    """Makes a container have again what a `snapshot` says."""
    if issubclass(type(container), (tuple, frozenset)):
        return
    container.clear()
    (container.update if issubclass(type(container), (dict, set)) else container.extend)(before)


def unchanged(container, before):
    """Whether a container has what it had."""
    now = snapshot(container)
    if len(now) != len(before):
        return False
    if not issubclass(type(container), dict) and all(map(operator.is_, now, before)):
        return True
    if issubclass(type(container), dict):
        for (k, v), (key, w) in zip(now, before):
            if (v is not w and not same_scalar(v, w)) or (k is not key and k != key):
                return False
        return True
    return all(v is w or same_scalar(v, w) for v, w in zip(now, before))


class ModuleState:
    """A module as it was: its tables of tensors and its plain attributes."""

    HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

    def __init__(self, module):
        self.module = module
        kind = type(module)
        self.scope: dict[str, Any] = scope_of(module) or {}
        parameters, buffers, self.parts = (self.scope[k] for k in ("_parameters", "_buffers", "_modules"))
        # The user's own modules are watched by what their code reads.
        library = any(is_own(module_of(c)) and c.__name__ != "Module" for c in mro_of(kind))
        self.plain = {
            k: v for k, v in self.scope.items() if issubclass(type(v), SCALARS) and (library or k == "training")
        }
        # Objects whose content is part of the program, as packed weights are: others take their place.
        self.packed = {
            k: v for k, v in self.scope.items() if library and in_class(type(v), "is_replaced_whole") is not MISSING
        }
        self.tables = [(table, dict(table)) for table in (parameters, buffers)]
        self.children = dict(self.parts)
        # How many parts there are matters to what goes through them all.
        own = not module_of(kind).startswith("ftorch")
        holds = own or kind.__name__ in ("ParameterList", "ParameterDict", "BufferList", "BufferDict")
        self.lengths = [
            (table, len(table)) for table, counts in (
                (self.parts, own or self.parts), (parameters, holds), (buffers, holds)
            ) if counts
        ]
        self.hooks = [
            (table, tuple(table.values())) for name in self.HOOKS
            if (table := self.scope.get(name)) is not None
        ]


def modules_in(module) -> Iterator[Any]:
    """A module and those in it, each once, as ``modules()`` gives them."""
    seen, waiting = set(), [module]
    while waiting:
        module = waiting.pop()
        if id(module) not in seen:
            seen.add(id(module))
            yield module
            parts = (scope_of(module) or {}).get("_modules", {})
            waiting += [m for m in reversed([*parts.values()]) if m is not None]


class OptimizerState:
    """An optimizer as it was."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.scope: dict[str, Any] = scope_of(optimizer) or {}
        self.state = self.scope["state"]
        self.groups = [_Group(g) for g in self.scope["param_groups"]]

    def unchanged(self):
        groups = self.scope["param_groups"]
        return self.scope["state"] is self.state and len(groups) == len(self.groups) and (
            all(map(_Group.holds, self.groups, groups))
        )


class _Group:
    """What of a parameter group is part of the program."""

    def __init__(self, group):
        self.params, self.count = group["params"], len(group["params"])
        self.options = [(k, _option(v)) for k, v in group.items() if k != "params"]
        self.seen = dict(group)  # the values that were last found to be right

    def holds(self, group):
        if len(self.params) != self.count:
            return False
        if len(group) == len(self.seen) and all(map(operator.is_, group.values(), self.seen.values())):
            return True
        if group["params"] is not self.params or any(_option(group.get(k)) != v for k, v in self.options):
            return False
        self.seen = dict(group)
        return True


def _option(value):
    """What of a hyperparameter is part of the program: of numbers, whether they are zero."""
    if issubclass(type(value), (bool, str, type(None))):
        return value
    if issubclass(type(value), (int, float)):
        return value == 0
    return type(value)


def look(holder, key):
    """What an object has as an attribute; raises ``AttributeError`` or ``ValueError`` if it has none.

    Slots are read as such. What else is read so are a thread's own objects, cells, and states of this package.
    """
    slot = in_class(type(holder), key)
    return slot.__get__(holder) if type(slot) is types.MemberDescriptorType else getattr(holder, key)


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
                return look(self.holder, self.key) if self.key != "__class__" else type(self.holder)
            except (AttributeError, ValueError):
                return MISSING
        return self.holder.get(self.key, MISSING)

    def set(self, value):
        if self.attribute:
            object.__setattr__(self.holder, self.key, value) if not issubclass(type(self.holder), types.CellType
            ) else setattr(self.holder, self.key, value)
        elif value is MISSING:
            self.holder.pop(self.key, None)
        else:
            self.holder[self.key] = value
