"""Convolutions that train with rounded weights (``torch.ao.nn.qat.modules.conv``)."""

from __future__ import annotations

from ftorch import nn
from ftorch.ao.nn.intrinsic import _FusedModule

__all__ = ["Conv1d", "Conv2d", "Conv3d"]


class _ConvNd:
    """A convolution whose weight passes a fake quantizer."""

    _FLOAT_MODULE: type
    _CONVOLUTION: type

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", qconfig=None, device=None, dtype=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
                         padding_mode, device=device, dtype=dtype)  # type: ignore[call-arg]
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight(factory_kwargs={"device": device, "dtype": dtype})

    def forward(self, input):
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)  # type: ignore[attr-defined]

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer of one in floating point that has a QConfig."""
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}")
        if not getattr(mod, "qconfig", None):
            raise AssertionError("Input float module must have a valid qconfig")
        qconfig = mod.qconfig
        if isinstance(mod, _FusedModule):
            mod = mod[0]
        layer = cls(mod.in_channels, mod.out_channels, mod.kernel_size, stride=mod.stride, padding=mod.padding,
                    dilation=mod.dilation, groups=mod.groups, bias=mod.bias is not None,
                    padding_mode=mod.padding_mode, qconfig=qconfig)
        layer.weight, layer.bias = mod.weight, mod.bias
        return layer

    def to_float(self):
        """The layer in floating point."""
        layer = self._CONVOLUTION(
            self.in_channels,
            self.out_channels,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.bias is not None,
            self.padding_mode,
        )  # type: ignore[attr-defined]
        layer.weight = nn.Parameter(self.weight.detach())  # type: ignore[attr-defined]
        if self.bias is not None:  # type: ignore[attr-defined]
            layer.bias = nn.Parameter(self.bias.detach())  # type: ignore[attr-defined]
        if issubclass(type(self)._FLOAT_MODULE, _FusedModule):
            layer = type(self)._FLOAT_MODULE(layer, nn.ReLU())
        layer.train(self.training)  # type: ignore[attr-defined]
        return layer


class Conv1d(_ConvNd, nn.Conv1d):
    """A convolution over one dimension whose weight is rounded."""

    _FLOAT_MODULE = _CONVOLUTION = nn.Conv1d


class Conv2d(_ConvNd, nn.Conv2d):
    """A convolution over two dimensions whose weight is rounded."""

    _FLOAT_MODULE = _CONVOLUTION = nn.Conv2d


class Conv3d(_ConvNd, nn.Conv3d):
    """A convolution over three dimensions whose weight is rounded."""

    _FLOAT_MODULE = _CONVOLUTION = nn.Conv3d
