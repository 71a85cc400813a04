"""Convolutions and batch normalizations that train with folded, rounded weights.

(``torch.ao.nn.intrinsic.qat.modules.conv_fused``.) The weight is multiplied by what batch normalization will multiply
by, rounded, and the results are divided by the same, before they are normalized by their own statistics.
"""

from __future__ import annotations

import ftorch as torch
from ftorch import nn
from ftorch.ao.nn import intrinsic as nni
from ftorch.ao.nn.qat.modules import conv as nnqat
from ftorch.nn.utils.fusion import fuse_conv_bn_weights

__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d",
    "ConvReLU3d", "freeze_bn_stats", "update_bn_stats",
]


class _ConvBnNd(nn.modules.conv._ConvNd, nni._FusedModule):
    """A convolution that trains with the batch normalization that follows it."""

    _version = 2
    _FLOAT_MODULE: type
    _FLOAT_CONV: type
    _BATCH_NORM: type
    _relu = False

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=None,
                 padding_mode="zeros", eps=1e-05, momentum=0.1, freeze_bn=False, qconfig=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, False,
                         padding_mode)  # type: ignore[call-arg]
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.freeze_bn = freeze_bn if self.training else True  # type: ignore[has-type]
        self.bn = self._BATCH_NORM(out_channels, eps, momentum, True, True)
        self.weight_fake_quant = self.qconfig.weight()
        if bias:
            self.bias = nn.Parameter(torch.empty(out_channels))
        else:
            self.register_parameter("bias", None)  # type: ignore[attr-defined]
        self.reset_bn_parameters()
        if self.training:
            self.freeze_bn_stats() if freeze_bn else self.update_bn_stats()
        else:
            self.freeze_bn_stats()
        self._enable_slow_path_for_better_numerical_stability = False

    def reset_running_stats(self):
        """Forgets the statistics of batch normalization."""
        self.bn.reset_running_stats()

    def reset_bn_parameters(self):
        """Begins anew with batch normalization, and with the bias."""
        self.bn.reset_running_stats()
        nn.init.uniform_(self.bn.weight)
        nn.init.zeros_(self.bn.bias)
        if self.bias is not None:
            fan_in, _ = nn.init._calculate_fan_in_and_fan_out(self.weight)  # type: ignore[attr-defined]
            bound = 1 / fan_in**0.5
            nn.init.uniform_(self.bias, -bound, bound)

    def update_bn_stats(self):
        """The statistics follow the batches from now on."""
        self.freeze_bn = False
        self.bn.training = True
        return self

    def freeze_bn_stats(self):
        """The statistics stay as they are from now on."""
        self.freeze_bn = True
        self.bn.training = False
        return self

    def _forward(self, input):
        bn = self.bn
        factor = bn.weight / torch.sqrt(bn.running_var + bn.eps)
        weight_shape, bias_shape = [1] * self.weight.dim(), [1] * self.weight.dim()  # type: ignore[attr-defined]
        weight_shape[0] = bias_shape[1] = -1
        weight = self.weight_fake_quant(self.weight * factor.reshape(weight_shape))  # type: ignore[attr-defined]
        zero = torch.zeros_like(self.bias if self.bias is not None else factor, dtype=input.dtype)
        out = self._conv_forward(input, weight, zero) / factor.reshape(bias_shape)  # type: ignore[attr-defined]
        if self.bias is not None:
            out = out + self.bias.reshape(bias_shape)
        return bn(out)

    def forward(self, input):
        out = self._forward(input)
        return torch.nn.functional.relu(out) if self._relu else out

    def train(self, mode=True):
        """Training or evaluation; frozen statistics stay frozen."""
        self.training = mode
        if not self.freeze_bn:
            for module in self.children():  # type: ignore[attr-defined]
                module.train(mode)
        return self

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        if (local_metadata.get("version") or 1) == 1:  # the names before PyTorch 1.6
            names = {"gamma": "bn.weight", "beta": "bn.bias", "running_mean": "bn.running_mean",
                     "running_var": "bn.running_var", "num_batches_tracked": "bn.num_batches_tracked"}
            for old, new in names.items():
                if prefix + old in state_dict:
                    state_dict[prefix + new] = state_dict.pop(prefix + old)
                elif strict and prefix + new not in state_dict:
                    missing_keys.append(prefix + new)
        super()._load_from_state_dict(  # type: ignore[misc]
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer of a fused one in floating point that has a QConfig."""
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}")
        if not getattr(mod, "qconfig", None):
            raise AssertionError("Input float module must have a valid qconfig")
        conv, bn = mod[0], mod[1]
        layer = cls(conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.dilation,
                    conv.groups, conv.bias is not None, conv.padding_mode, bn.eps, bn.momentum, False, mod.qconfig)
        layer.weight, layer.bias = conv.weight, conv.bias
        layer.bn.weight, layer.bn.bias = bn.weight, bn.bias
        layer.bn.running_mean, layer.bn.running_var = bn.running_mean, bn.running_var
        layer.bn.num_batches_tracked = bn.num_batches_tracked
        return layer

    def to_float(self):
        """The layer in floating point, the normalization folded in."""
        conv = self._FLOAT_CONV(
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
        bn = self.bn
        conv.weight, conv.bias = fuse_conv_bn_weights(
            nn.Parameter(self.weight.detach()),
            self.bias,
            bn.running_mean,
            bn.running_var,
            bn.eps,
            bn.weight,
            bn.bias,  # type: ignore[attr-defined]
        )
        if self._relu:
            fused = {nn.Conv1d: nni.ConvReLU1d, nn.Conv2d: nni.ConvReLU2d, nn.Conv3d: nni.ConvReLU3d}
            conv = fused[self._FLOAT_CONV](conv, nn.ReLU())
        conv.train(self.training)
        return conv


class ConvBn1d(_ConvBnNd, nn.Conv1d):
    """A convolution and a batch normalization over one dimension."""

    _FLOAT_MODULE, _FLOAT_CONV, _BATCH_NORM = nni.ConvBn1d, nn.Conv1d, nn.BatchNorm1d


class ConvBn2d(_ConvBnNd, nn.Conv2d):
    """A convolution and a batch normalization over two dimensions."""

    _FLOAT_MODULE, _FLOAT_CONV, _BATCH_NORM = nni.ConvBn2d, nn.Conv2d, nn.BatchNorm2d


class ConvBn3d(_ConvBnNd, nn.Conv3d):
    """A convolution and a batch normalization over three dimensions."""

    _FLOAT_MODULE, _FLOAT_CONV, _BATCH_NORM = nni.ConvBn3d, nn.Conv3d, nn.BatchNorm3d


class ConvBnReLU1d(ConvBn1d):
    """A convolution, a batch normalization and a ReLU over one dimension."""

    _FLOAT_MODULE, _relu = nni.ConvBnReLU1d, True


class ConvBnReLU2d(ConvBn2d):
    """A convolution, a batch normalization and a ReLU over two dimensions."""

    _FLOAT_MODULE, _relu = nni.ConvBnReLU2d, True


class ConvBnReLU3d(ConvBn3d):
    """A convolution, a batch normalization and a ReLU over three dimensions."""

    _FLOAT_MODULE, _relu = nni.ConvBnReLU3d, True


class _ConvReLU:
    def forward(self, input):
        return torch.nn.functional.relu(super().forward(input))  # type: ignore[misc]


class ConvReLU1d(_ConvReLU, nnqat.Conv1d, nni._FusedModule):
    """A convolution over one dimension and a ReLU."""

    _FLOAT_MODULE = nni.ConvReLU1d


class ConvReLU2d(_ConvReLU, nnqat.Conv2d, nni._FusedModule):
    """A convolution over two dimensions and a ReLU."""

    _FLOAT_MODULE = nni.ConvReLU2d


class ConvReLU3d(_ConvReLU, nnqat.Conv3d, nni._FusedModule):
    """A convolution over three dimensions and a ReLU."""

    _FLOAT_MODULE = nni.ConvReLU3d


def update_bn_stats(mod):
    """The statistics of batch normalization follow the batches from now on; for ``model.apply``."""
    if isinstance(mod, _ConvBnNd) or type(mod).__name__ == "LinearBn1d":
        mod.update_bn_stats()


def freeze_bn_stats(mod):
    """The statistics of batch normalization stay as they are from now on; for ``model.apply``."""
    if isinstance(mod, _ConvBnNd) or type(mod).__name__ == "LinearBn1d":
        mod.freeze_bn_stats()
