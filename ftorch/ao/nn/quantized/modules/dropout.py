"""Dropout of quantized models (``torch.ao.nn.quantized.modules.dropout``)."""

from __future__ import annotations

import ftorch as torch

__all__ = ["Dropout"]


class Dropout(torch.nn.Dropout):
    """Nothing: quantized models do not train."""

    def forward(self, input):
        return input

    def _get_name(self):
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer of `torch.nn.Dropout`."""
        return cls(mod.p, mod.inplace)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The layer of `torch.nn.Dropout`."""
        return cls(mod.p, mod.inplace)
