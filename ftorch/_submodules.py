"""Modules that programs reach as attributes without an import (``torch.fx.passes.shape_prop``), as PyTorch has done it."""

from __future__ import annotations

import importlib


def on_demand(scope: dict, names: str):
    """A package's ``__getattr__`` that imports those of its modules that PyTorch imports with itself.

    Args:
        scope: the package's ``globals()``.
        names: the modules, with spaces between them.

    >>> import ftorch as torch
    >>> torch.fx.passes.shape_prop.ShapeProp.__name__
    'ShapeProp'
    """
    known = frozenset(names.split())

    def __getattr__(name):
        if name in known:
            return importlib.import_module(f"{scope['__name__']}.{name}")
        raise AttributeError(f"module {scope['__name__']!r} has no attribute {name!r}")

    return __getattr__
