from __future__ import annotations

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import expandable
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


@expandable()
class Weibull(TransformedDistribution):
    """The two-parameter Weibull distribution.

    Args:
        scale: the scale (lambda).
        concentration: the shape (k).

    >>> import ftorch as torch
    >>> torch.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base_dist = Exponential(torch.ones_like(self.scale), validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base_dist, transforms, validate_args=validate_args)

    @property
    def concentration_reciprocal(self):
        """1 / concentration."""
        return self.concentration.reciprocal()

    @property
    def mean(self):
        return self.scale * torch.exp(torch.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self):
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self):
        reciprocal = self.concentration_reciprocal
        return self.scale.pow(2) * (
            torch.exp(torch.lgamma(1 + 2 * reciprocal))
            - torch.exp(2 * torch.lgamma(1 + reciprocal))
        )

    def entropy(self):
        reciprocal = self.concentration_reciprocal
        return euler_constant * (1 - reciprocal) + torch.log(self.scale * reciprocal) + 1
