"""Families of one standard distribution, shifted by ``loc`` and stretched by ``scale``."""

from __future__ import annotations

import ftorch as torch

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all


class LocationScale(Distribution):
    """Distributions of loc + scale * z.

    A subclass has the functions of z: ``_standard_rsample``, ``_standard_log_prob``,
    ``_standard_cdf``, ``_standard_icdf`` and the number ``_standard_entropy``.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _ftorch_standard_entropy: float

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def _ftorch_standardized(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale

    def _ftorch_standard_rsample(self, shape):
        raise NotImplementedError

    def _ftorch_standard_log_prob(self, z):
        raise NotImplementedError

    def _ftorch_standard_cdf(self, z):
        raise NotImplementedError

    def _ftorch_standard_icdf(self, probability):
        raise NotImplementedError

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    def rsample(self, sample_shape=torch.Size()):
        return self.loc + self._ftorch_standard_rsample(self._extended_shape(sample_shape)) * self.scale

    def log_prob(self, value):
        return self._ftorch_standard_log_prob(self._ftorch_standardized(value)) - self.scale.log()

    def cdf(self, value):
        return self._ftorch_standard_cdf(self._ftorch_standardized(value))

    def icdf(self, value):
        return self.loc + self.scale * self._ftorch_standard_icdf(value)

    def entropy(self):
        return self._ftorch_standard_entropy + self.scale.log()

    def _ftorch_empty(self, shape):
        return torch.empty(shape, dtype=self.loc.dtype, device=self.loc.device)
