from __future__ import annotations

import math

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from ._location_scale import LocationScale
from ._parameters import expandable
from .distribution import Distribution as Distribution
from .utils import broadcast_all as broadcast_all

__all__ = ["Cauchy"]


@expandable()
class Cauchy(LocationScale):
    """The Cauchy (Lorentz) distribution, which has no mean: ratios of centred normal variables.

    Args:
        loc: the median.
        scale: half the width at half the height.

    >>> import ftorch as torch
    >>> torch.distributions.Cauchy(0.0, 1.0).log_prob(torch.tensor(1.0))
    tensor(-1.8379)
    """

    _ftorch_standard_entropy = math.log(4 * math.pi)

    def _ftorch_standard_rsample(self, shape):
        return self._ftorch_empty(shape).cauchy_()

    def _ftorch_standard_log_prob(self, z):
        return -math.log(math.pi) - (z**2).log1p()

    def _ftorch_standard_cdf(self, z):
        return torch.atan(z) / math.pi + 0.5

    def _ftorch_standard_icdf(self, probability):
        return torch.tan(math.pi * (probability - 0.5))

    @property
    def mean(self):
        return torch.full(
            self._extended_shape(), math.nan, dtype=self.loc.dtype, device=self.loc.device
        )

    @property
    def variance(self):
        return torch.full(
            self._extended_shape(), math.inf, dtype=self.loc.dtype, device=self.loc.device
        )
