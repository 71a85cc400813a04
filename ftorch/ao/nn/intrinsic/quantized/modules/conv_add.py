"""Quantized convolutions and additions as one (``torch.ao.nn.intrinsic.quantized.modules.conv_add``)."""

from __future__ import annotations

import ftorch as torch
from ftorch.ao.nn import intrinsic as nni
from ftorch.ao.nn.quantized.modules import conv

__all__ = ["ConvAdd2d", "ConvAddReLU2d"]


class ConvAdd2d(conv.Conv2d):
    """A quantized convolution and an addition."""

    _operator, _FLOAT_MODULE = "conv2d_add", nni.ConvAdd2d

    def forward(self, input, extra_input):
        function = getattr(torch.ops.quantized, self._operator)
        return function(self._input(input), extra_input, self._packed_params, self.scale, self.zero_point)


class ConvAddReLU2d(ConvAdd2d):
    """A quantized convolution, an addition and a ReLU."""

    _operator, _FLOAT_MODULE = "conv2d_add_relu", nni.ConvAddReLU2d
