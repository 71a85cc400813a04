"""What finds modules and names of objects (``torch.package.importer``)."""

from __future__ import annotations

import importlib
import pickle
import types
from abc import ABC, abstractmethod
from typing import Any

from ._mangling import demangle, get_mangle_prefix, is_mangled

__all__ = ["Importer", "ObjMismatchError", "ObjNotFoundError", "OrderedImporter"]


class ObjNotFoundError(Exception):
    """An object is not where its name says."""


class ObjMismatchError(Exception):
    """Another object than this one is where its name says."""


class Importer(ABC):
    """A world of modules: Python's own (`sys_importer`) or a package's (`PackageImporter`)."""

    modules: dict[str, types.ModuleType]

    @abstractmethod
    def import_module(self, module_name: str) -> types.ModuleType:
        """The module of a name, as ``importlib.import_module`` gives it."""

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        """(module, name) by which an object can be imported here.

        Raises:
            ObjNotFoundError: there is nothing of that name.
            ObjMismatchError: there is something else.
        """
        if name is None:
            name = getattr(obj, "__qualname__", None) or obj.__name__
        module_name = self.whichmodule(obj, name)
        wanted = demangle(module_name)
        try:
            found: Any = self.import_module(wanted)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, KeyError, AttributeError):
            raise ObjNotFoundError(f"{obj} was not found as {wanted}.{name}") from None
        if found is obj:
            return wanted, name
        own, other = self._world(module_name), self._world(self.whichmodule(found, name))
        hint = (
            f"\n\nThe object being pickled is from {own}, while the one of that name here is from {other}: "
            "give both importers to PackageExporter in the order in which they are to be asked."
            if own != other else ""
        )
        raise ObjMismatchError(f"{obj} is not the same object as {wanted}.{name}{hint}")

    @staticmethod
    def _world(module_name: str) -> str:
        return (
            get_mangle_prefix(module_name)
            if is_mangled(module_name)
            else "the current Python environment"
        )

    def whichmodule(self, obj: Any, name: str) -> str:
        """The name of the module that an object belongs to."""
        module_name = getattr(obj, "__module__", None)
        if module_name is not None:
            return module_name
        for module_name, module in self.modules.copy().items():
            if module_name == "__main__" or module is None:
                continue
            found: Any = module
            for part in name.split("."):
                found = getattr(found, part, None)
            if found is obj:
                return module_name
        return "__main__"


class _SysImporter(Importer):
    """Python's own modules."""

    def import_module(self, module_name: str) -> types.ModuleType:
        return importlib.import_module(module_name)

    def whichmodule(self, obj: Any, name: str) -> str:
        return pickle.whichmodule(obj, name)  # type: ignore[attr-defined]


sys_importer = _SysImporter()


class OrderedImporter(Importer):
    """Several importers: the first that has a module gives it."""

    def __init__(self, *args: Importer):
        self._importers = list(args)

    def _ordered(self, attempt):
        problem: Exception | None = None
        for importer in self._importers:
            try:
                return attempt(importer)
            except (ModuleNotFoundError, ObjNotFoundError, ObjMismatchError) as error:
                problem = problem or error
        raise problem or ModuleNotFoundError("there is no importer")

    def import_module(self, module_name: str) -> types.ModuleType:
        return self._ordered(lambda importer: importer.import_module(module_name))

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        return self._ordered(lambda importer: importer.get_name(obj, name))

    def whichmodule(self, obj: Any, name: str) -> str:
        for importer in self._importers:
            module_name = importer.whichmodule(obj, name)
            if module_name != "__main__":
                return module_name
        return "__main__"
