"""Zeros where weights are small (``torch.ao.pruning.sparsifier.weight_norm_sparsifier``)."""

from __future__ import annotations

import math
from collections.abc import Callable

import ftorch as torch
import ftorch.nn.functional as F

from .base_sparsifier import BaseSparsifier

__all__ = ["WeightNormSparsifier"]


class WeightNormSparsifier(BaseSparsifier):
    """Makes the blocks of a matrix zero whose norm is least.

    Args:
        sparsity_level: the part of the blocks.
        sparse_block_shape: (rows, columns) of a block.
        zeros_per_block: how many elements of such a block; all by default. With (1, 4) and 2, two of four are zero.
        norm: 1, 2, or a function of the weights that gives a number for each.

    >>> import ftorch as torch
    >>> torch.ao.pruning.WeightNormSparsifier(1.0, (1, 4), 2).defaults["zeros_per_block"]
    2
    """

    def __init__(self, sparsity_level: float = 0.5, sparse_block_shape: tuple[int, int] = (1, 4),
                 zeros_per_block: int | None = None, norm: Callable | int | None = None):
        if zeros_per_block is None:
            zeros_per_block = math.prod(sparse_block_shape)
        if callable(norm):
            self.norm_fn = norm
        elif norm == 1:
            self.norm_fn = torch.abs
        elif norm in (None, 2):
            self.norm_fn = torch.square
        else:
            raise NotImplementedError(f"L-{norm} is not yet implemented.")
        super().__init__(defaults={
            "sparsity_level": sparsity_level, "sparse_block_shape": sparse_block_shape,
            "zeros_per_block": zeros_per_block,
        })

    def _make_tensor_mask(self, data, input_shape, sparsity_level, sparse_block_shape, mask=None):
        """Zeros in the blocks with the least mean."""
        height, width = data.shape[-2:]
        if not 0.0 < sparsity_level < 1.0:
            made = torch.zeros if sparsity_level >= 1.0 else torch.ones
            rows, columns = (n + -n % b for n, b in zip((height, width), sparse_block_shape))
            return made(rows, columns, device=data.device)
        if math.prod(sparse_block_shape) > 1:
            shape = sparse_block_shape
            data = F.avg_pool2d(data[None, None], kernel_size=shape, stride=shape, ceil_mode=True)[0, 0]
        blocks = data.shape
        data = data.flatten()
        count = max(0, min(len(data) - 1, round(sparsity_level * len(data))))
        kept = torch.ones(len(data), device=data.device)
        kept[torch.topk(data, k=count, largest=False).indices] = 0
        kept = kept.reshape(blocks)
        for dim, size in enumerate(sparse_block_shape):
            kept = kept.repeat_interleave(size, dim)
        return kept[:height, :width].contiguous()

    def _make_block_mask(self, data, sparse_block_shape, zeros_per_block, mask=None):
        """Zeros at the least elements of each block; blocks at the border are filled up with NaN, the largest."""
        height, width = data.shape[-2:]
        block_h, block_w = sparse_block_shape
        down, right = -height % block_h, -width % block_w
        if block_h * block_w == zeros_per_block:
            return torch.zeros(height + down, width + right, device=data.device)
        padded = F.pad(data, (0, right, 0, down), value=float("nan"))
        blocks = padded.unflatten(0, (-1, block_h)).unflatten(2, (-1, block_w)).permute(0, 2, 1, 3).flatten(2)
        least = torch.topk(blocks, k=zeros_per_block, dim=2, largest=False).indices
        kept = torch.ones(blocks.shape, device=data.device).scatter(2, least, 0.0)
        return kept.unflatten(2, (block_h, block_w)).permute(0, 2, 1, 3).reshape(padded.shape).contiguous()

    def update_mask(self, module, tensor_name, sparsity_level, sparse_block_shape, zeros_per_block, **kwargs):
        """Writes the mask of a matrix.

        Raises:
            ValueError: for more zeros in a block than it has elements, and for a negative number.
        """
        size = math.prod(sparse_block_shape)
        if zeros_per_block > size:
            raise ValueError(
                "Number of zeros per block cannot be more than the total number of elements in that block."
            )
        if zeros_per_block < 0:
            raise ValueError("Number of zeros per block should be positive.")
        mask = getattr(module.parametrizations, tensor_name)[0].mask
        if sparsity_level <= 0 or zeros_per_block == 0:
            mask.data = torch.ones_like(mask)
        elif sparsity_level >= 1.0 and zeros_per_block == size:
            mask.data = torch.zeros_like(mask)
        else:
            weights = self.norm_fn(getattr(module, tensor_name))
            found = self._make_tensor_mask(weights, weights.shape, sparsity_level, sparse_block_shape)
            if size != zeros_per_block:
                found = torch.logical_or(found, self._make_block_mask(weights, sparse_block_shape, zeros_per_block))
            mask.data = found
