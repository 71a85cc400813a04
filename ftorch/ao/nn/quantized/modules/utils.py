"""What quantized layers have in common (``torch.ao.nn.quantized.modules.utils``)."""

from __future__ import annotations

import abc
import collections
import itertools

import ftorch as torch

__all__ = ["WeightedQuantizedModule"]


class WeightedQuantizedModule(torch.nn.Module, metaclass=abc.ABCMeta):
    """A quantized layer with a weight, which comes from one in floating point."""

    @classmethod
    @abc.abstractmethod
    def from_reference(cls, ref_module, output_scale, output_zero_point):
        """The layer of one that computes with rounded numbers."""


def _quantize_weight(float_wt, observer):
    """A weight, quantized as its observer says.

    Raises:
        ValueError: for schemes that weights cannot have.
    """
    scale, zero_point = observer.calculate_qparams()
    if observer.qscheme in (torch.per_tensor_symmetric, torch.per_tensor_affine):
        return torch.quantize_per_tensor(float_wt, float(scale), int(zero_point), observer.dtype)
    axis = observer.ch_axis
    if observer.qscheme in (torch.per_channel_symmetric, torch.per_channel_affine):
        return torch.quantize_per_channel(
            float_wt, scale.to(torch.double), zero_point.to(torch.int64), axis, observer.dtype
        )
    if observer.qscheme is torch.per_channel_affine_float_qparams:
        return torch.quantize_per_channel(
            float_wt, scale.to(torch.float), zero_point.to(torch.float), axis, observer.dtype
        )
    raise ValueError(f"Unexpected qscheme {observer.qscheme}")


def _ntuple_from_first(n):
    """A function that repeats the first of some values."""

    def parse(x):
        while isinstance(x, collections.abc.Sequence):
            if len(x) == n:
                return tuple(x)
            x = x[0]
        return tuple(itertools.repeat(x, n))

    return parse


def _hide_packed_params_repr(self, params):
    """The text of a module without its packed weights."""
    lines = []
    for key, module in self._modules.items():
        if isinstance(module, params):
            continue
        text = repr(module).replace("\n", "\n  ")
        lines.append(f"({key}): {text}")
    extra = self.extra_repr()
    parts = (extra.split("\n") if extra else []) + lines
    inner = parts[0] if extra and "\n" not in extra and not lines else ""
    if parts and not inner:
        inner = "\n  " + "\n  ".join(parts) + "\n"
    return f"{self._get_name()}({inner})"


def weight_observer(mod):
    """The observer of a layer's weight, which has seen it.

    Returns:
        (observer, weight): the observer of the QConfig, or the fake quantizer's where there is one.
    """
    if hasattr(mod, "weight_fake_quant"):
        observer = mod.weight_fake_quant
        return observer
    observer = mod.qconfig.weight()
    observer(mod.weight)
    return observer


def fused_with_batch_norm(mod):
    """The weight and bias of a convolution that a batch normalization is folded into."""
    from ftorch.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

    bn = mod.bn
    function = fuse_linear_bn_weights if isinstance(mod, torch.nn.Linear) else fuse_conv_bn_weights
    return function(mod.weight, mod.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)


def output_parameters(mod):
    """(scale, zero_point) of a layer's results."""
    scale, zero_point = mod.activation_post_process.calculate_qparams()
    return float(scale), int(zero_point)
