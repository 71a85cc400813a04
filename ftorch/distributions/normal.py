from __future__ import annotations

import math

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from ._location_scale import LocationScale
from ._parameters import expandable
from .exp_family import ExponentialFamily
from .utils import _standard_normal
from .utils import broadcast_all as broadcast_all

__all__ = ["Normal"]


@expandable()
class Normal(LocationScale, ExponentialFamily):
    """The normal distribution.

    Args:
        loc: the mean.
        scale: the standard deviation.

    >>> import ftorch as torch
    >>> _ = torch.manual_seed(0)
    >>> normal = torch.distributions.Normal(torch.tensor([0.0, 10.0]), 1.0)
    >>> normal.sample()
    tensor([1.5410, 9.7066])
    >>> normal.log_prob(torch.tensor(0.0))
    tensor([ -0.9189, -50.9189])
    """

    _ftorch_standard_entropy = 0.5 + 0.5 * math.log(2 * math.pi)
    _mean_carrier_measure = 0

    def _ftorch_standard_rsample(self, shape):
        return _standard_normal(shape, self.loc.dtype, self.loc.device)

    def _ftorch_standard_log_prob(self, z):
        return -(z**2) / 2 - math.log(math.sqrt(2 * math.pi))

    def _ftorch_standard_cdf(self, z):
        return 0.5 * (1 + torch.erf(z / math.sqrt(2)))

    def _ftorch_standard_icdf(self, probability):
        return torch.erfinv(2 * probability - 1) * math.sqrt(2)

    @property
    def stddev(self):
        return self.scale

    @property
    def variance(self):
        return self.stddev.pow(2)

    @property
    def _natural_params(self):
        return (self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal())

    def _log_normalizer(self, x, y):
        return -0.25 * x.pow(2) / y + 0.5 * torch.log(-math.pi / y)

    # Not by differentiating the normalizer.
    entropy = LocationScale.entropy
