"""``torch.utils.deterministic.fill_uninitialized_memory``: a flag of a module, kept where the setting is."""

from __future__ import annotations

import sys
import types

from ..eager.core import fill as _fill


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether ``empty``, ``resize_`` and the like fill memory in deterministic mode: with NaN, or the largest integer."""
        return _fill.is_wanted

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode):
        if type(mode) is not bool:
            raise TypeError(f"mode must be a bool, but got {type(mode)}")
        _fill.is_wanted = mode


sys.modules[__name__].__class__ = _Deterministic
