"""Convolutions that quantize their inputs by the inputs' range (``torch.ao.nn.quantized.dynamic.modules.conv``)."""

from __future__ import annotations

import ftorch as torch
from ftorch.ao.nn.quantized.modules import conv as nnq

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _Dynamic:
    def forward(self, input, reduce_range=True):
        function = getattr(torch.ops.quantized, f"{self._operator}_dynamic")  # type: ignore[attr-defined]
        return function(self._input(input), self._packed_params, reduce_range)  # type: ignore[attr-defined]

    def _get_name(self):
        return f"DynamicQuantized{type(self).__name__}"


def _dynamic(base):
    return type(
        base.__name__,
        (_Dynamic, base),
        {"__module__": __name__, "__doc__": f"`{base.__name__}` of inputs in floating point."},
    )


Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d = map(_dynamic, (
    nnq.Conv1d, nnq.Conv2d, nnq.Conv3d, nnq.ConvTranspose1d, nnq.ConvTranspose2d, nnq.ConvTranspose3d))
