"""Layers that train with rounded weights (``torch.ao.nn.qat``)."""

from ...._submodules import on_demand as _on_demand
from .modules import *  # noqa: F403
from .modules import __all__ as __all__

__getattr__ = _on_demand(globals(), "dynamic")
