from __future__ import annotations

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from . import constraints
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture of distributions of one family, along the last batch dimension.

    Args:
        mixture_distribution: a Categorical over the components.
        component_distribution: the components.

    Raises:
        ValueError: if they do not fit together.

    >>> import ftorch as torch
    >>> D = torch.distributions
    >>> components = D.Normal(torch.tensor([-1.0, 1.0]), 1.0)
    >>> D.MixtureSameFamily(D.Categorical(torch.ones(2)), components).variance
    tensor(2.)
    """

    arg_constraints: dict = {}
    has_rsample = False

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                "torch.distributions.Distribution"
            )
        batch_shape = component_distribution.batch_shape[:-1]
        for mine, theirs in zip(
            reversed(mixture_distribution.batch_shape), reversed(batch_shape)
        ):
            if mine != 1 and theirs != 1 and mine != theirs:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_distribution.batch_shape}) is "
                    f"not compatible with `component_distribution.batch_shape`({batch_shape})"
                )
        weights = mixture_distribution.logits.shape[-1]
        components = component_distribution.batch_shape[-1]
        if weights != components:
            raise ValueError(
                f"`mixture_distribution component` ({weights}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._num_component = weights
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = torch.Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(
            batch_shape + (self._num_component,)
        )
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component = self._num_component
        new._event_ndims = self._event_ndims
        Distribution.__init__(
            new, batch_shape, new._component_distribution.event_shape, validate_args=False
        )
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self):
        """The Categorical over the components."""
        return self._mixture_distribution

    @property
    def component_distribution(self):
        """The components."""
        return self._component_distribution

    def _ftorch_mixed(self, values):
        """The components' values, averaged with their probabilities."""
        probs = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        return torch.sum(probs * values, dim=-1 - self._event_ndims)

    @property
    def mean(self):
        return self._ftorch_mixed(self.component_distribution.mean)

    @property
    def variance(self):
        within = self._ftorch_mixed(self.component_distribution.variance)
        off = self.component_distribution.mean - self._pad(self.mean)
        return within + self._ftorch_mixed(off.pow(2.0))

    def cdf(self, x):
        x = self._pad(x)
        cdf = self.component_distribution.cdf(x)
        return torch.sum(cdf * self.mixture_distribution.probs, dim=-1)

    def log_prob(self, x):
        if self._validate_args:
            self._validate_sample(x)
        log_prob = self.component_distribution.log_prob(self._pad(x))
        weights = torch.log_softmax(self.mixture_distribution.logits, dim=-1)
        return torch.logsumexp(log_prob + weights, dim=-1)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            sample_shape = torch.Size(tuple(sample_shape))
            gather_dim = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            ones = (1,) * (1 + self._event_ndims)
            index = chosen.reshape(chosen.shape + ones)
            index = index.expand(chosen.shape + (1,) + self._event_shape)
            return torch.gather(drawn, gather_dim, index).squeeze(gather_dim)

    def _pad(self, x):
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x):
        batch_ndims = len(self.batch_shape)
        missing = 0
        if len(self.mixture_distribution.batch_shape) > 0:
            missing = batch_ndims - len(self.mixture_distribution.batch_shape)
        shape = x.shape
        return x.reshape(
            shape[:-1] + (1,) * missing + shape[-1:] + (1,) * self._event_ndims
        )

    def __repr__(self):
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
