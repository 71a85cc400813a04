from __future__ import annotations

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import expandable
from .exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


class _Dirichlet(torch.autograd.Function):
    """A Dirichlet vector as a function of its concentration."""

    @staticmethod
    def forward(ctx, concentration):
        sample = torch._sample_dirichlet(concentration)
        ctx.save_for_backward(sample, concentration)
        return sample

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        sample, concentration = ctx.saved_tensors
        total = concentration.sum(-1, True).expand_as(concentration)
        return torch._dirichlet_grad(sample, concentration, total) * (
            grad - (sample * grad).sum(-1, True)
        )


@expandable()
class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution over the simplex.

    Args:
        concentration: vectors of concentrations (alpha).

    Raises:
        ValueError: for a scalar.

    >>> import ftorch as torch
    >>> torch.distributions.Dirichlet(torch.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape=()):
        return _Dirichlet.apply(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        powers = torch.xlogy(self.concentration - 1.0, value).sum(-1)
        return powers - self._log_normalizer(self.concentration)

    @property
    def mean(self):
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self):
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        # With every concentration below 1 the density has no peak (0 / 0 above): PyTorch names the first corner.
        no_peak = (self.concentration < 1).all(dim=-1, keepdim=True)
        corner = torch.nn.functional.one_hot(mode.argmax(-1), mode.shape[-1])
        return torch.where(no_peak, corner.to(mode), mode)

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self):
        total = self.concentration.sum(-1)
        return (
            self._log_normalizer(self.concentration)
            - (self.concentration.size(-1) - total) * torch.digamma(total)
            - ((self.concentration - 1.0) * torch.digamma(self.concentration)).sum(-1)
        )

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - torch.lgamma(x.sum(-1))
