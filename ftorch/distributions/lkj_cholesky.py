from __future__ import annotations

import math

import ftorch as torch

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import expandable
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all, lazy_property

__all__ = ["LKJCholesky"]


@expandable(carried="dim")
class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices C with densities proportional to |C|^(eta - 1).

    Args:
        dim: the number of rows.
        concentration: eta; 1 is uniform over correlation matrices.

    Raises:
        ValueError: for fewer than two rows.

    >>> import ftorch as torch
    >>> torch.distributions.LKJCholesky(3, 0.5).sample().shape
    torch.Size([3, 3])
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        _ = self._ftorch_beta  # which finds fault with the concentration first
        super().__init__(self.concentration.size(), torch.Size((dim, dim)), validate_args)

    @lazy_property
    def _ftorch_beta(self):
        """The squared lengths of the rows left of the diagonal, in the onion method."""
        options = {"dtype": self.concentration.dtype, "device": self.concentration.device}
        offset = torch.arange(self.dim - 1, **options)
        offset = torch.cat([offset.new_zeros((1,)), offset])
        marginal = self.concentration + 0.5 * (self.dim - 2)
        return Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            options = {"dtype": self.concentration.dtype, "device": self.concentration.device}
            y = self._ftorch_beta.sample(sample_shape).unsqueeze(-1)
            normal = torch.randn(self._extended_shape(sample_shape), **options).tril(-1)
            sphere = normal / normal.norm(dim=-1, keepdim=True)
            sphere[..., 0, :].fill_(0.0)  # the first row has nothing left of the diagonal
            w = torch.sqrt(y) * sphere
            eps = torch.finfo(w.dtype).tiny
            diagonal = torch.clamp(1 - torch.sum(w**2, dim=-1), min=eps).sqrt()
            return w + torch.diag_embed(diagonal)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        less = self.dim - 1
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        row = torch.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - row
        unnormalized = torch.sum(order * diagonal.log(), dim=-1)
        alpha = self.concentration + 0.5 * less
        normalizer = (
            0.5 * less * math.log(math.pi)
            + torch.mvlgamma(alpha - 0.5, less)
            - torch.lgamma(alpha) * less
        )
        return unnormalized - normalizer
