"""Which languages for kernels there are (``torch._native.dsl_registry``): none unless somebody registers one."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["DSLRegistry", "dsl_registry"]


class DSLRegistry:
    """Languages by name, each a module that says whether it runs (``runtime_available``) and its ``runtime_version``.

    >>> from ftorch._native.dsl_registry import dsl_registry
    >>> dsl_registry.is_dsl_available("triton"), dsl_registry.list_all_dsls()
    (False, ())
    """

    def __init__(self):
        self._modules: dict[str, Any] = {}

    def register_dsl(self, name: str, dsl_module) -> None:
        """Registers a language.

        Raises:
            ValueError: the name is no identifier.
        """
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"Invalid DSL name: {name!r}")
        self._modules[name] = dsl_module

    def is_dsl_available(self, name: str) -> bool:
        """Whether it is registered, and runs."""
        return name in self._modules and bool(self._modules[name].runtime_available())

    def get_dsl_version(self, name: str):
        """The version of the language that is installed, or None."""
        return self._modules[name].runtime_version() if name in self._modules else None

    def list_available_dsls(self) -> tuple[str, ...]:
        """The languages that run, sorted."""
        return tuple(name for name in self.list_all_dsls() if self.is_dsl_available(name))

    def list_all_dsls(self) -> tuple[str, ...]:
        """All that are registered, sorted."""
        return tuple(sorted(self._modules))

    def get_dsl_module(self, name: str):
        """A language's module, or None."""
        return self._modules.get(name)


dsl_registry = DSLRegistry()
