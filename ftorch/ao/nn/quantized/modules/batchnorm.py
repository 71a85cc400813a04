"""Quantized batch normalization (``torch.ao.nn.quantized.modules.batchnorm``)."""

from __future__ import annotations

import ftorch as torch
from ftorch.ao.nn import intrinsic as nni

__all__ = ["BatchNorm2d", "BatchNorm3d"]

ops = torch.ops.quantized


class _BatchNorm(torch.nn.modules.batchnorm._BatchNorm):
    _operator = "batch_norm2d"
    _FUSED: type | None = None

    def __init__(self, num_features, eps=1e-5, momentum=0.1, device=None, dtype=None):
        super().__init__(num_features, eps=eps, momentum=momentum)
        self.register_buffer("scale", torch.tensor(1.0))
        self.register_buffer("zero_point", torch.tensor(0))

    def forward(self, input):
        self._check_input_dim(input)
        return getattr(ops, self._operator)(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.eps, float(self.scale),
            int(self.zero_point),
        )

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of one that was prepared."""
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return cls.from_reference(mod[0] if type(mod) is cls._FUSED else mod, scale, zero_point)

    @classmethod
    def from_reference(cls, bn, output_scale, output_zero_point):
        """The quantized layer of one in floating point."""
        layer = cls(bn.num_features, bn.eps)
        layer.weight, layer.bias = bn.weight, bn.bias
        layer.running_mean, layer.running_var = bn.running_mean, bn.running_var
        for name, value in (("scale", output_scale), ("zero_point", output_zero_point)):
            setattr(layer, name, value if isinstance(value, torch.Tensor) else torch.tensor(value))
        return layer


class BatchNorm2d(_BatchNorm):
    """`torch.nn.BatchNorm2d` of quantized tensors."""

    _FUSED = nni.BNReLU2d

    def _get_name(self):
        return "QuantizedBatchNorm2d"

    def _check_input_dim(self, input):
        if input.dim() != 4:
            raise ValueError("Input shape must be `(N, C, H, W)`!")


class BatchNorm3d(_BatchNorm):
    """`torch.nn.BatchNorm3d` of quantized tensors."""

    _operator = "batch_norm3d"
    _FUSED = nni.BNReLU3d

    def _get_name(self):
        return "QuantizedBatchNorm3d"

    def _check_input_dim(self, input):
        if input.dim() != 5:
            raise ValueError("Input shape must be `(N, C, H, W)`!")
