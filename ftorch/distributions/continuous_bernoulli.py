from __future__ import annotations

import math

import ftorch as torch
from ftorch.nn.functional import binary_cross_entropy_with_logits

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import ProbsOrLogits, expandable
from .exp_family import ExponentialFamily
from .utils import broadcast_all, clamp_probs, lazy_property, probs_to_logits
from .utils import logits_to_probs as logits_to_probs

__all__ = ["ContinuousBernoulli"]


@expandable(carried="_lims")
class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """A continuous variable of [0, 1] with density proportional to p^x (1 - p)^(1 - x).

    Args:
        probs: the parameter p, in (0, 1); not the mean.
        logits: or its log-odds.
        lims: where formulas that cancel at p = 0.5 are replaced by Taylor's.

    Raises:
        ValueError: for both ``probs`` and ``logits``, or none, or a p of 0 or 1.

    >>> import ftorch as torch
    >>> torch.distributions.ContinuousBernoulli(0.5).mean
    tensor(0.5000)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        self._ftorch_set_probs_or_logits(probs, logits)
        if probs is not None:
            # An interval check of its own: 0 and 1 are clamped below.
            if validate_args is not None and not self.arg_constraints["probs"].check(
                self.probs
            ).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    @lazy_property
    def probs(self):
        return clamp_probs(torch.sigmoid(self.logits))

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    def _ftorch_stable(self):
        """Where p is away from 0.5."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self):
        """p away from 0.5, for formulas whose result is not used near it."""
        return torch.where(self._ftorch_stable(), self.probs, self._lims[0])

    def _ftorch_piecewise(self, formula, taylor):
        """A formula of the parameter away from 0.5, and a polynomial of p - 0.5 near it."""
        near = taylor(self.probs - 0.5)
        return torch.where(self._ftorch_stable(), formula(self._cut_probs()), near)

    def _cont_bern_log_norm(self):
        """The logarithm of the normalizing constant."""

        def formula(p):
            below = torch.where(p <= 0.5, p, 0.0)
            above = torch.where(p >= 0.5, p, 1.0)
            return torch.log(torch.abs(torch.log1p(-p) - torch.log(p))) - torch.where(
                p <= 0.5, torch.log1p(-2.0 * below), torch.log(2.0 * above - 1.0)
            )

        return self._ftorch_piecewise(
            formula, lambda x: math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x**2) * x**2
        )

    @property
    def mean(self):
        return self._ftorch_piecewise(
            lambda p: p / (2.0 * p - 1.0) + 1.0 / (torch.log1p(-p) - torch.log(p)),
            lambda x: 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x**2) * x,
        )

    @property
    def stddev(self):
        return torch.sqrt(self.variance)

    @property
    def variance(self):
        def formula(p):
            log_odds = torch.log1p(-p) - torch.log(p)
            return p * (p - 1.0) / (1.0 - 2.0 * p) ** 2 + 1.0 / log_odds**2

        def taylor(x):
            return 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x**2) * x**2

        return self._ftorch_piecewise(formula, taylor)

    def rsample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        u = torch.rand(shape, dtype=self.probs.dtype, device=self.probs.device)
        return self.icdf(u)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return (
            -binary_cross_entropy_with_logits(logits, value, reduction="none")
            + self._cont_bern_log_norm()
        )

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        p = self._cut_probs()
        powers = torch.pow(p, value) * torch.pow(1.0 - p, 1.0 - value)
        cdf = (powers + p - 1.0) / (2.0 * p - 1.0)
        result = torch.where(self._ftorch_stable(), cdf, value)
        return torch.where(value <= 0.0, 0.0, torch.where(value >= 1.0, 1.0, result))

    def icdf(self, value):
        p = self._cut_probs()
        quantile = (
            torch.log1p(-p + value * (2.0 * p - 1.0)) - torch.log1p(-p)
        ) / (torch.log(p) - torch.log1p(-p))
        return torch.where(self._ftorch_stable(), quantile, value)

    def entropy(self):
        # log(1 - p) and the log-odds, of what the density is made.
        log_failure, log_odds = torch.log1p(-self.probs), self.logits
        return -self.mean * log_odds - log_failure - self._cont_bern_log_norm()

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        """log((exp(x) - 1) / x), by Taylor's formula near 0."""
        low, high = (math.log(p / (1 - p)) for p in self._lims)
        far = (x <= low) | (x > high)
        cut = torch.where(far, x, low)
        log_norm = torch.log(torch.abs(torch.special.expm1(cut))) - torch.log(torch.abs(cut))
        return torch.where(far, log_norm, 0.5 * x + x**2 / 24.0 - x**4 / 2880.0)
