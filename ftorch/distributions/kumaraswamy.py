from __future__ import annotations

import math

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import expandable
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


@expandable()
class Kumaraswamy(TransformedDistribution):
    """The Kumaraswamy distribution, much like `Beta` with an elementary cdf.

    Args:
        concentration1: the first concentration (alpha).
        concentration0: the second concentration (beta).

    >>> import ftorch as torch
    >>> torch.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base_dist = Uniform(
            torch.full_like(self.concentration0, 0),
            torch.full_like(self.concentration0, 1),
            validate_args=validate_args,
        )
        transforms = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base_dist, transforms, validate_args=validate_args)

    def _ftorch_moment(self, n):
        """The mean of the n-th power."""
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * torch.exp(a.lgamma() + b.lgamma() - (a + b).lgamma())

    @property
    def mean(self):
        return self._ftorch_moment(1)

    @property
    def mode(self):
        # As PyTorch has it: NaN nearly everywhere, for its logarithms are of negative numbers.
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return torch.where((a < 1) | (b < 1), math.nan, log_mode.exp())

    @property
    def variance(self):
        return self._ftorch_moment(2) - self.mean.pow(2)

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        harmonic = torch.digamma(b + 1) + euler_constant
        return (
            (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - torch.log(a) - torch.log(b)
        )
