"""Quantized layers with zeros in blocks (``torch.ao.nn.sparse.quantized``)."""

from . import dynamic
from .linear import Linear, LinearPackedParams

__all__ = ["Linear", "LinearPackedParams", "dynamic"]
