"""Layers of quantized models (``torch.ao.nn.quantized``)."""

from ...._submodules import on_demand as _on_demand
from . import functional
from .modules import *  # noqa: F403
from .modules import MaxPool2d
from .modules import __all__ as _modules

__all__ = [*_modules, "MaxPool2d", "functional"]

__getattr__ = _on_demand(globals(), "dynamic reference")
