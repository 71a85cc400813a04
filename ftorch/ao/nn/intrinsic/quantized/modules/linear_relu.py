"""Quantized linear layers and what follows them, as one (``torch.ao.nn.intrinsic.quantized.modules.linear_relu``)."""

from __future__ import annotations

import ftorch as torch
from ftorch.ao.nn import intrinsic as nni
from ftorch.ao.nn.quantized.modules.linear import Linear
from ftorch.ao.nn.quantized.modules.utils import _quantize_weight, output_parameters

__all__ = ["LinearLeakyReLU", "LinearReLU", "LinearTanh"]

ops = torch.ops.quantized


class LinearReLU(Linear):
    """A quantized linear layer and a ReLU."""

    _FLOAT_MODULE = (nni.LinearReLU,)

    def forward(self, x):
        return ops.linear_relu(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedLinearReLU"


class _Followed(Linear):
    """A quantized linear layer and a function of its results."""

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of one that was prepared."""
        if type(mod) is not cls._FLOAT_MODULE[0]:
            raise AssertionError(f"Input float module should be {cls._FLOAT_MODULE[0].__name__}")
        linear, observer = mod[0], mod.qconfig.weight()
        observer(linear.weight)
        layer = cls(linear.in_features, linear.out_features, *cls._arguments(mod))
        layer.set_weight_bias(_quantize_weight(linear.weight.detach().float(), observer),
                              None if linear.bias is None else linear.bias.detach())
        layer.scale, layer.zero_point = output_parameters(mod)
        return layer


class LinearLeakyReLU(_Followed):
    """A quantized linear layer and a leaky ReLU."""

    _FLOAT_MODULE = (nni.LinearLeakyReLU,)

    def __init__(self, in_features, out_features, negative_slope, bias=True, dtype=torch.qint8):
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    @classmethod
    def _arguments(cls, mod):
        return (mod[1].negative_slope,)

    def forward(self, x):
        return ops.linear_leaky_relu(
            x, self._packed_params._packed_params, self.scale, self.zero_point, self.negative_slope
        )

    def _get_name(self):
        return "QuantizedLinearLeakyReLU"


class LinearTanh(_Followed):
    """A quantized linear layer and a hyperbolic tangent."""

    _FLOAT_MODULE = (nni.LinearTanh,)

    def forward(self, x):
        return ops.linear_tanh(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedLinearTanh"
