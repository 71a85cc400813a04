"""Python state as it was: of containers, modules and optimizers, to see whether it changed."""

from __future__ import annotations

import operator

SCALARS = (int, float, bool, str, bytes, complex, type(None))


def same_scalar(a, b):
    """Whether two values are equal numbers or strings of one type."""
    return type(a) is type(b) and isinstance(a, SCALARS) and (a == b or (a != a and b != b))


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
            c.__module__.startswith("ftorch") and c.__name__ != "Module" for c in type(module).__mro__
        )
        self.plain = {
            k: v for k, v in module.__dict__.items()
            if isinstance(v, SCALARS) and (library or k == "training")
        }  # fmt: skip
        self.tables = [
            (table, dict(table)) for table in (module._parameters, module._buffers)
        ]
        self.children = dict(module._modules)
        self.hooks = [
            (table, tuple(table.values())) for name in self.HOOKS
            if (table := module.__dict__.get(name)) is not None
        ]  # fmt: skip


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
