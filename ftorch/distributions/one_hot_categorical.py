from __future__ import annotations

import ftorch as torch
from ftorch.nn.functional import one_hot

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import delegated, expandable
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


@expandable(nested="_categorical")
class OneHotCategorical(Distribution):
    """`Categorical` with the indices as one-hot vectors.

    Args:
        probs: nonnegative weights, which are normalised.
        logits: or unnormalised log probabilities.

    >>> import ftorch as torch
    >>> torch.distributions.OneHotCategorical(torch.tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        event_shape = self._categorical.param_shape[-1:]
        super().__init__(self._categorical.batch_shape, event_shape, validate_args=validate_args)

    _param, probs, logits, mean, param_shape, _new = delegated(
        "_categorical", "_param probs logits probs param_shape _new"
    )

    def _ftorch_one_hot(self, indices):
        return one_hot(indices, self._categorical._num_events)

    @property
    def mode(self):
        return self._ftorch_one_hot(self.probs.argmax(dim=-1)).to(self.probs)

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=torch.Size()):
        return self._ftorch_one_hot(self._categorical.sample(sample_shape)).to(self.probs)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self):
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        n = self.event_shape[0]
        values = torch.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n,) + self.batch_shape + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose samples have the gradient of the probabilities.

    >>> import ftorch as torch
    >>> torch.distributions.OneHotCategoricalStraightThrough(torch.tensor([0.0, 1.0])).rsample()
    tensor([0., 1.])
    """

    has_rsample = True

    def rsample(self, sample_shape=torch.Size()):
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
