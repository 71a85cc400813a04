"""Linear layers that compute with rounded weights (``torch.ao.nn.quantized.reference.modules.linear``)."""

from __future__ import annotations

import ftorch.nn.functional as F
from ftorch import nn

from .utils import ReferenceQuantizedModule

__all__ = ["Linear"]


class Linear(nn.Linear, ReferenceQuantizedModule):
    """A linear layer that computes with a rounded weight: (*, in_features) to (*, out_features).

    >>> import ftorch as torch
    >>> torch.ao.nn.quantized.reference.Linear(3, 2)(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """

    _IS_REFERENCE = True

    def __init__(self, in_features, out_features, bias_=True, device=None, dtype=None, weight_qparams=None) -> None:
        super().__init__(in_features, out_features, bias_, device, dtype)
        self._init_weight_qparams(weight_qparams, device)

    def _get_name(self) -> str:
        return "QuantizedLinear(Reference)"

    def forward(self, x):
        return F.linear(x, self.get_weight(), self.bias)

    @classmethod
    def from_float(cls, float_linear, weight_qparams) -> Linear:
        """The layer of one in floating point, and its weight's quantizer."""
        made = Linear(
            float_linear.in_features, float_linear.out_features, float_linear.bias is not None,
            float_linear.weight.device, float_linear.weight.dtype, weight_qparams,
        )
        made.weight = nn.Parameter(float_linear.weight.detach())
        if float_linear.bias is not None:
            made.bias = nn.Parameter(float_linear.bias.detach())
        return made
