"""Zeros where data is small, block by block (``torch.ao.pruning._experimental.data_sparsifier``)."""

from __future__ import annotations

import math
from typing import Any

import ftorch as torch
from ftorch.nn import functional as F

from .base_data_sparsifier import BaseDataSparsifier

__all__ = ["DataNormSparsifier"]


def _padding(shape, block) -> tuple[int, ...]:
    return tuple(-size % b for size, b in zip(shape[-2:], block))


def _folded_ones(like, dim, zeros, size, block):
    """Ones of columns of blocks with zeros at indices, put back to where the blocks were."""
    mask = torch.ones_like(like).scatter_(dim, zeros, 0)
    return F.fold(mask, output_size=size, kernel_size=block, stride=block).to(torch.int8)[0, 0]


class DataNormSparsifier(BaseDataSparsifier):
    """The blocks with the smallest norms get zeros at their smallest elements.

    Args:
        sparsity_level: the share of the blocks.
        sparse_block_shape: rows and columns of a block.
        zeros_per_block: of each such block; None for all.
        norm: "L1" or "L2".

    >>> import ftorch as torch
    >>> from ftorch.ao.pruning._experimental.data_sparsifier import DataNormSparsifier
    >>> sparsifier = DataNormSparsifier([("x", torch.tensor([[1.0, 2.0, 3.0, 4.0]]))], sparse_block_shape=(1, 2))
    >>> sparsifier.step()
    >>> sparsifier.get_mask("x")
    tensor([[0, 0, 1, 1]], dtype=torch.int8)
    """

    def __init__(self, data_list: list[tuple[str, Any]] | None = None, sparsity_level: float = 0.5,
                 sparse_block_shape: tuple[int, int] = (1, 4), zeros_per_block: int | None = None, norm: str = "L1"):
        if norm not in ("L1", "L2"):
            raise AssertionError("only L1 and L2 norm supported at the moment")
        self.norm = norm
        super().__init__(
            data_list=data_list, sparsity_level=sparsity_level, sparse_block_shape=sparse_block_shape,
            zeros_per_block=math.prod(sparse_block_shape) if zeros_per_block is None else zeros_per_block,
        )

    def _block_level_mask(self, data, block, zeros):
        if zeros == math.prod(block):
            return torch.zeros_like(data, dtype=torch.int8)
        (height, width), (dh, dw) = data.shape[-2:], _padding(data.shape, block)
        # NaN is largest of all, so what was added is kept.
        padded = F.pad(data, (0, dw, 0, dh), value=math.nan)
        columns = F.unfold(padded[None, None], kernel_size=block, stride=block)
        order = torch.sort(columns, dim=1).indices[:, :zeros]
        return _folded_ones(columns, 1, order, padded.shape, block)[:height, :width].contiguous()

    def _data_level_mask(self, data, level, block):
        (height, width), (dh, dw) = data.shape[-2:], _padding(data.shape, block)
        norms = F.avg_pool2d(data[None, None], kernel_size=block, stride=block, ceil_mode=True).flatten()
        norms = norms.repeat(1, math.prod(block), 1)
        order = torch.sort(norms, dim=2).indices[:, :, :round(level * norms.shape[-1])]
        return _folded_ones(norms, 2, order, (height + dh, width + dw), block)[:height, :width]

    def update_mask(self, name, data, sparsity_level, sparse_block_shape, zeros_per_block, **kwargs):  # type: ignore[override]
        """Writes the mask of a name.

        Raises:
            ValueError: for more zeros than elements in a block, fewer than none, or data of three dimensions.
        """
        if zeros_per_block > math.prod(sparse_block_shape):
            raise ValueError(
                "Number of zeros per block cannot be more than "
                "the total number of elements in that block."
            )
        if zeros_per_block < 0:
            raise ValueError("Number of zeros per block should be positive.")
        norms = (data.abs() if self.norm == "L1" else data * data).squeeze()
        if norms.dim() > 2:
            raise ValueError("only supports 2-D at the moment")
        if norms.dim() == 1:
            norms = norms[None]
        blocks = self._data_level_mask(norms, sparsity_level, sparse_block_shape)
        elements = self._block_level_mask(norms, sparse_block_shape, zeros_per_block)
        self.get_mask(name).data = torch.where(blocks == 1, blocks, elements)
