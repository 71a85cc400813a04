from __future__ import annotations

import math

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import expandable
from .distribution import Distribution
from .utils import _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]

_FORMS = ("covariance_matrix", "precision_matrix", "scale_tril")


def given_matrix(covariance_matrix, precision_matrix, scale_tril):
    """The name and value of the one that is given; None if it is not exactly one."""
    forms = zip(_FORMS, (covariance_matrix, precision_matrix, scale_tril))
    given = [(name, matrix) for name, matrix in forms if matrix is not None]
    return given[0] if len(given) == 1 else None


def to_scale_tril(name, matrix):
    """The Cholesky factor of the covariance that a matrix of one of the forms stands for."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return torch.linalg.cholesky(matrix)
    # P = U U^T with U upper triangular, so that P^-1 = U^-T U^-1.
    upper = torch.linalg.cholesky(torch.flip(matrix, (-2, -1)))
    lower = torch.flip(upper, (-2, -1)).mT
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return torch.linalg.solve_triangular(lower, identity, upper=False)


class ScaleTril(Distribution):
    """Distributions with a matrix that has three forms, each made of its Cholesky factor."""

    def _ftorch_whole(self, matrix):
        n = self._event_shape[-1]
        return matrix.expand(self._batch_shape + (n, n))

    @lazy_property
    def scale_tril(self):
        return self._ftorch_whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        factor = self._unbroadcasted_scale_tril
        return self._ftorch_whole(torch.matmul(factor, factor.mT))

    @lazy_property
    def precision_matrix(self):
        return self._ftorch_whole(torch.cholesky_inverse(self._unbroadcasted_scale_tril))


def _precision_to_scale_tril(P):  # noqa: N803
    """The lower factor of the covariance whose inverse is P."""
    return to_scale_tril("precision_matrix", P)


def half_log_det(factor):
    """log of the determinant of a triangular matrix: half that of its square."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def mahalanobis(factor, x):
    """|L^-1 x|^2. The dimensions of x that L lacks are columns of one system, with no copies of L."""
    extra = x.dim() + 1 - factor.dim()
    if extra <= 0:
        columns = x.unsqueeze(-1)
        return torch.linalg.solve_triangular(factor, columns, upper=False).pow(2).sum((-2, -1))
    columns = x.flatten(0, extra - 1).movedim(0, -1)
    solved = torch.linalg.solve_triangular(factor, columns, upper=False)
    squares = solved.pow(2).sum(-2).movedim(-1, 0)
    return squares.reshape(x.shape[:extra] + squares.shape[1:])


@expandable(carried="_unbroadcasted_scale_tril")
class MultivariateNormal(ScaleTril):
    """Normal vectors.

    Args:
        loc: the mean vector.
        covariance_matrix, precision_matrix, scale_tril: one of the covariance, its inverse and its
            lower triangular Cholesky factor; the last costs least.

    Raises:
        ValueError: if not exactly one is given, or the dimensions are too few.

    >>> import ftorch as torch
    >>> D = torch.distributions
    >>> D.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None,
                 validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = given_matrix(covariance_matrix, precision_matrix, scale_tril)
        if given is None:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        name, matrix = given
        if matrix.dim() < 2:
            raise ValueError(
                f"{name}{' matrix' * (name == 'scale_tril')} must be at least two-dimensional, "
                "with optional leading batch dimensions"
            )
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = to_scale_tril(name, matrix)

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        square = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return square.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        eps = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        square = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        normalizer = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (normalizer + square) - half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self):
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half_log_det(
            self._unbroadcasted_scale_tril
        )
        return entropy.expand(self._batch_shape)
