"""Sliding blocks: taken out of a tensor, and put together again."""

from __future__ import annotations

from ...eager.tensor import Tensor as Tensor
from ._function import FunctionModule
from .module import Module as Module

__all__ = ["Fold", "Unfold"]


class Unfold(FunctionModule):
    """Takes the sliding blocks of (N, C, *) out as columns: (N, C * block size, blocks)."""

    _ftorch_function = "unfold"
    _ftorch_arguments = ("kernel_size", "dilation", "padding", "stride")

    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__(kernel_size, dilation, padding, stride)


class Fold(FunctionModule):
    """The transpose of `Unfold`: overlapping blocks are summed."""

    _ftorch_function = "fold"
    _ftorch_arguments = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__(output_size, kernel_size, dilation, padding, stride)
