from __future__ import annotations

from ..eager.tensor import Tensor as Tensor
from . import constraints
from ._parameters import expandable
from .gamma import Gamma

__all__ = ["Chi2"]


@expandable()
class Chi2(Gamma):
    """The chi-squared distribution: ``Gamma(df / 2, 1 / 2)``.

    Args:
        df: the degrees of freedom.

    >>> import ftorch as torch
    >>> torch.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df, validate_args=None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self):
        return self.concentration * 2
