from __future__ import annotations

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import delegated, expandable
from .categorical import Categorical
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import broadcast_all, clamp_probs

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


@expandable(carried="temperature", nested="_categorical")
class ExpRelaxedCategorical(Distribution):
    """The logarithms of `RelaxedOneHotCategorical`.

    Args:
        temperature: how relaxed it is.
        probs: nonnegative weights, which are normalised.
        logits: or unnormalised log probabilities.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        event_shape = self._categorical.param_shape[-1:]
        super().__init__(self._categorical.batch_shape, event_shape, validate_args=validate_args)

    param_shape, logits, probs, _new = delegated("_categorical", "param_shape logits probs _new")

    def rsample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        u = torch.rand(shape, dtype=self.logits.dtype, device=self.logits.device)
        gumbels = -((-(clamp_probs(u).log())).log())
        scores = (self.logits + gumbels) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value):
        n = self._categorical._num_events
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        log_scale = torch.full_like(
            self.temperature, float(n)
        ).lgamma() - self.temperature.log().mul(-(n - 1))
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + log_scale


@expandable()
class RelaxedOneHotCategorical(TransformedDistribution):
    """Points of the simplex, near its corners for low temperatures, with gradients.

    Args:
        temperature: how relaxed it is.
        probs: nonnegative weights, which are normalised.
        logits: or unnormalised log probabilities.

    >>> import ftorch as torch
    >>> D = torch.distributions
    >>> D.RelaxedOneHotCategorical(torch.tensor(2.0), torch.ones(3)).rsample().shape
    torch.Size([3])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base_dist = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base_dist, ExpTransform(), validate_args=validate_args)

    temperature, logits, probs = delegated("base_dist", "temperature logits probs")
