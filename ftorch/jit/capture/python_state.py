"""Python state as it was: of containers, modules and optimizers, to see whether it changed."""

from __future__ import annotations

import operator
import types

from ..._alias import is_own

SCALARS = (int, float, bool, str, bytes, complex, type(None))


def same_scalar(a, b):
    """Whether two values are equal numbers or strings of one type."""
    if type(a) is not type(b) or not isinstance(a, SCALARS):
        return False
    return (a == b and (a != 0 or str(a) == str(b))) or (a != a and b != b)


_BUILTIN = (dict, list, tuple, set, frozenset)


def snapshot(container):
    """What is in a container now. Subclasses' own ``__len__`` and ``__iter__`` are not asked."""
    kind = next((k for k in _BUILTIN if isinstance(container, k)), None)
    if kind is dict:
        return tuple(dict.items(container))
    return tuple(container if kind is None else kind.__iter__(container))


def restore(container, before):
    """Makes a container have again what a `snapshot` says."""
    if isinstance(container, (tuple, frozenset)):
        return
    container.clear()
    (container.update if isinstance(container, (dict, set)) else container.extend)(before)


def unchanged(container, before):
    """Whether a container has what it had."""
    now = snapshot(container)
    if len(now) != len(before):
        return False
    if not isinstance(container, dict) and all(map(operator.is_, now, before)):
        return True
    if isinstance(container, dict):
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
        # The user's own modules are watched by what their code reads.
        library = any(
            is_own(c.__module__) and c.__name__ != "Module" for c in type(module).__mro__
        )
        self.plain = {
            k: v for k, v in module.__dict__.items()
            if isinstance(v, SCALARS) and (library or k == "training")
        }
        self.tables = [
            (table, dict(table)) for table in (module._parameters, module._buffers)
        ]
        self.children = dict(module._modules)
        # How many parts there are matters to what goes through them all.
        own = not type(module).__module__.startswith("ftorch")
        holds = own or type(module).__name__ in ("ParameterList", "ParameterDict", "BufferList", "BufferDict")
        self.lengths = [
            (table, len(table)) for table, counts in (
                (module._modules, own or module._modules), (module._parameters, holds), (module._buffers, holds)
            ) if counts
        ]
        self.hooks = [
            (table, tuple(table.values())) for name in self.HOOKS
            if (table := module.__dict__.get(name)) is not None
        ]


class OptimizerState:
    """An optimizer as it was."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.state = optimizer.state
        self.groups = [_Group(g) for g in optimizer.param_groups]

    def unchanged(self):
        optimizer = self.optimizer
        return optimizer.state is self.state and len(optimizer.param_groups) == len(
            self.groups
        ) and all(map(_Group.holds, self.groups, optimizer.param_groups))


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
    if isinstance(value, (bool, str, type(None))):
        return value
    if isinstance(value, (int, float)):
        return value == 0
    return type(value)


MISSING = object()


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
                return getattr(self.holder, self.key)
            except (AttributeError, ValueError):
                return MISSING
        return self.holder.get(self.key, MISSING)

    def set(self, value):
        if self.attribute:
            object.__setattr__(self.holder, self.key, value) if not isinstance(
                self.holder, types.CellType
            ) else setattr(self.holder, self.key, value)
        elif value is MISSING:
            self.holder.pop(self.key, None)
        else:
            self.holder[self.key] = value
