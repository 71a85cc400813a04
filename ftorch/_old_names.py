"""Packages under the names that they had in older versions of PyTorch."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pkgutil
import sys


def stand_for(name: str, path: str, moved: dict[str, str] | None = None) -> dict:
    """Makes a package, and the modules in it, those of another place.

    Args:
        name: the package's own, as ``__name__``.
        path: the other place, below the root: ``"ao.nn.quantized"``.
        moved: {name below this package: place below the root} of modules and packages that are elsewhere; they are
            imported when they are first asked for.

    Returns:
        The public names of the package at the other place.
    """
    root = name.partition(".")[0]
    target = importlib.import_module(f"{root}.{path}")
    for found in pkgutil.walk_packages(target.__path__, target.__name__ + "."):
        module = importlib.import_module(found.name)
        sys.modules.setdefault(name + found.name.removeprefix(target.__name__), module)
    _moved.places.update({f"{name}.{k}": f"{root}.{v}" for k, v in (moved or {}).items()})
    return {k: v for k, v in vars(target).items() if not k.startswith("__") or k == "__all__"}


def place_in(path: str, *values) -> None:
    """Makes a public module the one that classes and functions name as theirs, in pickles above all.

    Args:
        path: the module below the root, where users find them: ``"optim.lr_scheduler"``.
        values: what is defined in another module.
    """
    place = f"{__name__.partition('.')[0]}.{path}"
    for value in values:
        value.__module__ = place


class _Moved(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of old names, and those in them, where they are now."""

    def __init__(self):
        self.places: dict[str, str] = {}

    def find_spec(self, fullname, path=None, target=None):
        """The spec of an old name."""
        for old, new in self.places.items():
            if fullname == old or fullname.startswith(old + "."):
                place = new + fullname[len(old):]
                if importlib.util.find_spec(place) is not None:
                    return importlib.machinery.ModuleSpec(fullname, self, loader_state=place)
        return None

    def create_module(self, spec):
        """The module at its new place."""
        return None

    def exec_module(self, module):
        """Makes the module that of the new place."""
        name = module.__spec__.name
        sys.modules[name] = importlib.import_module(module.__spec__.loader_state)


_moved = _Moved()
# Before the search of paths, which finds the files of such packages as modules of their own.
sys.meta_path.insert(0, _moved)
