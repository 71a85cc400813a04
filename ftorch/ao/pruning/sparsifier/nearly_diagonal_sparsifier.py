"""Zeros away from the diagonal (``torch.ao.pruning.sparsifier.nearly_diagonal_sparsifier``)."""

from __future__ import annotations

import ftorch as torch

from .base_sparsifier import BaseSparsifier

__all__ = ["NearlyDiagonalSparsifier"]


class NearlyDiagonalSparsifier(BaseSparsifier):
    """Keeps a band around the diagonal of a matrix.

    Args:
        nearliness: how wide the band is, an odd number; nothing is kept of 0.
    """

    def __init__(self, nearliness: int = 1):
        super().__init__(defaults={"nearliness": nearliness})

    def update_mask(self, module, tensor_name, nearliness, **kwargs):
        """Writes the mask of a matrix.

        Raises:
            ValueError: for an even width, and for one that is larger than the matrix.
        """
        mask = getattr(module.parametrizations, tensor_name)[0].mask
        mask.data = torch.zeros_like(mask)
        if nearliness <= 0:
            return
        height, width = getattr(module, tensor_name).shape
        if nearliness % 2 == 0:
            raise ValueError("nearliness can only be an odd number")
        distance = nearliness // 2
        if distance >= min(height, width):
            raise ValueError("nearliness cannot be larger than the dimensions of tensor.")
        mask.data = torch.ones_like(mask).tril(distance).triu(-distance)
