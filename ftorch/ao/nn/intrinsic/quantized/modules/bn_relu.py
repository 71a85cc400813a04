"""Quantized batch normalizations and ReLUs as one (``torch.ao.nn.intrinsic.quantized.modules.bn_relu``)."""

from __future__ import annotations

from ftorch.ao.nn.quantized.modules import batchnorm

__all__ = ["BNReLU2d", "BNReLU3d"]


class BNReLU2d(batchnorm.BatchNorm2d):
    """A quantized batch normalization over two dimensions and a ReLU."""

    _operator = "batch_norm2d_relu"

    def _get_name(self):
        return "QuantizedBNReLU2d"


class BNReLU3d(batchnorm.BatchNorm3d):
    """A quantized batch normalization over three dimensions and a ReLU."""

    _operator = "batch_norm3d_relu"

    def _get_name(self):
        return "QuantizedBNReLU3d"
