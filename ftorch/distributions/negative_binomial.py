from __future__ import annotations

import ftorch as torch
import ftorch.nn.functional as F

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import ProbsOrLogits, expandable
from .distribution import Distribution as Distribution
from .gamma import Gamma
from .utils import broadcast_all as broadcast_all
from .utils import lazy_property
from .utils import logits_to_probs as logits_to_probs
from .utils import probs_to_logits as probs_to_logits

__all__ = ["NegativeBinomial"]


@expandable()
class NegativeBinomial(ProbsOrLogits):
    """The number of successes before ``total_count`` failures.

    Args:
        total_count: the number of failures, not necessarily an integer.
        probs: the probability of success, in [0, 1).
        logits: or its log-odds.

    Raises:
        ValueError: for both ``probs`` and ``logits``, or none.

    >>> import ftorch as torch
    >>> torch.distributions.NegativeBinomial(4.0, torch.tensor(0.5)).mean
    tensor(4.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        (count,) = self._ftorch_set_probs_or_logits(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.total_count * torch.exp(self.logits)

    @property
    def mode(self):
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self):
        return self.mean / torch.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self):
        """The rates of the Poisson variables that it is a mixture of."""
        return Gamma(
            concentration=self.total_count, rate=torch.exp(-self.logits), validate_args=False
        )

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            return torch.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        unnormalized = self.total_count * F.logsigmoid(-self.logits) + value * F.logsigmoid(
            self.logits
        )
        log_normalization = (
            -torch.lgamma(self.total_count + value)
            + torch.lgamma(1.0 + value)
            + torch.lgamma(self.total_count)
        )
        # No failures to wait for: certainly 0, where lgamma's infinities cancel.
        log_normalization = log_normalization.masked_fill(self.total_count + value == 0.0, 0.0)
        return unnormalized - log_normalization
