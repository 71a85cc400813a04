"""Layers that train for dynamic quantization (``torch.ao.nn.qat.dynamic``)."""

from .modules import Linear

__all__ = ["Linear"]
