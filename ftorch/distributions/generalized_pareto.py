from __future__ import annotations

import math

import ftorch as torch

from . import constraints
from ._parameters import expandable
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["GeneralizedPareto"]


@expandable()
class GeneralizedPareto(Distribution):
    """The generalized Pareto distribution of exceedances over a threshold.

    Args:
        loc: the threshold.
        scale: the scale.
        concentration: the shape; 0 is the exponential distribution.

    >>> import ftorch as torch
    >>> torch.distributions.GeneralizedPareto(0.0, 1.0, 0.5).mean
    tensor(2.)
    """

    arg_constraints = {
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, torch.where(self.concentration < 0, end, math.inf))

    def _ftorch_shape(self):
        """Where the concentration is zero, and one to divide by."""
        zero = torch.isclose(self.concentration, torch.zeros_like(self.concentration))
        return zero, torch.where(zero, 1.0, self.concentration)

    def _ftorch_standardized(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale

    def rsample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        return self.icdf(torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value):
        z = self._ftorch_standardized(value)
        zero, xi = self._ftorch_shape()
        power = 1 / xi + torch.ones_like(z)
        tail = torch.where(power == 0, power, power * torch.log1p(xi * z))
        return -self.scale.log() - torch.where(zero, z, tail)

    def log_survival_function(self, value):
        """The logarithm of the probability of larger values."""
        z = self._ftorch_standardized(value)
        zero, xi = self._ftorch_shape()
        return torch.where(zero, -z, -torch.log1p(xi * z) / xi)

    def log_cdf(self, value):
        """The logarithm of `cdf`."""
        return torch.log1p(-torch.exp(self.log_survival_function(value)))

    def cdf(self, value):
        return torch.exp(self.log_cdf(value))

    def icdf(self, value):
        zero, xi = self._ftorch_shape()
        log_survival = torch.log1p(-value)
        tail = self.loc + self.scale / xi * torch.expm1(-xi * log_survival)
        return torch.where(zero, self.loc - self.scale * log_survival, tail)

    def _ftorch_moment(self, formula, limit):
        """A formula of the concentration, which holds for concentrations below a limit."""
        exists = self.concentration < limit
        return torch.where(
            exists, formula(torch.where(exists, self.concentration, limit / 2)), math.nan
        )

    @property
    def mean(self):
        return self._ftorch_moment(lambda xi: self.loc + self.scale / (1 - xi), 1)

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return self._ftorch_moment(lambda xi: self.scale**2 / ((1 - xi) ** 2 * (1 - 2 * xi)), 0.5)

    def entropy(self):
        return torch.broadcast_to(self.scale.log() + self.concentration + 1, self._batch_shape)
