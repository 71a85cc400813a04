from __future__ import annotations

import math

from ..eager.tensor import Tensor as Tensor
from ._half import Half
from ._parameters import expandable
from .normal import Normal

__all__ = ["HalfNormal"]


@expandable()
class HalfNormal(Half):
    """The distribution of |x| for a centred normal x.

    Args:
        scale: the standard deviation of x.

    >>> import ftorch as torch
    >>> torch.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    _ftorch_family = Normal

    @property
    def mean(self):
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self):
        return self.scale.pow(2) * (1 - 2 / math.pi)
