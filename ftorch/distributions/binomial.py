from __future__ import annotations

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import ProbsOrLogits, expandable
from .distribution import Distribution as Distribution
from .utils import broadcast_all as broadcast_all
from .utils import lazy_property as lazy_property
from .utils import logits_to_probs as logits_to_probs
from .utils import probs_to_logits as probs_to_logits

__all__ = ["Binomial"]


def _softplus(x):
    """log(1 + exp(x)), with the gradient 1/2 at 0 and no overflow."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2 + torch.log1p(torch.exp(-torch.abs(x)))


@expandable()
class Binomial(ProbsOrLogits):
    """The number of successes in independent trials.

    Args:
        total_count: the number of trials.
        probs: the probability of success.
        logits: or its log-odds.

    Raises:
        ValueError: for both ``probs`` and ``logits``, or none.

    >>> import ftorch as torch
    >>> torch.distributions.Binomial(10, torch.tensor(0.5)).variance
    tensor(2.5000)
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        (count,) = self._ftorch_set_probs_or_logits(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self):
        return self.total_count * self.probs

    @property
    def mode(self):
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        failures = self.total_count - value
        log_ways = (
            torch.lgamma(self.total_count + 1)
            - torch.lgamma(value + 1)
            - torch.lgamma(failures + 1)
        )
        return log_ways + value * self.logits - self.total_count * _softplus(self.logits)

    def _ftorch_common_count(self, what):
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(
                f"Inhomogeneous total count not supported by `{what}`."
            )
        return count

    def entropy(self):
        self._ftorch_common_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(torch.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        count = self._ftorch_common_count("enumerate_support")
        values = torch.arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values
