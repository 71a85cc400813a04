"""Quantized convolutions and ReLUs as one (``torch.ao.nn.intrinsic.quantized.modules.conv_relu``)."""

from __future__ import annotations

from ftorch.ao.nn import intrinsic as nni
from ftorch.ao.nn.quantized.modules import conv

__all__ = ["ConvReLU1d", "ConvReLU2d", "ConvReLU3d"]


class ConvReLU1d(conv.Conv1d):
    """A quantized convolution over one dimension and a ReLU."""

    _operator, _FLOAT_MODULE = "conv1d_relu", nni.ConvReLU1d


class ConvReLU2d(conv.Conv2d):
    """A quantized convolution over two dimensions and a ReLU."""

    _operator, _FLOAT_MODULE = "conv2d_relu", nni.ConvReLU2d


class ConvReLU3d(conv.Conv3d):
    """A quantized convolution over three dimensions and a ReLU."""

    _operator, _FLOAT_MODULE = "conv3d_relu", nni.ConvReLU3d
