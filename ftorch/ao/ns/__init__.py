"""Comparing models in floating point with quantized ones, layer by layer (``torch.ao.ns``)."""

import importlib as _importlib


def __getattr__(name):
    if name in ("_numeric_suite_fx", "fx"):
        return _importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
