"""Quantized convolutions (``torch.ao.nn.quantized.modules.conv``)."""

from __future__ import annotations

import ftorch as torch
from ftorch import nn
from ftorch.ao.nn import intrinsic as nni
from ftorch.nn.utils.parametrize import type_before_parametrizations

from .utils import (
    WeightedQuantizedModule,
    _ntuple_from_first,
    _quantize_weight,
    fused_with_batch_norm,
    output_parameters,
)

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

ops = torch.ops.quantized


class _ConvNd(WeightedQuantizedModule):
    """A convolution of quantized inputs, weights and results.

    Attributes:
        _dims: over how many dimensions.
        scale, zero_point: the results' quantizer.
    """

    _dims = 2
    _transposed = False
    _operator = "conv2d"

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):
        self._make(in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias, padding_mode)

    def _make(self, in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias,
              padding_mode):
        super().__init__()
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if padding_mode not in ("zeros", "reflect"):
            raise NotImplementedError(f"padding mode {padding_mode} is not supported by quantized convolutions")
        each = _ntuple_from_first(self._dims)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = each(kernel_size), each(stride), each(dilation)
        self.padding = padding if isinstance(padding, str) else each(padding)
        self.transposed, self.output_padding = self._transposed, each(output_padding)
        self.padding_mode = padding_mode
        first, second = (in_channels, out_channels) if self._transposed else (out_channels, in_channels)
        weight = torch._empty_affine_quantized(
            [first, second // groups, *self.kernel_size], scale=1, zero_point=0, dtype=torch.qint8
        )
        self.set_weight_bias(weight, torch.zeros(out_channels, dtype=torch.float) if bias else None)
        self.scale = 1.0
        self.zero_point = 0

    def _get_name(self):
        return f"Quantized{type(self).__name__}"

    def set_weight_bias(self, w, b):
        """Packs a quantized weight and a bias."""
        pack = getattr(ops, f"conv{'_transpose' if self._transposed else ''}{self._dims}d_prepack")
        padding = self.padding if self.padding_mode == "zeros" else (0,) * self._dims
        extra = (self.output_padding,) if self._transposed else ()
        self._packed_params = pack(w, b, self.stride, padding, *extra, self.dilation, self.groups)

    def _weight_bias(self):
        return self._packed_params.unpack()

    def weight(self):
        """The weight, quantized."""
        return self._weight_bias()[0]

    def bias(self):
        """The bias, or None."""
        return self._weight_bias()[1]

    def _input(self, input):
        if input.dim() != self._dims + 2:
            shape = {1: "(N, C, L)", 2: "(N, C, H, W)", 3: "(N, C, D, H, W)"}[self._dims]
            raise ValueError(f"Input shape must be `{shape}`!")
        if self.padding_mode != "zeros":
            sides = [p for n in reversed(self.padding) for p in (n, n)]
            return torch.nn.functional.pad(input, sides, mode=self.padding_mode)
        return input

    def forward(self, input):
        return getattr(ops, self._operator)(self._input(input), self._packed_params, self.scale, self.zero_point)

    def extra_repr(self):
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"scale={self.scale}, zero_point={self.zero_point}"
        )
        if self.padding != (0,) * len(self.padding):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * len(self.dilation):
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * len(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text if self.bias() is not None else text + ", bias=False"

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        weight, bias = self._weight_bias()
        destination[prefix + "weight"] = weight
        destination[prefix + "bias"] = bias
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __copy__(self):
        made = type(self).__new__(type(self))
        torch.nn.Module.__init__(made)
        made.__dict__.update({k: v for k, v in self.__dict__.items() if k not in made.__dict__})
        made.training = self.training
        return made

    @classmethod
    def _like(cls, mod):
        """A layer of the sizes of another."""
        arguments = [mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding]
        if cls._transposed:
            arguments += [mod.output_padding, mod.groups, mod.bias is not None, mod.dilation, mod.padding_mode]
        else:
            arguments += [mod.dilation, mod.groups, mod.bias is not None, mod.padding_mode]
        return cls(*arguments)

    @classmethod
    def get_qconv(cls, mod, activation_post_process, weight_post_process=None):
        """The quantized layer of one in floating point, and the observers of its results and weight."""
        observer = mod.qconfig.weight() if weight_post_process is None else weight_post_process
        if weight_post_process is None or not hasattr(mod, "weight_fake_quant"):
            observer(mod.weight)
        if observer.dtype is not torch.qint8:
            raise AssertionError("Weight observer must have a dtype of qint8")
        layer = cls._like(mod)
        layer.set_weight_bias(_quantize_weight(mod.weight.detach().float(), observer), mod.bias)
        if activation_post_process is not None and activation_post_process.dtype is not torch.float:
            scale, zero_point = activation_post_process.calculate_qparams()
            layer.scale, layer.zero_point = float(scale), int(zero_point)
        return layer

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of one that was prepared.

        Raises:
            AssertionError: for other modules, and modules that were not prepared.
        """
        if hasattr(mod, "weight_fake_quant"):
            if hasattr(mod, "bn"):
                mod.weight, mod.bias = fused_with_batch_norm(mod)
            observer = mod.weight_fake_quant
            if not use_precomputed_fake_quant:
                observer(mod.weight)
            return cls._finished(mod, observer)
        kind = type_before_parametrizations(mod)
        if kind is not cls._FLOAT_MODULE and kind not in getattr(cls, "_FUSED", ()):
            raise AssertionError(
                f" nnq.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__} but got:{type(mod)}"
            )
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined.")
        process = getattr(mod, "activation_post_process", None)
        if isinstance(mod, nni._FusedModule):
            qconfig, mod = mod.qconfig, mod[0]
            mod.qconfig = getattr(mod, "qconfig", None) or qconfig
        return cls.get_qconv(mod, process)

    @classmethod
    def _finished(cls, mod, observer):
        layer = cls._like(mod)
        layer.set_weight_bias(_quantize_weight(mod.weight.detach().float(), observer), mod.bias)
        layer.scale, layer.zero_point = output_parameters(mod)
        return layer

    @classmethod
    def from_reference(cls, ref_qconv, output_scale, output_zero_point):
        if isinstance(ref_qconv, nni._FusedModule):
            ref_qconv = ref_qconv[0]
        layer = cls._like(ref_qconv)
        layer.set_weight_bias(ref_qconv.get_quantized_weight(), ref_qconv.bias)
        layer.scale, layer.zero_point = float(output_scale), int(output_zero_point)
        return layer


class Conv1d(_ConvNd):
    """A quantized convolution over one dimension: (N, C, L)."""

    _dims, _operator, _FLOAT_MODULE = 1, "conv1d", nn.Conv1d


class Conv2d(_ConvNd):
    """A quantized convolution over two dimensions: (N, C, H, W).

    >>> import ftorch as torch
    >>> layer = torch.ao.nn.quantized.Conv2d(3, 4, 3)
    >>> layer(torch.quantize_per_tensor(torch.ones(1, 3, 5, 5), 1.0, 0, torch.quint8)).shape
    torch.Size([1, 4, 3, 3])
    """

    _dims, _operator, _FLOAT_MODULE = 2, "conv2d", nn.Conv2d


class Conv3d(_ConvNd):
    """A quantized convolution over three dimensions: (N, C, D, H, W)."""

    _dims, _operator, _FLOAT_MODULE = 3, "conv3d", nn.Conv3d


class _ConvTransposeNd(_ConvNd):
    """A quantized transposed convolution."""

    _transposed = True

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
                 bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None):
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self._make(in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias,
                   padding_mode)


class ConvTranspose1d(_ConvTransposeNd):
    """A quantized transposed convolution over one dimension."""

    _dims, _operator, _FLOAT_MODULE = 1, "conv_transpose1d", nn.ConvTranspose1d


class ConvTranspose2d(_ConvTransposeNd):
    """A quantized transposed convolution over two dimensions."""

    _dims, _operator, _FLOAT_MODULE = 2, "conv_transpose2d", nn.ConvTranspose2d


class ConvTranspose3d(_ConvTransposeNd):
    """A quantized transposed convolution over three dimensions."""

    _dims, _operator, _FLOAT_MODULE = 3, "conv_transpose3d", nn.ConvTranspose3d
