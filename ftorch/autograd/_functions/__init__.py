"""Functions of old programs and their helpers (``torch.autograd._functions``)."""

from .tensor import Resize, Type

__all__ = ["Resize", "Type"]
