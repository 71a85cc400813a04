"""Weights that are rounded as they are used (``torch.ao.nn.quantized.reference.modules.utils``)."""

from __future__ import annotations

from typing import Any

import ftorch as torch

__all__ = ["ReferenceQuantizedModule"]

_DEFAULT = {"qscheme": torch.per_tensor_affine, "dtype": torch.quint8, "scale": 1.0, "zero_point": 0}
_CHANNELS = (torch.per_channel_affine, torch.per_channel_affine_float_qparams)
_INTEGERS = (torch.quint8, torch.qint8, torch.quint4x2, torch.qint32)


def _as_buffer(value, dtype, device):
    """A copy of a tensor, or a number as one."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return torch.tensor(value, dtype=dtype, device=device)


def _quantize_weight(weight, weight_qscheme, weight_dtype, weight_scale, weight_zero_point, weight_axis_int):
    """A weight, quantized.

    Raises:
        ValueError: for schemes and dtypes that weights cannot have.
    """
    if weight_dtype is torch.float16:
        return weight.to(weight_dtype)
    if weight_qscheme is torch.per_tensor_affine and weight_dtype in (torch.quint8, torch.qint8, torch.qint32):
        return torch.quantize_per_tensor(weight, weight_scale, weight_zero_point, weight_dtype)
    if weight_qscheme in _CHANNELS and weight_dtype in _INTEGERS:
        return torch.quantize_per_channel(weight, weight_scale, weight_zero_point, weight_axis_int, weight_dtype)
    raise ValueError(f"Unsupported dtype and qscheme: {weight_dtype}, {weight_qscheme}")


def _quantize_and_dequantize_weight(weight, weight_qscheme, weight_dtype, weight_scale, weight_zero_point,
                                    weight_axis_int):
    """A weight with the numbers that its quantized form has."""
    if weight_qscheme not in (torch.per_tensor_affine, *_CHANNELS):
        return weight
    quantized = _quantize_weight(
        weight, weight_qscheme, weight_dtype, weight_scale, weight_zero_point, weight_axis_int
    )
    return quantized.dequantize()


_BOUNDS = {torch.uint8: (0, 255), torch.int8: (-128, 127), torch.int32: (-(2**31), 2**31 - 1)}


def _decomposed(name, weight, qscheme, dtype, scale, zero_point, axis, quant_min, quant_max):
    """`torch.ops.quantized_decomposed`'s operator of a name, on a weight."""
    ops = torch.ops.quantized_decomposed
    integers = torch.ao.quantization.utils.to_underlying_dtype(dtype)
    if quant_min is None or quant_max is None:
        quant_min, quant_max = _BOUNDS[integers]
    if qscheme is torch.per_tensor_affine:
        return getattr(ops, f"{name}_per_tensor").tensor(weight, scale, zero_point, quant_min, quant_max, integers)
    if qscheme in _CHANNELS:
        return getattr(ops, f"{name}_per_channel")(weight, scale, zero_point, axis, quant_min, quant_max, integers)
    raise ValueError(f"Unsupported dtype and qscheme: {dtype}, {qscheme}")


def _quantize_weight_decomposed(*arguments):
    return _decomposed("quantize", *arguments)


def _dequantize_weight_decomposed(*arguments):
    return _decomposed("dequantize", *arguments)


class ReferenceQuantizedModule(torch.nn.Module):
    """A layer with a weight in floating point that is rounded as it is used."""

    def _init_weight_qparams(self, weight_qparams: dict[str, Any] | None, device) -> None:
        given = _DEFAULT if weight_qparams is None else weight_qparams
        self.weight_qscheme, self.weight_dtype = given["qscheme"], given["dtype"]
        if self.weight_qscheme not in (None, torch.per_tensor_affine, *_CHANNELS):
            raise AssertionError(
                f"qscheme: {self.weight_qscheme} is not supported in reference quantized {self._get_name()}"
            )
        scale, zero_point, axis = 1.0, 0, 0
        if self.weight_dtype in _INTEGERS:
            scale, zero_point = given["scale"], given["zero_point"]
            axis = given["axis"] if self.weight_qscheme in _CHANNELS else 0
        self.register_buffer("weight_scale", _as_buffer(scale, torch.float, device))
        self.register_buffer("weight_zero_point", _as_buffer(zero_point, torch.int, device))
        self.register_buffer("weight_axis", _as_buffer(axis, torch.int, device))
        self.is_decomposed: bool = given.get("is_decomposed", False)
        self.weight_axis_int: int = self.weight_axis.item()
        self.weight_quant_min, self.weight_quant_max = given.get("quant_min"), given.get("quant_max")

    def _quantizer(self):
        return (self.weight_qscheme, self.weight_dtype, self.weight_scale, self.weight_zero_point, self.weight_axis_int)

    def get_weight(self):
        """The weight with the numbers that its quantized form has."""
        if not self.is_decomposed:
            return _quantize_and_dequantize_weight(self.weight, *self._quantizer())
        if self.weight_qscheme not in (torch.per_tensor_affine, *_CHANNELS):
            return self.weight
        bounds = self.weight_quant_min, self.weight_quant_max
        return _dequantize_weight_decomposed(self.get_quantized_weight(), *self._quantizer(), *bounds)

    def get_quantized_weight(self):
        """The weight, quantized."""
        if self.is_decomposed:
            bounds = self.weight_quant_min, self.weight_quant_max
            return _quantize_weight_decomposed(self.weight, *self._quantizer(), *bounds)
        return _quantize_weight(self.weight, *self._quantizer())

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight_qscheme"] = self.weight_qscheme
        destination[prefix + "weight_dtype"] = self.weight_dtype
        if self.weight_qscheme is not None:
            destination[prefix + "weight_scale"] = self.weight_scale
            destination[prefix + "weight_zero_point"] = self.weight_zero_point
            if self.weight_qscheme is torch.per_channel_affine:
                destination[prefix + "weight_axis"] = self.weight_axis

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        keys = ["weight_qscheme", "weight_dtype"]
        if state_dict[prefix + "weight_qscheme"] is not None:
            keys += ["weight_scale", "weight_zero_point"]
        for key in keys:
            setattr(self, key, state_dict.pop(prefix + key))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )
