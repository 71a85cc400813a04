from __future__ import annotations

import ftorch as torch
from ftorch.nn.functional import binary_cross_entropy_with_logits

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import ProbsOrLogits, expandable
from .distribution import Distribution as Distribution
from .utils import broadcast_all
from .utils import lazy_property as lazy_property
from .utils import logits_to_probs as logits_to_probs
from .utils import probs_to_logits as probs_to_logits

__all__ = ["Geometric"]


@expandable()
class Geometric(ProbsOrLogits):
    """The number of failures before the first success.

    Args:
        probs: the probability of success, in (0, 1].
        logits: or its log-odds.

    Raises:
        ValueError: for both of them, or none, or a probability of 0.

    >>> import ftorch as torch
    >>> torch.distributions.Geometric(0.25).mean
    tensor(3.)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._ftorch_set_probs_or_logits(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and probs is not None:
            value = self.probs
            if not (value > 0).all():
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to be positive but found "
                    f"invalid values:\n{value[value <= 0]}"
                )

    @property
    def mean(self):
        return 1.0 / self.probs - 1.0

    @property
    def mode(self):
        return torch.zeros_like(self.probs)

    @property
    def variance(self):
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            u = torch.empty(shape, dtype=self.probs.dtype, device=self.probs.device)
            u.uniform_(torch.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        # At once successful: 0 * log(0) would be NaN.
        certain = (probs == 1) & (value == 0)
        return value * (-torch.where(certain, 0.0, probs)).log1p() + self.probs.log()

    def entropy(self):
        return (
            binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
            / self.probs
        )
