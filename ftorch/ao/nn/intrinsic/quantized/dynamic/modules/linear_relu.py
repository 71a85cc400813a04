"""A dynamically quantized linear layer and a ReLU."""

from __future__ import annotations

import ftorch as torch
from ftorch.ao.nn import intrinsic as nni
from ftorch.ao.nn.quantized.dynamic.modules.linear import Linear

__all__ = ["LinearReLU"]


class LinearReLU(Linear):
    """A linear layer whose input is quantized by its range, and a ReLU."""

    _FLOAT_MODULE = nni.LinearReLU
    _relu = "_relu"

    def __init__(self, in_features, out_features, bias=True, dtype=torch.qint8):
        super().__init__(in_features, out_features, bias, dtype)

    def _get_name(self):
        return "DynamicQuantizedLinearReLU"
