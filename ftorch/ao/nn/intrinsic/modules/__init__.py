"""Layers that are to be quantized as one."""

from .fused import *  # noqa: F403
from .fused import __all__ as __all__
from .fused import _FusedModule as _FusedModule
