"""``torch.utils.deterministic.fill_uninitialized_memory``: a flag of a module, kept where the setting is."""

from __future__ import annotations

import sys
import types

_fill = [True]


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether ``empty`` fills its memory in deterministic mode; it does always, with zeros."""
        return _fill[0]

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode):
        if type(mode) is not bool:
            raise TypeError(f"mode must be a bool, but got {type(mode)}")
        _fill[0] = mode


sys.modules[__name__].__class__ = _Deterministic
