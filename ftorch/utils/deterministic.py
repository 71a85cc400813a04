"""``torch.utils.deterministic.fill_uninitialized_memory``: a flag of a module, kept where the setting is."""

from __future__ import annotations

import sys
import types

from ..eager.core import fill as _fill


def _get_deterministic_fill_uninitialized_memory() -> bool:
    return _fill.is_wanted


def _set_deterministic_fill_uninitialized_memory(mode: bool) -> None:
    if type(mode) is not bool:
        raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
    _fill.is_wanted = mode


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether ``empty``, ``resize_`` and the like fill memory in deterministic mode: with NaN, or the largest integer."""
        return _fill.is_wanted

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode):
        _set_deterministic_fill_uninitialized_memory(mode)


sys.modules[__name__].__class__ = _Deterministic
