"""Fused layers that train with rounded weights (``torch.ao.nn.intrinsic.qat``)."""

from .modules import *  # noqa: F403
from .modules import __all__ as __all__
