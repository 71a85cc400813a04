"""What the kernels of x86 processors can (``torch.ao.quantization.backend_config.x86``)."""

from __future__ import annotations

from .backend_config import BackendConfig
from .native import _STATIC, _patterns

__all__ = ["get_x86_backend_config"]


def get_x86_backend_config() -> BackendConfig:
    """What the kernels of x86 processors can: unsigned activations, signed weights."""
    return BackendConfig("x86").set_backend_pattern_configs(_patterns(others=_STATIC))
