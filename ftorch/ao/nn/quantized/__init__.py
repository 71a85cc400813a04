"""Layers of quantized models (``torch.ao.nn.quantized``)."""

from . import functional
from .modules import *  # noqa: F403
from .modules import MaxPool2d
from .modules import __all__ as _modules

__all__ = [*_modules, "MaxPool2d", "functional"]


def __getattr__(name):
    if name in ("dynamic", "reference"):
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
