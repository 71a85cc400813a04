from __future__ import annotations

import math
import warnings
from numbers import Number

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import expandable
from .chi2 import Chi2
from .exp_family import ExponentialFamily
from .multivariate_normal import ScaleTril, given_matrix, half_log_det, to_scale_tril
from .utils import lazy_property

__all__ = ["Wishart"]


def _mvdigamma(x, p):
    """The derivative of mvlgamma."""
    return torch.digamma(x.unsqueeze(-1) - torch.arange(p, dtype=x.dtype, device=x.device) / 2).sum(
        -1
    )


@expandable(carried="_unbroadcasted_scale_tril")
class Wishart(ScaleTril, ExponentialFamily):
    """The Wishart distribution of positive definite matrices.

    Args:
        df: the degrees of freedom, more than the number of rows less one.
        covariance_matrix, precision_matrix, scale_tril: one of the scale matrix, its inverse and its
            lower triangular Cholesky factor.

    Raises:
        AssertionError: if not exactly one is given.
        ValueError: for too few dimensions or degrees of freedom.

    >>> import ftorch as torch
    >>> torch.distributions.Wishart(3.0, torch.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self):
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None,
                 validate_args=None):
        given = given_matrix(covariance_matrix, precision_matrix, scale_tril)
        if given is None:
            raise AssertionError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        name, matrix = given
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch dimensions"
            )
        if isinstance(df, Number):
            batch_shape = torch.Size(matrix.shape[:-2])
            self.df = torch.tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch_shape = torch.broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        event_shape = matrix.shape[-2:]
        if self.df.le(event_shape[-1] - 1).any():
            raise ValueError(
                f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}."
            )
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        if self.df.lt(event_shape[-1]).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 "
                "< df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_scale_tril = to_scale_tril(name, matrix)

    @lazy_property
    def _dist_chi2(self):
        """The squares of the diagonal of Bartlett's decomposition."""
        n = self._event_shape[-1]
        fewer = torch.arange(n, dtype=self.df.dtype, device=self.df.device)
        return Chi2(df=self.df.unsqueeze(-1) - fewer.expand(self._batch_shape + (-1,)))

    @property
    def _df(self):
        """The degrees of freedom, to multiply matrices with."""
        return self.df.expand(self._batch_shape)[..., None, None]

    @property
    def mean(self):
        return self._df * self.covariance_matrix

    @property
    def mode(self):
        factor = self._df - self.covariance_matrix.shape[-1] - 1
        return torch.where(factor > 0, factor, math.nan) * self.covariance_matrix

    @property
    def variance(self):
        diagonal = self.covariance_matrix.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._df * (self.covariance_matrix.pow(2) + outer)

    def _bartlett_sampling(self, sample_shape=torch.Size()):
        n = self._event_shape[-1]
        noise = self._dist_chi2.rsample(sample_shape).sqrt().diag_embed(dim1=-2, dim2=-1)
        rows, columns = torch.tril_indices(row=n, col=n, offset=-1)
        noise[..., rows, columns] = torch.randn(
            torch.Size(sample_shape) + self._batch_shape + (n * (n - 1) // 2,),
            dtype=noise.dtype, device=noise.device,
        )
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape=torch.Size(), max_try_correction=None):
        """Samples, the singular ones drawn again.

        Args:
            max_try_correction: how often they are (10 times).
        """
        sample_shape = torch.Size(tuple(sample_shape))
        sample = self._bartlett_sampling(sample_shape)
        # PyTorch takes the sound matrices for singular ones at first and draws them again; so must
        # this, to have its numbers.
        redrawn = self._ftorch_any(self.support.check(sample))
        if not redrawn.any():
            return sample
        warnings.warn("Singular sample detected.", stacklevel=2)
        for _ in range(10 if max_try_correction is None else max_try_correction):
            again = self._bartlett_sampling(redrawn[redrawn].shape)
            sample[redrawn] = again
            redrawn[redrawn.clone()] = self._ftorch_any(~self.support.check(again))
            if not redrawn.any():
                break
        return sample

    def _ftorch_any(self, found):
        """What was found of matrices, for samples: of any matrix of the batch."""
        return found.flatten(found.dim() - len(self._batch_shape)).any(-1) if self._batch_shape else found

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        nu, p, factor = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        trace = torch.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        return (
            -nu * (p * math.log(2) / 2 + half_log_det(factor))
            - torch.mvlgamma(nu / 2, p=p)
            + (nu - p - 1) / 2 * torch.linalg.slogdet(value).logabsdet
            - trace / 2
        )

    def entropy(self):
        nu, p = self.df, self._event_shape[-1]
        return (
            (p + 1) * (p * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril))
            + torch.mvlgamma(nu / 2, p=p)
            - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p=p)
            + nu * p / 2
        )

    @property
    def _natural_params(self):
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x, y):
        p = self._event_shape[-1]
        half_df = y + (p + 1) / 2
        log_det = torch.linalg.slogdet(-2 * x).logabsdet
        return half_df * (-log_det + math.log(2) * p) + torch.mvlgamma(half_df, p=p)
