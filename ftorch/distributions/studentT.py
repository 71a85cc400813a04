from __future__ import annotations

import math

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._location_scale import LocationScale
from ._parameters import expandable
from .chi2 import Chi2
from .distribution import Distribution
from .utils import _standard_normal, broadcast_all

__all__ = ["StudentT"]


@expandable(nested="_chi2")
class StudentT(LocationScale):
    """Student's t-distribution.

    Args:
        df: the degrees of freedom.
        loc: the centre.
        scale: the scale.

    >>> import ftorch as torch
    >>> torch.distributions.StudentT(torch.tensor(2.0)).log_prob(torch.tensor(0.0))
    tensor(-1.0397)
    """

    arg_constraints = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }

    # There is no formula of elementary functions.
    cdf = Distribution.cdf
    icdf = Distribution.icdf

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        Distribution.__init__(self, self.df.size(), validate_args=validate_args)

    @property
    def mean(self):
        return torch.where(self.df > 1, self.loc, math.nan)

    @property
    def variance(self):
        finite = self.scale.pow(2) * self.df / (self.df - 2)
        return torch.where(
            self.df > 2, finite, torch.where(self.df > 1, math.inf, math.nan).to(finite.dtype)
        )

    def rsample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        normal = _standard_normal(shape, dtype=self.df.dtype, device=self.df.device)
        chi2 = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (normal * torch.rsqrt(chi2 / self.df))

    def _ftorch_standard_log_prob(self, z):
        return -0.5 * (self.df + 1.0) * torch.log1p(z**2 / self.df) - self._log_normalizer()

    def _log_normalizer(self):
        return (
            0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + torch.lgamma(0.5 * self.df)
            - torch.lgamma(0.5 * (self.df + 1.0))
        )

    @property
    def _ftorch_standard_entropy(self):
        half, next_half = 0.5 * self.df, 0.5 * (self.df + 1.0)
        surprise = next_half * (torch.digamma(next_half) - torch.digamma(half))
        return self._log_normalizer() + surprise
