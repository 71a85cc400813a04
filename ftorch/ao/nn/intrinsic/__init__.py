"""Layers that are to be quantized as one (``torch.ao.nn.intrinsic``)."""

from ...._submodules import on_demand as _on_demand
from .modules import *  # noqa: F403
from .modules import __all__ as __all__
from .modules import _FusedModule as _FusedModule

__getattr__ = _on_demand(globals(), "qat quantized")
