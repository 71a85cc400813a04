"""Layers of quantized models (``torch.ao.nn``)."""

import importlib as _importlib

__all__ = ["intrinsic", "qat", "quantizable", "quantized", "sparse"]


def __getattr__(name):
    if name in __all__:
        return _importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
