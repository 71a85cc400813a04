from __future__ import annotations

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import expandable
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Poisson"]


@expandable()
class Poisson(ExponentialFamily):
    """The Poisson distribution.

    Args:
        rate: the mean.

    >>> import ftorch as torch
    >>> torch.distributions.Poisson(4.0).log_prob(torch.tensor(4.0))
    tensor(-1.6329)
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.rate

    @property
    def mode(self):
        return self.rate.floor()

    @property
    def variance(self):
        return self.rate

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            return torch.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return torch.xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (torch.log(self.rate),)

    def _log_normalizer(self, x):
        return torch.exp(x)
