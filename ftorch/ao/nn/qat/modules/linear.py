"""Linear layers that train with rounded weights (``torch.ao.nn.qat.modules.linear``)."""

from __future__ import annotations

import ftorch as torch
from ftorch import nn
from ftorch.ao.nn.intrinsic import LinearReLU
from ftorch.nn.utils.parametrize import type_before_parametrizations

__all__ = ["Linear"]


class Linear(nn.Linear):
    """A linear layer whose weight passes a fake quantizer.

    Args:
        qconfig: says which.
    """

    _FLOAT_MODULE = nn.Linear

    def __init__(self, in_features, out_features, bias=True, qconfig=None, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight(factory_kwargs={"device": device, "dtype": dtype})

    def forward(self, input):
        return torch.nn.functional.linear(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer of one in floating point that has a QConfig."""
        if type_before_parametrizations(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(f" qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}")
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        if not mod.qconfig:
            raise AssertionError("Input float module must have a valid qconfig")
        qconfig = mod.qconfig
        if type_before_parametrizations(mod) is LinearReLU:
            mod = mod[0]
        layer = cls(mod.in_features, mod.out_features, bias=mod.bias is not None, qconfig=qconfig)
        layer.weight, layer.bias = mod.weight, mod.bias
        return layer

    def to_float(self):
        """The layer in floating point."""
        layer = nn.Linear(self.in_features, self.out_features, self.bias is not None)
        layer.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            layer.bias = nn.Parameter(self.bias.detach())
        layer.train(self.training)
        return layer
