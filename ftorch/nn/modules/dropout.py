"""Dropout."""

from __future__ import annotations

from ...eager.tensor import Tensor as Tensor
from .. import functional as F
from .module import Module

__all__ = [
    "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout",
]


class _DropoutNd(Module):
    """
    Args:
        p: the probability of being dropped.
        inplace: write over the input.

    Raises:
        ValueError: ``p`` is not in [0, 1].
    """

    _ftorch_function = "dropout"

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input):
        return getattr(F, self._ftorch_function)(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zeroes elements with probability ``p`` in training and scales the others by 1 / (1 - p).

    >>> import ftorch as torch
    >>> torch.nn.Dropout(0.5).eval()(torch.ones(2)).tolist()
    [1.0, 1.0]
    """


class Dropout1d(_DropoutNd):
    """Zeroes whole channels of (N, C, L) or (C, L)."""

    _ftorch_function = "dropout1d"


class Dropout2d(_DropoutNd):
    """Zeroes whole channels of (N, C, H, W) or (N, C, L)."""

    _ftorch_function = "dropout2d"


class Dropout3d(_DropoutNd):
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W)."""

    _ftorch_function = "dropout3d"


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance, for `SELU`."""

    _ftorch_function = "alpha_dropout"

    def forward(self, input):
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels."""

    _ftorch_function = "feature_alpha_dropout"

    def forward(self, input):
        return F.feature_alpha_dropout(input, self.p, self.training)
