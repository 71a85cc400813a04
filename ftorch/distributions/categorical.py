from __future__ import annotations

import math

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import ProbsOrLogits, expandable
from .distribution import Distribution as Distribution
from .utils import lazy_property as lazy_property
from .utils import logits_to_probs as logits_to_probs
from .utils import probs_to_logits as probs_to_logits

__all__ = ["Categorical"]


@expandable(carried="_num_events")
class Categorical(ProbsOrLogits):
    """An index, with the probabilities of the last dimension.

    Args:
        probs: nonnegative weights, which are normalised.
        logits: or unnormalised log probabilities.

    Raises:
        ValueError: for both of them, or none, or a scalar.

    >>> import ftorch as torch
    >>> categorical = torch.distributions.Categorical(torch.tensor([1.0, 3.0]))
    >>> categorical.probs
    tensor([0.2500, 0.7500])
    >>> categorical.log_prob(torch.tensor(1))
    tensor(-0.2877)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _ftorch_binary = False

    def __init__(self, probs=None, logits=None, validate_args=None):
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, value = ("probs", probs) if logits is None else ("logits", logits)
        if value.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if logits is None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        shape = value.size()
        self._num_events = shape[-1]
        super().__init__(shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    def _ftorch_nan(self):
        return torch.full(
            self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device
        )

    @property
    def mean(self):
        return self._ftorch_nan()

    @property
    def mode(self):
        return self.probs.argmax(dim=-1)

    @property
    def variance(self):
        return self._ftorch_nan()

    def sample(self, sample_shape=torch.Size()):
        sample_shape = torch.Size(tuple(sample_shape))
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = torch.multinomial(rows, sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        value, logits = torch.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self):
        # A probability of 0 has a log probability of -inf, and no part in the sum.
        logits = torch.clamp(self.logits, min=torch.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        values = torch.arange(self._num_events, dtype=torch.long, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values
