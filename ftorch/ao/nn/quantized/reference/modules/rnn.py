"""Recurrent layers that compute with rounded weights (``torch.ao.nn.quantized.reference.modules.rnn``)."""

from __future__ import annotations

import ftorch as torch
from ftorch import nn

from .utils import _DEFAULT, _as_buffer, _quantize_and_dequantize_weight, _quantize_weight

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase", "get_quantized_weight"]

_PARTS = ("_qscheme", "_dtype", "_scale", "_zero_point", "_axis_int")


def _quantizer_of(module, wn):
    return tuple(getattr(module, wn + part, None) for part in _PARTS)


def get_quantized_weight(module, wn):
    """The weight of a name, quantized; None if there is none."""
    return _quantize_weight(getattr(module, wn), *_quantizer_of(module, wn)) if hasattr(module, wn) else None


def _get_quantize_and_dequantized_weight(module, wn):
    if not hasattr(module, wn):
        return None
    return _quantize_and_dequantize_weight(getattr(module, wn), *_quantizer_of(module, wn))


class _RoundedWeights(nn.Module):
    """A layer with weights of several names, each with a quantizer."""

    def _init_weight_qparams_dict(self, weight_qparams_dict, device):
        if weight_qparams_dict is None:
            raise AssertionError("weight_qparams_dict must not be None")
        self.is_decomposed = weight_qparams_dict["is_decomposed"]
        for key, given in weight_qparams_dict.items():
            if key == "is_decomposed":
                continue
            qscheme = given["qscheme"]
            setattr(self, key + "_qscheme", qscheme)
            setattr(self, key + "_dtype", given["dtype"])
            if qscheme not in (None, torch.per_tensor_affine, torch.per_channel_affine):
                raise AssertionError(f"qscheme: {qscheme} is not supported in {self._get_name()}")
            if qscheme is None:
                continue
            axis = given["axis"] if qscheme is torch.per_channel_affine else 0
            self.register_buffer(key + "_scale", _as_buffer(given["scale"], torch.float, device))
            self.register_buffer(key + "_zero_point", _as_buffer(given["zero_point"], torch.int, device))
            self.register_buffer(key + "_axis", _as_buffer(axis, torch.int, device))
            setattr(self, key + "_axis_int", getattr(self, key + "_axis").item())


class RNNCellBase(_RoundedWeights, nn.RNNCellBase):
    """A cell that computes with rounded weights."""

    _FLOAT_MODULE: type

    def _make(self, weight_qparams_dict, device):
        if weight_qparams_dict is None:
            weight_qparams_dict = {"weight_ih": _DEFAULT, "weight_hh": _DEFAULT, "is_decomposed": False}
        if len(weight_qparams_dict) != 3:
            raise AssertionError(
                "Expected length for weight_qparams_dict to be 3 for QuantizedRNNCellBase(Reference), "
                f"got {len(weight_qparams_dict)}"
            )
        self._init_weight_qparams_dict(weight_qparams_dict, device)

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None, weight_qparams_dict=None) -> None:
        super().__init__(input_size, hidden_size, bias, device=device, dtype=dtype)
        self._make(weight_qparams_dict, device)

    def _get_name(self):
        return f"Quantized{type(self).__name__}(Reference)"

    def _ftorch_used_weights(self):
        return self.get_weight_ih(), self.get_weight_hh()

    def get_quantized_weight_ih(self):
        """The weight of the inputs, quantized."""
        return get_quantized_weight(self, "weight_ih")

    def get_quantized_weight_hh(self):
        """The weight of the state, quantized."""
        return get_quantized_weight(self, "weight_hh")

    def get_weight_ih(self):
        """The weight of the inputs with the numbers that its quantized form has."""
        return _get_quantize_and_dequantized_weight(self, "weight_ih")

    def get_weight_hh(self):
        """The weight of the state with the numbers that its quantized form has."""
        return _get_quantize_and_dequantized_weight(self, "weight_hh")

    @classmethod
    def from_float(cls, mod, weight_qparams_dict, use_precomputed_fake_quant=False):
        """The cell of one in floating point, and its weights' quantizers."""
        options = {"nonlinearity": mod.nonlinearity} if isinstance(mod, nn.RNNCell) else {}
        made = cls(mod.input_size, mod.hidden_size, mod.bias, device=mod.weight_ih.device, dtype=mod.weight_ih.dtype,
                   weight_qparams_dict=weight_qparams_dict, **options)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            setattr(made, name, getattr(mod, name))
        return made


class RNNCell(RNNCellBase, nn.RNNCell):
    """One time step of an RNN that computes with rounded weights."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None,
                 weight_qparams_dict=None) -> None:
        nn.RNNCell.__init__(self, input_size, hidden_size, bias, nonlinearity, device, dtype)
        self._make(weight_qparams_dict, device)


class LSTMCell(RNNCellBase, nn.LSTMCell):
    """One time step of an LSTM that computes with rounded weights."""


class GRUCell(RNNCellBase, nn.GRUCell):
    """One time step of a GRU that computes with rounded weights."""


class RNNBase(_RoundedWeights, nn.RNNBase):
    """A recurrent network that computes with rounded weights."""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None, weight_qparams_dict=None) -> None:
        options = {"proj_size": proj_size} if proj_size else {}
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device=device,
                         dtype=dtype, **options)
        if weight_qparams_dict is None:
            names = [name for name in self._flat_weights_names if name.startswith("weight")]
            weight_qparams_dict = {"is_decomposed": False, **dict.fromkeys(names, _DEFAULT)}
        self._init_weight_qparams_dict(weight_qparams_dict, device)

    def _get_name(self):
        return f"Quantized{type(self).__name__}(Reference)"

    def _ftorch_used_weights(self):
        return self.get_flat_weights()

    def get_flat_weights(self):
        """The weights with the numbers that their quantized forms have, and the biases."""
        return [
            _get_quantize_and_dequantized_weight(self, name) if name.startswith("weight") else getattr(self, name, None)
            for name in self._flat_weights_names
        ]

    def get_quantized_weight_bias_dict(self):
        """{name: quantized weight or bias}."""
        return {
            name: get_quantized_weight(self, name) if name.startswith("weight") else getattr(self, name, None)
            for name in self._flat_weights_names
        }

    @classmethod
    def from_float(cls, mod, weight_qparams_dict):
        """The network of one in floating point, and its weights' quantizers."""
        made = cls(mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout,
                   mod.bidirectional, weight_qparams_dict=weight_qparams_dict)
        for name in mod._flat_weights_names:
            setattr(made, name, getattr(mod, name))
        return made


class LSTM(RNNBase, nn.LSTM):
    """An LSTM that computes with rounded weights."""


class GRU(RNNBase, nn.GRU):
    """A GRU that computes with rounded weights."""
