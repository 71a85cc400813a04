"""Quantized activations (``torch.ao.nn.quantized.modules.activation``)."""

from __future__ import annotations

import ftorch as torch
from ftorch.ao.nn.quantizable.modules.activation import MultiheadAttention as _Attention

from .utils import output_parameters

__all__ = ["ELU", "Hardswish", "LeakyReLU", "MultiheadAttention", "PReLU", "ReLU6", "Sigmoid", "Softmax"]

ops = torch.ops.quantized


class ReLU6(torch.nn.ReLU):
    """Numbers between 0 and 6, of quantized tensors."""

    def forward(self, input):
        return ops.relu6(input, self.inplace)

    def _get_name(self):
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """The quantized layer of `torch.nn.ReLU6`."""
        return ReLU6(mod.inplace)


class _WithQuantizer:
    """A layer whose results have a scale and a zero point of their own."""

    def _keep(self, scale, zero_point):
        self.register_buffer("scale", torch.tensor(scale))  # type: ignore[attr-defined]
        self.register_buffer("zero_point", torch.tensor(zero_point))  # type: ignore[attr-defined]

    def _quantizer(self):
        return float(self.scale), int(self.zero_point)  # type: ignore[attr-defined]


class Hardswish(_WithQuantizer, torch.nn.Hardswish):
    """`torch.nn.Hardswish` of quantized tensors."""

    def __init__(self, scale, zero_point, device=None, dtype=None):
        super().__init__()
        self._keep(scale, zero_point)

    def forward(self, input):
        return ops.hardswish(input, *self._quantizer())

    def _get_name(self):
        return "QuantizedHardswish"

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """The quantized layer of one that was prepared."""
        return Hardswish(*output_parameters(mod))

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The quantized layer of `torch.nn.Hardswish`."""
        return cls(float(scale), int(zero_point))


class ELU(torch.nn.ELU):
    """`torch.nn.ELU` of quantized tensors."""

    def __init__(self, scale, zero_point, alpha=1.0):
        super().__init__(alpha)
        self.scale, self.zero_point = scale, zero_point

    def forward(self, input):
        return ops.elu(input, self.scale, self.zero_point, self.alpha)

    def _get_name(self):
        return "QuantizedELU"

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """The quantized layer of one that was prepared."""
        return ELU(*output_parameters(mod), mod.alpha)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The quantized layer of `torch.nn.ELU`."""
        return cls(float(scale), int(zero_point), mod.alpha)


class LeakyReLU(_WithQuantizer, torch.nn.LeakyReLU):
    """`torch.nn.LeakyReLU` of quantized tensors."""

    def __init__(self, scale, zero_point, negative_slope=1e-2, inplace=False, device=None, dtype=None):
        super().__init__(negative_slope, inplace)
        self._keep(scale, zero_point)

    def forward(self, input):
        return ops.leaky_relu(input, self.negative_slope, self.inplace, *self._quantizer())

    def _get_name(self):
        return "QuantizedLeakyReLU"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of one that was prepared."""
        return cls(*output_parameters(mod), mod.negative_slope, mod.inplace)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The quantized layer of `torch.nn.LeakyReLU`."""
        return cls(float(scale), int(zero_point), mod.negative_slope, mod.inplace)


class Sigmoid(torch.nn.Sigmoid):
    """`torch.nn.Sigmoid` of quantized tensors."""

    def __init__(self, output_scale, output_zero_point):
        super().__init__()
        self.output_scale, self.output_zero_point = output_scale, output_zero_point

    def forward(self, input):
        return ops.sigmoid(input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of one that was prepared."""
        return cls(*output_parameters(mod))


class Softmax(torch.nn.Softmax):
    """`torch.nn.Softmax` of quantized tensors."""

    def __init__(self, dim=None, scale=1.0, zero_point=0):
        super().__init__()
        self.dim, self.scale, self.zero_point = dim, scale, zero_point

    def forward(self, input):
        dim = self.dim
        if dim is None:
            dim = 0 if input.dim() in (0, 1, 3) else 1
        return ops.softmax(input, dim, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedSoftmax"

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """The quantized layer of one that was prepared."""
        return Softmax(mod.dim, *output_parameters(mod))

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The quantized layer of `torch.nn.Softmax`."""
        return cls(mod.dim, float(scale), int(zero_point))


class MultiheadAttention(_Attention):
    """Attention whose parts are quantized: what `convert` makes of `torch.ao.nn.quantizable.MultiheadAttention`."""

    _FLOAT_MODULE = _Attention

    def _get_name(self):
        return "QuantizedMultiheadAttention"

    @classmethod
    def from_float(cls, other):
        """Raises NotImplementedError: it comes from the observed layer."""
        raise NotImplementedError(
            "It looks like you are trying to convert a non-observed MHA module. Please, see the examples on "
            "quantizable MHAs."
        )

    @classmethod
    def from_observed(cls, other):
        """The layer of an observed one, the biases of keys and values quantized by their ranges."""
        converted = torch.ao.quantization.convert(other, inplace=False, remove_qconfig=True)
        converted.__class__ = cls
        for name in ("bias_k", "bias_v"):
            if getattr(converted, name) is None:
                continue
            bias = converted._parameters.pop(name)
            scale, zero_point = torch._choose_qparams_per_tensor(bias, reduce_range=False)
            setattr(converted, name, torch.quantize_per_tensor(bias.detach(), scale, zero_point, torch.quint8))
        del converted.in_proj_weight
        del converted.in_proj_bias
        return converted


class PReLU(torch.nn.Module):
    """`torch.nn.PReLU` of quantized tensors."""

    def __init__(self, output_scale, output_zero_point, num_parameters=1):
        super().__init__()
        self.num_parameters = num_parameters
        self.scale, self.zero_point = output_scale, output_zero_point
        self.set_weight(torch.quantize_per_tensor(torch.randn(num_parameters), 1.0, 0, torch.quint8))

    def set_weight(self, w) -> None:
        """Sets the slopes, quantized."""
        self.weight = w

    def forward(self, input):
        return ops.prelu(input, self.weight, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedPReLU"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of one that was prepared."""
        return cls._of(mod, *output_parameters(mod), mod.qconfig.weight())

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The quantized layer of `torch.nn.PReLU`."""
        observer = torch.ao.quantization.MinMaxObserver(dtype=torch.quint8)
        return cls._of(mod, float(scale), int(zero_point), observer)

    @classmethod
    def _of(cls, mod, scale, zero_point, observer):
        layer = cls(scale, zero_point, mod.num_parameters)
        weight = mod.weight.detach().float()
        observer(weight)
        w_scale, w_zero_point = observer.calculate_qparams()
        layer.set_weight(torch.quantize_per_tensor(weight, float(w_scale), int(w_zero_point), torch.quint8))
        return layer

