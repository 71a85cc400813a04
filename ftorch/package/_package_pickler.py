"""Pickles in packages: modules are named as in the package, and found in it."""

from __future__ import annotations

import pickle
import pickletools
import types
from typing import ClassVar

from .._alias import is_own
from .._serialization import pickling, storage_types
from ._mangling import demangle
from .importer import Importer, OrderedImporter, sys_importer


class PackagePickler(pickling._Pickler):
    """Asks an importer for the names of globals; this package's own are PyTorch's."""

    dispatch: ClassVar = dict(pickling._Pickler.dispatch)

    def __init__(self, importer: Importer, file, protocol, location_tag, package_id):
        super().__init__(file, protocol, location_tag)
        self.importer, self._package_id = importer, package_id

    def persistent_id(self, obj):
        saved = super().persistent_id(obj)
        return self._package_id(self, obj) if saved is None else saved

    def save_global(self, obj, name=None):
        module = getattr(obj, "__module__", None) or ""
        if is_own(demangle(module)) and demangle(module) == module:
            super().save_global(obj, name)
        elif obj is type(None) or obj is type(NotImplemented) or obj is type(...):
            super().save_global(obj, name)
        else:
            self._write_global(obj, *self.importer.get_name(obj, name))

    def save_type(self, obj):
        """Classes: those without a name are made again by ``type``."""
        self.save_global(obj)

    dispatch[types.FunctionType] = save_global
    dispatch[type] = save_type


def create_pickler(file, importer, protocol, location_tag, package_id) -> PackagePickler:
    """A pickler for objects of an importer's modules; of Python's own where it has none of them."""
    if importer is not sys_importer:
        importer = OrderedImporter(importer, sys_importer)
    return PackagePickler(importer, file, protocol, location_tag, package_id)


class PackageUnpickler(pickle.Unpickler):
    """Finds globals in a package, and what a file calls torch here."""

    def __init__(self, importer: Importer, file, persistent_load):
        super().__init__(file)
        self._importer, self.persistent_load = importer, persistent_load  # type: ignore[method-assign]

    def find_class(self, module, name):
        if module.partition(".")[0] == "torch" and not self._importer._has_own(module):
            if name == "UntypedStorage":
                return storage_types.UNTYPED
            return storage_types.STORAGE_TYPES.get(name) or pickling.resolve(module, name)
        found = self._importer.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found


def globals_of(data: bytes) -> dict[str, list[str]]:
    """{module: names} of what a pickle refers to."""
    found: dict[str, list[str]] = {}
    texts: list[str] = []
    memo: dict[int, str] = {}
    for op, argument, _ in pickletools.genops(data):
        if op.name == "GLOBAL":
            module, _, name = argument.partition(" ")
            found.setdefault(module, []).append(name)
        elif op.name == "STACK_GLOBAL":
            module, name = texts[-2:]
            found.setdefault(module, []).append(name)
        elif isinstance(argument, str):
            texts.append(argument)
        elif op.name in ("BINGET", "LONG_BINGET", "GET") and argument in memo:
            texts.append(memo[argument])
        if op.name in ("BINPUT", "LONG_BINPUT", "PUT") and texts:
            memo[argument] = texts[-1]
        elif op.name == "MEMOIZE":
            memo[len(memo)] = texts[-1] if texts else ""
    return found
