"""The old name of tensors (``torch.autograd.variable``)."""

from ..eager.tensor import Tensor as Variable

__all__ = ["Variable"]
