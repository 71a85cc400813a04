"""Batch normalization folded into the layer before it, for inference."""

from __future__ import annotations

import copy

from ...eager.core import api as torch
from ..parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def _fused(layer, bn, fuse, *args):
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    layer = copy.deepcopy(layer)
    layer.weight, layer.bias = fuse(
        layer.weight, layer.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, *args
    )
    return layer


def _check_mode(layer, bn):
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A convolution that computes ``bn(conv(x))``, both in evaluation mode.

    Args:
        transpose: for transposed convolutions.

    >>> import ftorch as torch
    >>> conv, bn = torch.nn.Conv1d(2, 3, 2).eval(), torch.nn.BatchNorm1d(3).eval()
    >>> x = torch.ones(1, 2, 4)
    >>> torch.allclose(torch.nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-6)
    True
    """
    _check_mode(conv, bn)
    return _fused(conv, bn, fuse_conv_bn_weights, transpose)


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """The weight and bias of a convolution followed by batch normalization."""
    weight_dtype = conv_w.dtype
    bias_dtype = weight_dtype if conv_b is None else conv_b.dtype
    conv_b = torch.zeros_like(bn_rm) if conv_b is None else conv_b
    scale = torch.rsqrt(bn_rv + bn_eps)
    if bn_w is not None:
        scale = bn_w * scale
    bias = (conv_b - bn_rm) * scale
    if bn_b is not None:
        bias = bias + bn_b
    channel_dim = 1 if transpose else 0
    shape = [-1 if d == channel_dim else 1 for d in range(conv_w.dim())]
    weight = conv_w * scale.reshape(shape)
    return (
        Parameter(weight.to(dtype=weight_dtype), conv_w.requires_grad),
        Parameter(bias.to(dtype=bias_dtype), conv_b.requires_grad),
    )


def fuse_linear_bn_eval(linear, bn):
    """A linear layer that computes ``bn(linear(x))`` for (N, features), both in evaluation mode.

    Raises:
        AssertionError: in training mode, or if the features differ (``bn`` may have one).
    """
    _check_mode(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    return _fused(linear, bn, fuse_linear_bn_weights)


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """The weight and bias of a linear layer followed by batch normalization."""
    bias_dtype = linear_w.dtype if linear_b is None else linear_b.dtype
    linear_b = torch.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * torch.rsqrt(bn_rv + bn_eps)
    weight = linear_w * scale.unsqueeze(-1).to(dtype=linear_w.dtype)
    bias = ((linear_b - bn_rm) * scale + bn_b).to(dtype=bias_dtype)
    return (
        Parameter(weight, linear_w.requires_grad),
        Parameter(bias, linear_b.requires_grad),
    )
