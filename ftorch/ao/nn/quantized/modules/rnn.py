"""The quantized LSTM (``torch.ao.nn.quantized.modules.rnn``)."""

from __future__ import annotations

import ftorch as torch
from ftorch.ao.nn.quantizable.modules.rnn import LSTM as _LSTM

__all__ = ["LSTM"]


class LSTM(_LSTM):
    """An LSTM whose parts are quantized: what `convert` makes of `torch.ao.nn.quantizable.LSTM`."""

    def _get_name(self):
        return "QuantizedLSTM"

    @classmethod
    def from_float(cls, *args, **kwargs):
        """Raises NotImplementedError: it comes from the observed layer."""
        raise NotImplementedError(
            "It looks like you are trying to convert a non-observed LSTM module. Please, see the examples on "
            "quantizable LSTMs."
        )

    @classmethod
    def from_observed(cls, other):
        """The layer of an observed one."""
        converted = torch.ao.quantization.convert(other, inplace=False, remove_qconfig=True)
        converted.__class__ = cls
        return converted
