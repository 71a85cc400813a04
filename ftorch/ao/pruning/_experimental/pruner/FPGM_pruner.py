"""Rows that are near to the others (``torch.ao.pruning._experimental.pruner.FPGM_pruner``)."""

from __future__ import annotations

from collections.abc import Callable

import ftorch as torch

from .base_structured_sparsifier import BaseStructuredSparsifier

__all__ = ["FPGMPruner"]


class FPGMPruner(BaseStructuredSparsifier):
    """Takes out filters whose distances to the others are smallest (https://arxiv.org/abs/1811.00250).

    Args:
        sparsity_level: the share of the filters.
        dist: 1 or 2 for that norm's distance, or a function of a matrix to its rows' distances; None is 2.

    Raises:
        NotImplementedError: for another number.
    """

    def __init__(self, sparsity_level: float = 0.5, dist: Callable | int | None = None):
        p = 2 if dist is None else dist
        if callable(p):
            self.dist_fn = p
        elif p in (1, 2):
            self.dist_fn = lambda x: torch.cdist(x, x, p=p)
        else:
            raise NotImplementedError("Distance function is not yet implemented.")
        super().__init__(defaults={"sparsity_level": sparsity_level})

    def _compute_distance(self, t):
        """The sum of each row's distances to all rows."""
        return self.dist_fn(t.flatten(1)).abs().sum(1)

    def update_mask(self, module, tensor_name, sparsity_level, **kwargs):  # type: ignore[override]
        weight, mask = getattr(module, tensor_name), getattr(module.parametrizations, tensor_name)[0].mask
        if sparsity_level <= 0:
            mask.data = torch.ones_like(mask).bool()
        elif sparsity_level >= 1.0:
            mask.data = torch.zeros_like(mask).bool()
        else:
            count = min(max(round(sparsity_level * len(weight)), 0), len(weight))
            mask[torch.topk(self._compute_distance(weight), k=count, largest=False).indices] = False
