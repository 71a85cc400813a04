"""Utilities (``torch.utils``). Submodules are imported when they are first used."""

from __future__ import annotations

import importlib


def __getattr__(name):
    if not name.startswith("__"):
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as e:
            if e.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
