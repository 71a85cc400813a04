"""Packages under the names that they had in older versions of PyTorch."""

from __future__ import annotations

import importlib
import pkgutil
import sys


def stand_for(name: str, path: str) -> dict:
    """Makes a package, and the modules in it, those of another place.

    Args:
        name: the package's own, as ``__name__``.
        path: the other place, below the root: ``"ao.nn.quantized"``.

    Returns:
        The public names of the package at the other place.
    """
    target = importlib.import_module(f"{name.partition('.')[0]}.{path}")
    for found in pkgutil.walk_packages(target.__path__, target.__name__ + "."):
        module = importlib.import_module(found.name)
        sys.modules.setdefault(name + found.name.removeprefix(target.__name__), module)
    return {k: v for k, v in vars(target).items() if not k.startswith("__") or k == "__all__"}
