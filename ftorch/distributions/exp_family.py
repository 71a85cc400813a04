"""Exponential families: what follows from their log normalizers alone."""

from __future__ import annotations

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Distributions with densities exp(<t(x), theta> - F(theta) + k(x)).

    A subclass has ``_natural_params`` (theta), ``_log_normalizer`` (F) and ``_mean_carrier_measure``
    (the mean of k); the entropy, and the divergence between members of one family, follow by
    differentiating F.
    """

    @property
    def _natural_params(self) -> tuple:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError

    def _ftorch_normalizer_and_means(self):
        """The natural parameters, F of them, and F's gradients: the means of t(x)."""
        with torch.enable_grad():
            natural = [p.detach().requires_grad_() for p in self._natural_params]
            normalizer = self._log_normalizer(*natural)
            means = torch.autograd.grad(normalizer.sum(), natural, create_graph=True)
        return natural, normalizer, means

    def entropy(self):
        carrier = -self._mean_carrier_measure
        natural, normalizer, means = self._ftorch_normalizer_and_means()
        result = carrier + normalizer
        for parameter, mean in zip(natural, means):
            result = result - (parameter * mean).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
