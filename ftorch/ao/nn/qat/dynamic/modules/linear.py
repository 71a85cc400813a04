"""A linear layer that trains for dynamic quantization (``torch.ao.nn.qat.dynamic.modules.linear``)."""

from __future__ import annotations

import ftorch as torch
from ftorch.ao.nn.qat.modules import linear

__all__ = ["Linear"]


class Linear(linear.Linear):
    """A linear layer whose weight is rounded, and whose input will be quantized by its range."""

    def __init__(self, in_features, out_features, bias=True, qconfig=None, device=None, dtype=None) -> None:
        super().__init__(in_features, out_features, bias, qconfig, device, dtype)
        if not torch.ao.quantization.qconfig._activation_is_memoryless(qconfig):
            raise ValueError(
                "Dynamic QAT requires a memoryless observer.This means a MovingAverage observer with averaging "
                "constant equal to 1"
            )
