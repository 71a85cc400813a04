"""Shapes as tensors (``torch.onnx.operators``), for graphs that keep them."""

from __future__ import annotations

from ..eager.core import api as torch


def shape_as_tensor(x):
    """The shape of a tensor as a vector of int64.

    >>> import ftorch as torch
    >>> from ftorch.onnx.operators import shape_as_tensor
    >>> shape_as_tensor(torch.zeros(2, 3))
    tensor([2, 3])
    """
    return torch._shape_as_tensor(x)


def reshape_from_tensor_shape(x, shape):
    """``x.reshape`` to a shape that is a vector."""
    return torch._reshape_from_tensor(x, shape)
