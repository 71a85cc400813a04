from __future__ import annotations

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import ProbsOrLogits, delegated, expandable
from .distribution import Distribution as Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import broadcast_all, clamp_probs
from .utils import lazy_property as lazy_property
from .utils import logits_to_probs as logits_to_probs
from .utils import probs_to_logits as probs_to_logits

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


@expandable(carried="temperature")
class LogitRelaxedBernoulli(ProbsOrLogits):
    """The log-odds of `RelaxedBernoulli`.

    Args:
        temperature: how relaxed it is.
        probs: the probability of one.
        logits: or its log-odds.

    Raises:
        ValueError: for both ``probs`` and ``logits``, or none.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        self._ftorch_set_probs_or_logits(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def rsample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(torch.rand(shape, dtype=probs.dtype, device=probs.device))
        return (
            u.log() - (-u).log1p() + probs.log() - (-probs).log1p()
        ) / self.temperature

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        diff = logits - value.mul(self.temperature)
        return self.temperature.log() + diff - 2 * diff.exp().log1p()


@expandable()
class RelaxedBernoulli(TransformedDistribution):
    """Numbers of (0, 1), near 0 and 1 for low temperatures, with gradients.

    Args:
        temperature: how relaxed it is.
        probs: the probability of one.
        logits: or its log-odds.

    >>> import ftorch as torch
    >>> D = torch.distributions
    >>> D.RelaxedBernoulli(torch.tensor(2.0), 0.5).log_prob(torch.tensor(0.5))
    tensor(0.6931)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base_dist = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base_dist, SigmoidTransform(), validate_args=validate_args)

    temperature, logits, probs = delegated("base_dist", "temperature logits probs")
