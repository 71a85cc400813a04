"""What FBGEMM's kernels can (``torch.ao.quantization.backend_config.fbgemm``)."""

from __future__ import annotations

from .backend_config import BackendConfig
from .native import _patterns

__all__ = ["get_fbgemm_backend_config"]


def get_fbgemm_backend_config() -> BackendConfig:
    """What FBGEMM's kernels can: unsigned activations, signed weights."""
    return BackendConfig("fbgemm").set_backend_pattern_configs(_patterns())
