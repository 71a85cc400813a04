"""Quantized normalizations (``torch.ao.nn.quantized.modules.normalization`` and ``batchnorm``)."""

from __future__ import annotations

import ftorch as torch

from .utils import output_parameters

__all__ = ["GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm"]

ops = torch.ops.quantized


class _Norm:
    """The common part: the affine parameters of the float layer and the results' quantizer."""

    def _take(self, weight, bias, scale, zero_point):
        self.weight, self.bias = weight, bias  # type: ignore[misc]
        self.register_buffer("scale", torch.tensor(scale))  # type: ignore[attr-defined]
        self.register_buffer("zero_point", torch.tensor(zero_point))  # type: ignore[attr-defined]

    def _quantizer(self):
        return float(self.scale), int(self.zero_point)  # type: ignore[attr-defined]

    def _get_name(self):
        return f"Quantized{type(self).__name__}"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of one that was prepared."""
        return cls._of(mod, *output_parameters(mod))  # type: ignore[attr-defined]

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The quantized layer of one in floating point."""
        return cls._of(mod, float(scale), int(zero_point))  # type: ignore[attr-defined]


class LayerNorm(_Norm, torch.nn.LayerNorm):
    """`torch.nn.LayerNorm` of quantized tensors."""

    def __init__(self, normalized_shape, weight, bias, scale, zero_point, eps=1e-5, elementwise_affine=True,
                 device=None, dtype=None):
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine)
        self._take(weight, bias, scale, zero_point)

    def forward(self, input):
        return ops.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps, *self._quantizer())

    @classmethod
    def _of(cls, mod, scale, zero_point):
        return cls(mod.normalized_shape, mod.weight, mod.bias, scale, zero_point, mod.eps, mod.elementwise_affine)


class GroupNorm(_Norm, torch.nn.GroupNorm):
    """`torch.nn.GroupNorm` of quantized tensors."""

    def __init__(self, num_groups, num_channels, weight, bias, scale, zero_point, eps=1e-5, affine=True, device=None,
                 dtype=None):
        super().__init__(num_groups, num_channels, eps, affine)
        self._take(weight, bias, scale, zero_point)

    def forward(self, input):
        return ops.group_norm(input, self.num_groups, self.weight, self.bias, self.eps, *self._quantizer())

    @classmethod
    def _of(cls, mod, scale, zero_point):
        return cls(mod.num_groups, mod.num_channels, mod.weight, mod.bias, scale, zero_point, mod.eps, mod.affine)


class _InstanceNorm(_Norm):
    def __init__(self, num_features, weight, bias, scale, zero_point, eps=1e-5, momentum=0.1, affine=False,
                 track_running_stats=False, device=None, dtype=None):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self._take(weight, bias, scale, zero_point)

    def forward(self, input):
        return ops.instance_norm(input, self.weight, self.bias, self.eps, *self._quantizer())

    @classmethod
    def _of(cls, mod, scale, zero_point):
        return cls(mod.num_features, mod.weight, mod.bias, scale, zero_point, mod.eps, mod.affine)


class InstanceNorm1d(_InstanceNorm, torch.nn.InstanceNorm1d):
    """`torch.nn.InstanceNorm1d` of quantized tensors."""


class InstanceNorm2d(_InstanceNorm, torch.nn.InstanceNorm2d):
    """`torch.nn.InstanceNorm2d` of quantized tensors."""


class InstanceNorm3d(_InstanceNorm, torch.nn.InstanceNorm3d):
    """`torch.nn.InstanceNorm3d` of quantized tensors."""
