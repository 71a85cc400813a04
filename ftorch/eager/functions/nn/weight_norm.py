"""Weight normalization: a tensor as directions times norms."""

from __future__ import annotations

from ...core import api
from ...core.composite import composite
from ...kernels._common import wrap_dim


@composite()
def norm_except_dim(v, pow=2, dim=0):
    """The norms over all dimensions but one, which stay with size 1; ``dim=-1``: one norm of all.

    >>> import ftorch as torch
    >>> torch.norm_except_dim(torch.tensor([[3., 4.], [0., 2.]]))
    tensor([[5.],
            [2.]])
    """
    if dim == -1:
        return api.norm(v, pow)
    kept = wrap_dim(dim, v.dim())
    others = [d for d in range(v.dim()) if d != kept]
    return api.norm(v, pow, others, keepdim=True)


@composite()
def _weight_norm(v, g, dim=0):
    return v * (g / api.norm_except_dim(v, 2, dim))
