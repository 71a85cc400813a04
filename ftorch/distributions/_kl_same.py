"""Divergences between two distributions of one family."""

from __future__ import annotations

import ftorch as torch
import ftorch.nn.functional as F

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .kl import kl_divergence, register_kl
from .laplace import Laplace
from .lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    lowrank_log_det,
    lowrank_mahalanobis,
)
from .multivariate_normal import MultivariateNormal, half_log_det, mahalanobis
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant

# --- discrete --------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _(p, q):
    def term(weight, log_ratio, impossible):
        result = torch.where(impossible, torch.inf, weight * log_ratio)
        return torch.where(weight == 0, 0.0, result)

    ones = F.softplus(-q.logits) - F.softplus(-p.logits)
    zeros = F.softplus(q.logits) - F.softplus(p.logits)
    return term(p.probs, ones, q.probs == 0) + term(1 - p.probs, zeros, q.probs == 1)


@register_kl(Binomial, Binomial)
def _(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    kl = p.total_count * (
        p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    )
    return torch.where(p.total_count > q.total_count, torch.inf, kl)


@register_kl(Categorical, Categorical)
def _(p, q):
    term = p.probs * (p.logits - q.logits)
    term = torch.where(q.probs == 0, torch.inf, term)
    return torch.where(p.probs == 0, 0.0, term).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _(p, q):
    return kl_divergence(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _(p, q):
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


# --- continuous ------------------------------------------------------------------------


@register_kl(Normal, Normal)
def _(p, q):
    variance_ratio = (p.scale / q.scale).pow(2)
    shift = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (variance_ratio + shift - 1 - variance_ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _(p, q):
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _(p, q):
    ratio = p.scale / q.scale
    distance = (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * torch.exp(-distance / p.scale) - 1


@register_kl(Cauchy, Cauchy)
def _(p, q):
    sum_squares = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return sum_squares.log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _(p, q):
    ratio = p.scale / q.scale
    shift = (p.loc - q.loc) / q.scale
    return (
        -ratio.log()
        + shift
        + ratio * euler_constant
        + torch.exp((1 + ratio).lgamma() - shift)
        - (1 + euler_constant)
    )


@register_kl(Exponential, Exponential)
def _(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _(p, q):
    return (
        q.concentration * (p.rate / q.rate).log()
        + torch.lgamma(q.concentration)
        - torch.lgamma(p.concentration)
        + (p.concentration - q.concentration) * torch.digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )


@register_kl(Dirichlet, Dirichlet)
def _(p, q):
    a, b = p.concentration, q.concentration
    normalizers = (b.lgamma() - a.lgamma()).sum(-1) + a.sum(-1).lgamma() - b.sum(-1).lgamma()
    mean_logs = a.digamma() - a.sum(-1, True).digamma()
    return normalizers + ((a - b) * mean_logs).sum(-1)


@register_kl(Beta, Beta)
def _(p, q):
    return kl_divergence(p._dirichlet, q._dirichlet)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _(p, q):
    return (
        p.mean * (p.logits - q.logits)
        + p._cont_bern_log_norm()
        + torch.log1p(-p.probs)
        - q._cont_bern_log_norm()
        - torch.log1p(-q.probs)
    )


@register_kl(Pareto, Pareto)
def _(p, q):
    ratio = q.alpha / p.alpha
    kl = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return torch.where(p.scale < q.scale, torch.inf, kl)


@register_kl(Uniform, Uniform)
def _(p, q):
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return torch.where((q.low > p.low) | (q.high < p.high), torch.inf, kl)


@register_kl(ExponentialFamily, ExponentialFamily)
def _(p, q):
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot"
            "                             be computed using Bregman divergences"
        )
    natural, p_normalizer, means = p._ftorch_normalizer_and_means()
    result = q._log_normalizer(*q._natural_params) - p_normalizer
    for theirs, mine, mean in zip(q._natural_params, natural, means):
        term = (theirs - mine) * mean
        result = result - _sum_rightmost(term, len(q.event_shape))
    return result


# --- multivariate normal ---------------------------------------------------------------


def _check_events(p, q, kinds):
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two {kinds} with"
            "                          different event shapes cannot be computed"
        )


def _squared_ratio(factor, root):
    """|factor^-1 root|^2, of matrices: the trace of root's covariance in factor's metric."""
    return torch.linalg.solve_triangular(factor, root, upper=False).pow(2).sum((-2, -1))


@register_kl(MultivariateNormal, MultivariateNormal)
def _(p, q):
    _check_events(p, q, "Multivariate Normals")
    p_tril, q_tril = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    spread = _squared_ratio(q_tril, p_tril) + mahalanobis(q_tril, q.loc - p.loc)
    return half_log_det(q_tril) - half_log_det(p_tril) + 0.5 * (spread - p.event_shape[0])


def _lowrank(d):
    return d._unbroadcasted_cov_factor, d._unbroadcasted_cov_diag


def _kl_to_lowrank(p, q, p_log_det, p_diagonal, p_roots):
    """Of p with a covariance that is the sum of the squares of its roots; its diagonal is given."""
    _check_events(
        p, q,
        "Low Rank Multivariate Normals"
        if isinstance(p, LowRankMultivariateNormal)
        else "(Low Rank) Multivariate Normals",
    )
    factor, diag = _lowrank(q)
    log_dets = lowrank_log_det(diag, q._capacitance_tril) - p_log_det
    square = lowrank_mahalanobis(factor, diag, q.loc - p.loc, q._capacitance_tril)
    # tr(Sigma_q^-1 Sigma_p), by Woodbury's identity.
    projection = factor.mT / diag.unsqueeze(-2)
    trace = (p_diagonal / diag).sum(-1)
    for root in p_roots:
        trace = trace - _squared_ratio(q._capacitance_tril, projection @ root)
    return 0.5 * (log_dets + square + trace - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _(p, q):
    factor, diag = _lowrank(p)
    return _kl_to_lowrank(
        p, q, lowrank_log_det(diag, p._capacitance_tril), factor.pow(2).sum(-1) + diag,
        (factor, diag.sqrt().diag_embed()),
    )


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _(p, q):
    tril = p._unbroadcasted_scale_tril
    return _kl_to_lowrank(p, q, 2 * half_log_det(tril), tril.pow(2).sum(-1), (tril,))


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _(p, q):
    _check_events(p, q, "(Low Rank) Multivariate Normals")
    factor, diag = _lowrank(p)
    tril = q._unbroadcasted_scale_tril
    log_dets = 2 * half_log_det(tril) - lowrank_log_det(diag, p._capacitance_tril)
    spread = sum(_squared_ratio(tril, root) for root in (factor, diag.sqrt().diag_embed()))
    square = mahalanobis(tril, q.loc - p.loc)
    return 0.5 * (log_dets + square + spread - p.event_shape[0])


# --- of other distributions ------------------------------------------------------------


@register_kl(Independent, Independent)
def _(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)
