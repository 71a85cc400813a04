"""Divergences between distributions of different families.

KL(p || q) is p's cross entropy with q less p's own entropy. For most q the cross entropy depends
on a few expectations under p (the mean, the variance, the mean of log x, ...), so that there is one
formula for each q and one for each expectation, and not one for each pair.
"""

from __future__ import annotations

import math

import ftorch as torch

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .continuous_bernoulli import ContinuousBernoulli
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .kl import infinite, register_kl
from .laplace import Laplace
from .normal import Normal
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import euler_constant


def _x_log_x(x):
    return torch.special.xlogy(x, x)


def _mean_log(p):
    """The mean of log x."""
    if isinstance(p, Beta):
        total = p.concentration1 + p.concentration0
        return p.concentration1.digamma() - total.digamma()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return _uniform_mean_log(p.low, p.high)


def _uniform_mean_log(low, high):
    return (_x_log_x(high) - _x_log_x(low)) / (high - low) - 1


def _mean_exp(p, beta):
    """The mean of exp(-x / beta)."""
    if isinstance(p, Exponential):
        return p.rate * beta / (1 + p.rate * beta)
    if isinstance(p, Gamma):
        return (1 + (beta * p.rate).reciprocal()).pow(-p.concentration)
    if isinstance(p, Normal):
        return torch.exp(-p.loc / beta + (p.scale / beta).pow(2) / 2)
    width = (p.high - p.low) / beta
    return (torch.exp(-p.low / beta) - torch.exp(-p.high / beta)) / width


# --- cross entropies -------------------------------------------------------------------


def _with_normal(p, q):
    variance = q.scale.pow(2)
    spread = p.variance + (p.mean - q.loc).pow(2)
    return 0.5 * (2 * math.pi * variance).log() + spread / (2 * variance)


def _with_exponential(p, q):
    return q.rate * p.mean - q.rate.log()


def _with_gamma(p, q):
    return (
        q.concentration.lgamma()
        - q.concentration * q.rate.log()
        - (q.concentration - 1) * _mean_log(p)
        + q.rate * p.mean
    )


def _with_gumbel(p, q):
    decay = torch.exp(q.loc / q.scale) * _mean_exp(p, q.scale)
    return q.scale.log() + (p.mean - q.loc) / q.scale + decay


def _with_pareto(p, q):
    return (q.alpha + 1) * _mean_log(p) - q.alpha.log() - q.alpha * q.scale.log()


def _with_beta(p, q):
    a, b = q.concentration1, q.concentration0
    mean_log_rest = _uniform_mean_log(1 - p.high, 1 - p.low)  # of log(1 - x), for a uniform p
    normalizer = a.lgamma() + b.lgamma() - (a + b).lgamma()
    return normalizer - (a - 1) * _mean_log(p) - (b - 1) * mean_log_rest


def _with_continuous_bernoulli(p, q):
    value = -p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()
    if isinstance(p, Uniform):  # as in PyTorch, also where it reaches no further than the bounds
        value = torch.where((p.high >= 1) | (p.low <= 0), math.inf, value)
    return value


def _with_laplace(p, q):
    """For a normal p."""
    shift = p.loc - q.loc
    near = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * (shift / p.scale).pow(2))
    distance = near + shift * torch.erf(math.sqrt(0.5) * shift / p.scale)
    return (2 * q.scale).log() + distance / q.scale


def _with_uniform(p, q):
    return (q.high - q.low).log()


def _with_poisson(p, q):
    """For a Bernoulli p, whose events have the factorial 1."""
    return q.rate - p.probs * q.rate.log()


_CROSS_ENTROPIES = {
    Normal: (
        _with_normal, (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto,
                       Uniform),
    ),
    Exponential: (_with_exponential, (Beta, ContinuousBernoulli, Gamma, Pareto, Uniform)),
    Gamma: (_with_gamma, (Beta, Exponential, Pareto, Uniform)),
    Gumbel: (_with_gumbel, (Exponential, Gamma, Normal, Uniform)),
    Pareto: (_with_pareto, (Uniform,)),
    Beta: (_with_beta, (Uniform,)),
    ContinuousBernoulli: (_with_continuous_bernoulli, (Beta, Uniform)),
    Laplace: (_with_laplace, (Normal,)),
    Uniform: (_with_uniform, (Beta,)),
    Poisson: (_with_poisson, (Bernoulli,)),
}

# p has always events that q has not.
_INFINITE = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _ends(d):
    """The smallest and the largest event of a distribution whose support may be checked."""
    support = d.support
    return getattr(support, "lower_bound", -torch.inf), getattr(support, "upper_bound", torch.inf)


def _divergence(cross_entropy, bounded):
    def kl(p, q):
        result = cross_entropy(p, q) - p.entropy()
        if not bounded:
            return result
        (p_low, p_high), (q_low, q_high) = _ends(p), _ends(q)
        outside = torch.as_tensor((p_low < q_low) | (p_high > q_high), device=result.device)
        return torch.where(outside, torch.inf, result)

    return kl


for _q, (_cross_entropy, _families) in _CROSS_ENTROPIES.items():
    for _p in _families:
        # Only a uniform variable, and what is compared with one, may lie inside or outside.
        register_kl(_p, _q)(_divergence(_cross_entropy, Uniform in (_p, _q)))

for _p, _families in _INFINITE.items():
    for _q in _families:
        register_kl(_p, _q)(lambda p, q: infinite(p))


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p, q):
    # PyTorch wants the uniform's support to reach beyond the unit interval on both sides.
    outside = (q.low >= p.support.lower_bound) | (q.high <= p.support.upper_bound)
    return torch.where(outside, torch.inf, _with_uniform(p, q) - p.entropy())
