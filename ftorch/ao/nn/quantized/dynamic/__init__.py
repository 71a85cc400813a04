"""Layers that quantize their inputs by the range of each (``torch.ao.nn.quantized.dynamic``)."""

from .modules import *  # noqa: F403
from .modules import __all__ as __all__
