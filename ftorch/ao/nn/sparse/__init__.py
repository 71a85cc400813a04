"""Layers with zeros in blocks (``torch.ao.nn.sparse``)."""

from . import quantized

__all__ = ["quantized"]
