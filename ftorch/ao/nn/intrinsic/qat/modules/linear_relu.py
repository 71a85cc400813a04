"""A linear layer and a ReLU that train with rounded weights."""

from __future__ import annotations

import ftorch as torch
from ftorch.ao.nn import intrinsic as nni
from ftorch.ao.nn import qat as nnqat

__all__ = ["LinearReLU"]


class LinearReLU(nnqat.Linear, nni._FusedModule):
    """A linear layer and a ReLU whose weight passes a fake quantizer."""

    _FLOAT_MODULE = nni.LinearReLU

    def __init__(self, in_features, out_features, bias=True, qconfig=None):
        nnqat.Linear.__init__(self, in_features, out_features, bias, qconfig)

    def forward(self, input):
        weight = self.weight_fake_quant(self.weight)
        return torch.nn.functional.relu(torch.nn.functional.linear(input, weight, self.bias))

    def to_float(self):
        """The layers in floating point."""
        return nni.LinearReLU(super().to_float(), torch.nn.ReLU())
