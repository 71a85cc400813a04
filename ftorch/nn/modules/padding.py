"""Padding: one base class per mode, one subclass per number of dimensions."""

from __future__ import annotations

from ...eager.tensor import Tensor as Tensor
from .. import functional as F
from .batchnorm import check_dims
from .module import Module
from .utils import ntuple

__all__ = [
    f"{kind}Pad{n}d"
    for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero")
    for n in (1, 2, 3)
]


class _PadNd(Module):
    """Pads the last ``dimensions`` dimensions.

    ``padding`` is one number, or two per dimension (before, after), the last dimension first.
    """

    _ftorch_dimensions: int
    _ftorch_mode: str

    def __init__(self, padding):
        super().__init__()
        self.padding = ntuple(2 * self._ftorch_dimensions)(padding)

    def forward(self, input):
        return F.pad(input, self.padding, self._ftorch_mode)

    def extra_repr(self):
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    _ftorch_mode = "circular"

    def _check_input_dim(self, input):
        check_dims(input, (self._ftorch_dimensions + 1, self._ftorch_dimensions + 2))

    def forward(self, input):
        self._check_input_dim(input)
        return super().forward(input)


class _ConstantPadNd(_PadNd):

    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class _ReflectionPadNd(_PadNd):
    _ftorch_mode = "reflect"


class _ReplicationPadNd(_PadNd):
    _ftorch_mode = "replicate"


class CircularPad1d(_CircularPadNd):
    """Continues (N, C, L) or (C, L) periodically."""

    _ftorch_dimensions = 1


class CircularPad2d(_CircularPadNd):
    """Continues (N, C, H, W) or (C, H, W) periodically."""

    _ftorch_dimensions = 2


class CircularPad3d(_CircularPadNd):
    """Continues (N, C, D, H, W) or (C, D, H, W) periodically."""

    _ftorch_dimensions = 3


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with ``value``.

    >>> import ftorch as torch
    >>> torch.nn.ConstantPad1d((1, 2), 7)(torch.zeros(1, 1)).tolist()
    [[7.0, 0.0, 7.0, 7.0]]
    """

    _ftorch_dimensions = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dimensions with ``value``."""

    _ftorch_dimensions = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dimensions with ``value``."""

    _ftorch_dimensions = 3


class ReflectionPad1d(_ReflectionPadNd):
    """Reflects (N, C, L) or (C, L) at its ends."""

    _ftorch_dimensions = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Reflects (N, C, H, W) or (C, H, W) at its edges."""

    _ftorch_dimensions = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Reflects (N, C, D, H, W) or (C, D, H, W) at its faces."""

    _ftorch_dimensions = 3


class ReplicationPad1d(_ReplicationPadNd):
    """Repeats the first and last values of (N, C, L) or (C, L)."""

    _ftorch_dimensions = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Repeats the values at the edges of (N, C, H, W) or (C, H, W)."""

    _ftorch_dimensions = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Repeats the values at the faces of (N, C, D, H, W) or (C, D, H, W)."""

    _ftorch_dimensions = 3


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """Pads the last dimension with zeros."""


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """Pads the last two dimensions with zeros."""


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """Pads the last three dimensions with zeros."""
