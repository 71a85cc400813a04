"""A linear layer and a batch normalization that train with folded, rounded weights."""

from __future__ import annotations

import ftorch as torch
from ftorch import nn
from ftorch.ao.nn import intrinsic as nni
from ftorch.nn.utils.fusion import fuse_linear_bn_weights

__all__ = ["LinearBn1d"]


class LinearBn1d(nn.Linear, nni._FusedModule):
    """A linear layer that trains with the batch normalization that follows it."""

    def __init__(self, in_features, out_features, bias=True, eps=1e-05, momentum=0.1, freeze_bn=False, qconfig=None):
        nn.modules.linear.Linear.__init__(self, in_features, out_features, bias)
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.freeze_bn = freeze_bn if self.training else True
        self.bn = nn.BatchNorm1d(out_features, eps, momentum, True, True)
        self.weight_fake_quant = self.qconfig.weight()
        if bias:
            self.bias = nn.Parameter(torch.empty(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_bn_parameters()
        self.freeze_bn_stats() if self.freeze_bn else self.update_bn_stats()

    def reset_running_stats(self):
        """Forgets the statistics of batch normalization."""
        self.bn.reset_running_stats()

    def reset_bn_parameters(self):
        """Begins anew with batch normalization."""
        self.bn.reset_running_stats()
        nn.init.uniform_(self.bn.weight)
        nn.init.zeros_(self.bn.bias)

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

    def forward(self, input):
        factor = self.bn.weight / torch.sqrt(self.bn.running_var + self.bn.eps)
        weight = self.weight_fake_quant(self.weight * factor.reshape(-1, 1))
        zero = torch.zeros_like(self.bias if self.bias is not None else factor, dtype=input.dtype)
        out = torch.nn.functional.linear(input, weight, zero) / factor.reshape(1, -1)
        if self.bias is not None:
            out = out + self.bias.reshape(1, -1)
        return self.bn(out)

    def train(self, mode=True):
        """Training or evaluation; frozen statistics stay frozen."""
        self.training = mode
        if not self.freeze_bn:
            for module in self.children():
                module.train(mode)
        return self

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer of a fused one in floating point that has a QConfig."""
        if type(mod) is not nni.LinearBn1d:
            raise AssertionError("qat." + cls.__name__ + ".from_float only works for " + nni.LinearBn1d.__name__)
        if not getattr(mod, "qconfig", None):
            raise AssertionError("Input float module must have a valid config")
        linear, bn = mod[0], mod[1]
        layer = cls(linear.in_features, linear.out_features, linear.bias is not None, bn.eps, bn.momentum, False,
                    mod.qconfig)
        layer.weight, layer.bias = linear.weight, linear.bias
        layer.bn.weight, layer.bn.bias = bn.weight, bn.bias
        layer.bn.running_mean, layer.bn.running_var = bn.running_mean, bn.running_var
        layer.bn.num_batches_tracked = bn.num_batches_tracked
        return layer

    def to_float(self):
        """The layer in floating point, the normalization folded in."""
        linear, bn = nn.Linear(self.in_features, self.out_features), self.bn
        linear.weight, linear.bias = fuse_linear_bn_weights(
            self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )
        return linear
