from __future__ import annotations

import math

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from ._location_scale import LocationScale
from ._parameters import expandable
from .distribution import Distribution as Distribution
from .utils import broadcast_all as broadcast_all

__all__ = ["Laplace"]


@expandable()
class Laplace(LocationScale):
    """The Laplace distribution: exponential to both sides.

    Args:
        loc: the mean.
        scale: the mean distance from it.

    >>> import ftorch as torch
    >>> torch.distributions.Laplace(0.0, 1.0).log_prob(torch.tensor(1.0))
    tensor(-1.6931)
    """

    _ftorch_standard_entropy = 1 + math.log(2)

    def _ftorch_standard_rsample(self, shape):
        u = self._ftorch_empty(shape).uniform_(torch.finfo(self.loc.dtype).eps - 1, 1)
        return -u.sign() * torch.log1p(-u.abs())

    def _ftorch_standard_log_prob(self, z):
        return -z.abs() - math.log(2)

    def _ftorch_standard_cdf(self, z):
        return 0.5 - 0.5 * z.sign() * torch.expm1(-z.abs())

    def _ftorch_standard_icdf(self, probability):
        centred = probability - 0.5
        return -centred.sign() * torch.log1p(-2 * centred.abs())

    @property
    def variance(self):
        return 2 * self.scale.pow(2)

    @property
    def stddev(self):
        return (2**0.5) * self.scale
