"""Layers that compute with rounded weights (``torch.ao.nn.quantized.reference``): what a backend's layers must equal."""

from .modules import *  # noqa: F403
from .modules import __all__ as __all__
