"""Convolutions that compute with rounded weights (``torch.ao.nn.quantized.reference.modules.conv``)."""

from __future__ import annotations

import ftorch.nn.functional as F
from ftorch import nn

from .utils import ReferenceQuantizedModule

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _ConvNd(nn.modules.conv._ConvNd, ReferenceQuantizedModule):
    """A convolution that computes with a rounded weight."""

    _IS_REFERENCE = True

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None, weight_qparams=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
                         device, dtype)
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, x):
        return self._conv_forward(x, self.get_weight(), self.bias)

    def _get_name(self):
        return f"Quantized{type(self).__name__}(Reference)"

    @classmethod
    def _arguments(cls, conv):
        return (conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.dilation,
                conv.groups, conv.bias is not None, conv.padding_mode)

    @classmethod
    def from_float(cls, float_conv, weight_qparams):
        """The layer of one in floating point, and its weight's quantizer."""
        weight = float_conv.weight
        made = cls(*cls._arguments(float_conv), device=weight.device, dtype=weight.dtype, weight_qparams=weight_qparams)
        made.weight = nn.Parameter(weight.detach())
        if float_conv.bias is not None:
            made.bias = nn.Parameter(float_conv.bias.detach())
        return made


class Conv1d(_ConvNd, nn.Conv1d):
    """A convolution over one dimension that computes with a rounded weight: (N, C, L)."""


class Conv2d(_ConvNd, nn.Conv2d):
    """A convolution over two dimensions that computes with a rounded weight: (N, C, H, W)."""


class Conv3d(_ConvNd, nn.Conv3d):
    """A convolution over three dimensions that computes with a rounded weight: (N, C, D, H, W)."""


class _ConvTransposeNd(_ConvNd, nn.modules.conv._ConvTransposeNd):
    """A transposed convolution that computes with a rounded weight."""

    _dims: int
    _function: str

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
                 bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None, weight_qparams=None):
        super(_ConvNd, self).__init__(in_channels, out_channels, kernel_size, stride, padding, output_padding, groups,
                                      bias, dilation, padding_mode, device, dtype)
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, x, output_size=None):
        padding = self._output_padding(
            x, output_size, self.stride, self.padding, self.kernel_size, self._dims, self.dilation
        )
        return getattr(F, self._function)(
            x, self.get_weight(), self.bias, self.stride, self.padding, padding, self.groups, self.dilation
        )

    @classmethod
    def _arguments(cls, conv):
        return (conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.output_padding,
                conv.groups, conv.bias is not None, conv.dilation, conv.padding_mode)


class ConvTranspose1d(_ConvTransposeNd, nn.ConvTranspose1d):
    """A transposed convolution over one dimension that computes with a rounded weight."""

    _dims, _function = 1, "conv_transpose1d"


class ConvTranspose2d(_ConvTransposeNd, nn.ConvTranspose2d):
    """A transposed convolution over two dimensions that computes with a rounded weight."""

    _dims, _function = 2, "conv_transpose2d"


class ConvTranspose3d(_ConvTransposeNd, nn.ConvTranspose3d):
    """A transposed convolution over three dimensions that computes with a rounded weight."""

    _dims, _function = 3, "conv_transpose3d"
