"""Those that quantize their inputs by the inputs' range (``torch.ao.nn.sparse.quantized.dynamic``)."""

from .linear import Linear

__all__ = ["Linear"]
