from __future__ import annotations

import math

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from ._half import Half
from ._parameters import expandable
from .cauchy import Cauchy

__all__ = ["HalfCauchy"]


@expandable()
class HalfCauchy(Half):
    """The distribution of |x| for a centred Cauchy x.

    Args:
        scale: half the width of x's density at half its height.

    >>> import ftorch as torch
    >>> torch.distributions.HalfCauchy(1.0).cdf(torch.tensor(1.0))
    tensor(0.5000)
    """

    _ftorch_family = Cauchy

    @property
    def mean(self):
        return torch.full(
            self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device
        )

    @property
    def variance(self):
        return self.base_dist.variance
