from __future__ import annotations

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import expandable
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


@expandable()
class LogisticNormal(TransformedDistribution):
    """Points of the simplex, one more number than the normal vectors they are made of.

    Args:
        loc: the means of the normal vectors.
        scale: their standard deviations.

    >>> import ftorch as torch
    >>> torch.distributions.LogisticNormal(torch.zeros(2), 1.0).event_shape
    torch.Size([3])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        base_dist = Normal(loc, scale, validate_args=validate_args)
        if not base_dist.batch_shape:
            base_dist = base_dist.expand([1])
        super().__init__(base_dist, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self):
        return self.base_dist.base_dist.loc

    @property
    def scale(self):
        return self.base_dist.base_dist.scale
