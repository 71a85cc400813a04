"""Quantization of graphs (``torch.ao.quantization.fx``): fused, observed, converted."""

from .convert import convert
from .fuse import fuse
from .prepare import prepare

__all__ = ["convert", "fuse", "prepare"]
