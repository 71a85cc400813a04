"""AdamW."""

from __future__ import annotations

from ..eager.tensor import Tensor as Tensor
from ._functional import adam as adam
from ._functional import adamw as adamw
from .adam import Adam

__all__ = ["AdamW", "adamw"]


class AdamW(Adam):
    """`Adam` with weight decay that shrinks the parameters, independent of their gradients.

    The arguments are those of `Adam`.
    """

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
        maximize=False, foreach=None, capturable=False, differentiable=False, fused=None,
    ):
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
