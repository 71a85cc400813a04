from __future__ import annotations

import math

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import expandable
from .distribution import Distribution
from .multivariate_normal import half_log_det, mahalanobis
from .utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def _plus_identity(matrix):
    return matrix + torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def capacitance_tril(factor, diag):
    """The Cholesky factor of I + W^T D^-1 W, which Woodbury's and the determinant lemma need."""
    return torch.linalg.cholesky(_plus_identity(factor.mT / diag.unsqueeze(-2) @ factor))


def lowrank_log_det(diag, capacitance):
    """log |W W^T + D|."""
    return 2 * half_log_det(capacitance) + diag.log().sum(-1)


def lowrank_mahalanobis(factor, diag, x, capacitance):
    """x^T (W W^T + D)^-1 x."""
    projected = (factor.mT / diag.unsqueeze(-2) @ x.unsqueeze(-1)).squeeze(-1)
    return (x.pow(2) / diag).sum(-1) - mahalanobis(capacitance, projected)


@expandable(carried="_unbroadcasted_cov_factor _unbroadcasted_cov_diag _capacitance_tril")
class LowRankMultivariateNormal(Distribution):
    """Normal vectors with the covariance W W^T + D, in time linear in their length.

    Args:
        loc: the mean vector.
        cov_factor: W, a matrix of few columns.
        cov_diag: the diagonal D.

    Raises:
        ValueError: for shapes that do not fit together.

    >>> import ftorch as torch
    >>> D = torch.distributions
    >>> D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(2)).variance
    tensor([2., 2.])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m"
            )
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = torch.broadcast_shapes(
                loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand(batch_shape + event_shape)
        self.cov_factor = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(batch_shape + event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = capacitance_tril(cov_factor, cov_diag)

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    def _ftorch_whole(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def variance(self):
        squares = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return squares.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        # Scaled to a unit diagonal the matrix is far better conditioned.
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        return self._ftorch_whole(root * torch.linalg.cholesky(_plus_identity(scaled @ scaled.mT)))

    @lazy_property
    def covariance_matrix(self):
        factor, diag = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        return self._ftorch_whole(factor @ factor.mT + torch.diag_embed(diag))

    @lazy_property
    def precision_matrix(self):
        factor, diag = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        half = torch.linalg.solve_triangular(
            self._capacitance_tril, factor.mT / diag.unsqueeze(-2), upper=False
        )
        return self._ftorch_whole(torch.diag_embed(diag.reciprocal()) - half.mT @ half)

    def rsample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        factor = self._unbroadcasted_cov_factor
        options = {"dtype": self.loc.dtype, "device": self.loc.device}
        eps_factor = _standard_normal(shape[:-1] + factor.shape[-1:], **options)
        eps_diag = _standard_normal(shape, **options)
        return (
            self.loc
            + (factor @ eps_factor.unsqueeze(-1)).squeeze(-1)
            + self._unbroadcasted_cov_diag.sqrt() * eps_diag
        )

    def _ftorch_log_det(self):
        return lowrank_log_det(self._unbroadcasted_cov_diag, self._capacitance_tril)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        square = lowrank_mahalanobis(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, value - self.loc,
            self._capacitance_tril,
        )
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._ftorch_log_det() + square)

    def entropy(self):
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._ftorch_log_det())
        return entropy.expand(self._batch_shape)
