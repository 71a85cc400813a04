"""Quantized linear layers (``torch.ao.nn.quantized.modules.linear``)."""

from __future__ import annotations

import ftorch as torch
from ftorch.ao.nn import intrinsic as nni
from ftorch.nn.utils.parametrize import type_before_parametrizations

from .utils import (
    WeightedQuantizedModule,
    _hide_packed_params_repr,
    _quantize_weight,
    fused_with_batch_norm,
    output_parameters,
)

__all__ = ["Linear", "LinearPackedParams"]

ops = torch.ops.quantized


class LinearPackedParams(torch.nn.Module):
    """Packed weights as a module: what saves and loads them.

    Args:
        dtype: ``torch.qint8``, or ``torch.float16`` for weights of half precision.
    """

    _version = 3

    def __init__(self, dtype=torch.qint8):
        super().__init__()
        self.dtype = dtype
        if dtype is torch.qint8:
            weight = torch._empty_affine_quantized([1, 1], scale=1, zero_point=0, dtype=torch.qint8)
        else:
            weight = torch.zeros([1, 1], dtype=torch.float)
        self.set_weight_bias(weight, None)

    def set_weight_bias(self, weight, bias) -> None:
        """Packs a weight and a bias.

        Raises:
            RuntimeError: for other dtypes.
        """
        if self.dtype is torch.qint8:
            self._packed_params = ops.linear_prepack(weight, bias)
        elif self.dtype is torch.float16:
            self._packed_params = ops.linear_prepack_fp16(weight, bias)
        else:
            raise RuntimeError("Unsupported dtype on dynamic quantized linear!")

    def _weight_bias(self):
        return self._packed_params.unpack()

    def forward(self, x):
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        version = local_metadata.get("version")
        self.dtype = torch.qint8 if version is None or version < 2 else state_dict.pop(prefix + "dtype")
        if version is None or version < 3:
            self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        else:
            self.set_weight_bias(*state_dict.pop(prefix + "_packed_params"))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def __repr__(self):
        return repr(self._weight_bias())


class Linear(WeightedQuantizedModule):
    """A linear layer of quantized inputs, weights and results.

    Attributes:
        scale, zero_point: the results' quantizer.

    >>> import ftorch as torch
    >>> layer = torch.ao.nn.quantized.Linear(3, 2)
    >>> layer(torch.quantize_per_tensor(torch.ones(4, 3), 1.0, 0, torch.quint8)).shape
    torch.Size([4, 2])
    """

    _version = 3
    _FLOAT_MODULE = (torch.nn.Linear, torch.nn.modules.linear.NonDynamicallyQuantizableLinear)

    def __init__(self, in_features, out_features, bias_=True, dtype=torch.qint8):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bias = torch.zeros(out_features, dtype=torch.float) if bias_ else None
        if dtype is torch.qint8:
            weight = torch._empty_affine_quantized([out_features, in_features], scale=1, zero_point=0, dtype=dtype)
        elif dtype is torch.float16:
            weight = torch.zeros([out_features, in_features], dtype=torch.float)
        else:
            raise RuntimeError("Unsupported dtype specified for quantized Linear!")
        self._packed_params = LinearPackedParams(dtype)
        self._packed_params.set_weight_bias(weight, bias)
        self.scale = 1.0
        self.zero_point = 0

    def _get_name(self):
        return "QuantizedLinear"

    def extra_repr(self):
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale}, "
            f"zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    def __repr__(self):
        return _hide_packed_params_repr(self, LinearPackedParams)

    def forward(self, x):
        return ops.linear(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        version = local_metadata.get("version")
        if version is None or version == 1:
            weight, bias = state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias")
            state_dict.update({prefix + "_packed_params.weight": weight, prefix + "_packed_params.bias": bias})
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def _weight_bias(self):
        return self._packed_params._weight_bias()

    def weight(self):
        """The weight, quantized."""
        return self._weight_bias()[0]

    def bias(self):
        """The bias, or None."""
        return self._weight_bias()[1]

    def set_weight_bias(self, w, b) -> None:
        """Packs a quantized weight and a bias."""
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of one that was prepared.

        Raises:
            AssertionError: for other modules, and modules that were not prepared.
        """
        if hasattr(mod, "weight_fake_quant"):
            if type_before_parametrizations(mod) is nni.qat.LinearBn1d:
                mod.weight, mod.bias = fused_with_batch_norm(mod)
            observer = mod.weight_fake_quant
        else:
            kinds = cls._FLOAT_MODULE if isinstance(cls._FLOAT_MODULE, tuple) else (cls._FLOAT_MODULE,)
            if type_before_parametrizations(mod) not in kinds:
                names = ", ".join(kind.__name__ for kind in kinds)
                raise AssertionError(f"nnq.{cls.__name__}.from_float only works for {names}, but got: {type(mod)}")
            if not hasattr(mod, "qconfig"):
                raise AssertionError("Input float module must have qconfig defined")
            process = mod.activation_post_process
            if type_before_parametrizations(mod) is nni.LinearReLU:
                mod = mod[0]
            observer = mod.qconfig.weight() if not hasattr(mod, "weight_fake_quant") else mod.weight_fake_quant
            mod.activation_post_process = process
        if not use_precomputed_fake_quant:
            observer(mod.weight)
        if observer.dtype is not torch.qint8:
            raise AssertionError("Weight observer must have dtype torch.qint8")
        layer = cls(mod.in_features, mod.out_features, dtype=torch.qint8)
        layer.set_weight_bias(_quantize_weight(mod.weight.detach().float(), observer), mod.bias)
        layer.scale, layer.zero_point = output_parameters(mod)
        return layer

    @classmethod
    def _arguments(cls, mod):
        """What the layer takes from one in floating point beside its sizes."""
        return ()

    @classmethod
    def from_reference(cls, ref_qlinear, output_scale, output_zero_point):
        arguments = cls._arguments(ref_qlinear)
        if isinstance(ref_qlinear, nni._FusedModule):
            ref_qlinear = ref_qlinear[0]
        layer = cls(ref_qlinear.in_features, ref_qlinear.out_features, *arguments)
        layer.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        layer.scale, layer.zero_point = float(output_scale), int(output_zero_point)
        return layer
