"""`BlockMask`: which blocks of queries and keys attention has to look at."""

from __future__ import annotations

import math

import numpy as np

from ...eager.core import api as torch
from ...eager.core import dtype as _dtype

_TENSORS = (
    "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks",
    "q_indices", "full_q_num_blocks", "full_q_indices",
)
_ORDERS = "dq_write_order", "dq_write_order_full", "dq_kv_order", "dq_kv_order_spt"


def noop_mask(batch, head, token_q, token_kv):
    """The mask function that lets everything pass."""
    return batch.new_ones(size=(), dtype=_dtype.bool, device=batch.device)


def _sliced(batch, head, token_q, token_kv):
    raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")


def _ordered(dense):
    """(..., rows, columns) of 0 and 1: how many ones a row has, and its columns, those first."""
    dense = dense.to(_dtype.int32)
    order = torch.argsort(dense, dim=-1, descending=True, stable=True)
    return dense.sum(-1).to(_dtype.int32), order.to(_dtype.int32)


def _dense(counts, indices):
    """The inverse of `_ordered`."""
    columns = indices.shape[-1]
    valid = torch.arange(columns, device=counts.device) < counts.unsqueeze(-1)
    valid &= indices >= 0  # pages that a sequence does not have
    # One more column takes what is not counted: indices there may be those of blocks that are.
    hits = torch.zeros(*indices.shape[:-1], columns + 1, dtype=_dtype.int32, device=counts.device)
    return hits.scatter(-1, torch.where(valid, indices, columns).long(), 1)[..., :columns].contiguous()


def _pair(size):
    return (size, size) if isinstance(size, int) else tuple(size)


def _drawing(blocks, most_rows, most_columns):
    """Blocks (rows, columns) drawn in sections: all, some or none of a section's blocks pass."""
    rows, columns = (max(1, -(-n // most)) for n, most in zip(blocks.shape, (most_rows, most_columns)))
    lines = []
    for r in range(0, blocks.shape[0], rows):
        shares = (blocks[r : r + rows, c : c + columns].mean() for c in range(0, blocks.shape[1], columns))
        lines.append("".join({0.0: "  ", 1.0: "██"}.get(float(share), "░░") for share in shares) + "\n")
    return "".join(lines)


class BlockMask:
    """Which blocks a mask lets pass: in part (``kv_*``) and in full (``full_kv_*``).

    Attributes:
        kv_num_blocks: (B, H, blocks of queries): how many blocks of keys are to be looked at.
        kv_indices: (B, H, blocks of queries, blocks of keys): those, and then the others.
        q_num_blocks, q_indices: the same with queries and keys exchanged.
        BLOCK_SIZE: the sizes of a block; seq_lengths: the numbers of queries and keys.
        mask_mod: the function that decides inside a block.
    """

    def __init__(self, seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices,
                 q_num_blocks, q_indices, full_q_num_blocks, full_q_indices, BLOCK_SIZE=(128, 128),
                 mask_mod=noop_mask, *, dq_write_order=None, dq_write_order_full=None,
                 dq_kv_order=None, dq_kv_order_spt=None):
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE, self.mask_mod = BLOCK_SIZE, mask_mod
        self.dq_write_order, self.dq_write_order_full = dq_write_order, dq_write_order_full
        self.dq_kv_order, self.dq_kv_order_spt = dq_kv_order, dq_kv_order_spt

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks, kv_indices, full_kv_num_blocks=None,
                       full_kv_indices=None, BLOCK_SIZE=128, mask_mod=None, seq_lengths=None,
                       compute_q_blocks=True, *, dq_write_order=None, dq_write_order_full=None,
                       dq_kv_order=None):
        """A block mask of the blocks of keys for each block of queries."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(
                "full_kv_num_blocks and full_kv_indices must be both provided or omitted"
            )
        block_size = _pair(BLOCK_SIZE)
        if seq_lengths is None:
            seq_lengths = tuple(
                n * size for n, size in zip(kv_indices.shape[-2:], block_size, strict=True)
            )
        transposed: list = [None] * 4
        if compute_q_blocks:
            transposed[:2] = _ordered(_dense(kv_num_blocks, kv_indices).transpose(-2, -1))
            if full_kv_num_blocks is not None:
                full = _dense(full_kv_num_blocks, full_kv_indices)
                transposed[2:] = _ordered(full.transpose(-2, -1))
        return cls(
            seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices,
            *transposed, block_size, noop_mask if mask_mod is None else mask_mod,
            dq_write_order=dq_write_order, dq_write_order_full=dq_write_order_full,
            dq_kv_order=dq_kv_order,
        )

    @classmethod
    def from_mask(cls, mask, BLOCK_SIZE, mask_mod, separate_full_blocks=True):
        """A block mask of a whole mask (B, H, queries, keys)."""
        lengths, (rows, columns) = tuple(mask.shape[-2:]), _pair(BLOCK_SIZE)
        bottom, right = -lengths[0] % rows, -lengths[1] % columns
        mask = torch.nn.functional.pad(mask, (0, right, 0, bottom), value=False)
        b, h, q, kv = mask.shape
        hits = mask.view(b, h, q // rows, rows, kv // columns, columns).sum((-3, -1))
        full = (hits == rows * columns) & separate_full_blocks
        partial = (hits > 0) & ~full
        full_blocks = _ordered(full) if separate_full_blocks else (None, None)
        return cls.from_kv_blocks(
            *_ordered(partial), *full_blocks, (rows, columns), mask_mod, lengths
        )

    def as_tuple(self, flatten=True):
        """The fields, the lengths and sizes one by one if ``flatten``."""
        sizes = (self.BLOCK_SIZE,)
        lengths = (self.seq_lengths,)
        if flatten:
            sizes, lengths = tuple(self.BLOCK_SIZE), tuple(self.seq_lengths)
        tensors = (getattr(self, name) for name in (*_TENSORS, *_ORDERS))
        return (*lengths, *tensors, *sizes, self.mask_mod)

    @property
    def shape(self):
        """(B, H, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self):
        """The number of pairs, in whole blocks excluded."""
        return math.prod(self.shape)

    def sparsity(self):
        """The share of pairs outside of the blocks, in percent."""
        blocks = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            blocks += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - blocks * math.prod(self.BLOCK_SIZE) / self.numel())

    def to_dense(self):
        """(B, H, blocks of queries, blocks of keys): 1 where something passes."""
        partial = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is None:
            return partial
        return partial | _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def to(self, device):
        """The same with its tensors on a device."""
        return self._mapped(lambda t: t.to(device), self.seq_lengths, self.mask_mod)

    def __getitem__(self, index):
        """The block mask of some batches, heads and blocks of queries; it masks nothing inside."""
        index = index if isinstance(index, tuple) else (index,)
        index = (*index, *[slice(None)] * (3 - len(index)))
        index = tuple(slice(i + n, i + n + 1) if isinstance(i, int) and i < 0 else
                      slice(i, i + 1) if isinstance(i, int) else i
                      for i, n in zip(index, self.kv_num_blocks.shape, strict=True))
        parts = (getattr(self, name) for name in _TENSORS[:4])
        parts = [None if t is None else t[index] for t in parts]
        return BlockMask.from_kv_blocks(
            *parts, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=_sliced, seq_lengths=self.seq_lengths,
            compute_q_blocks=self.q_indices is not None,
        )

    def _mapped(self, function, seq_lengths, mask_mod):
        tensors = (getattr(self, name) for name in _TENSORS)
        return BlockMask(
            seq_lengths, *(None if t is None else function(t) for t in tensors),
            BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=mask_mod,
        )

    def _adjust(self, new_q_len, new_kv_len):
        """The upper left corner, for fewer queries and keys."""
        rows, columns = (
            -(-n // size) for n, size in zip((new_q_len, new_kv_len), self.BLOCK_SIZE, strict=True)
        )

        def cropped(counts, indices):
            return _ordered(_dense(counts, indices)[..., :rows, :columns])

        full = (None, None)
        if self.full_kv_num_blocks is not None:
            full = cropped(self.full_kv_num_blocks, self.full_kv_indices)
        return BlockMask.from_kv_blocks(
            *cropped(self.kv_num_blocks, self.kv_indices), *full, self.BLOCK_SIZE, self.mask_mod,
            (new_q_len, new_kv_len),
        )

    def _check_lengths(self, q_len, kv_len):
        if self.mask_mod is _sliced:
            raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")
        rows, columns = self.shape[-2:]
        start = (
            f"block_mask was created for block_mask.shape={self.shape} but got q_len={q_len} and "
            f"kv_len={kv_len}. As the block mask was created for a "
        )
        if q_len > rows or kv_len > columns:
            raise ValueError(
                f"{start}smaller length than you're using it for, you likely need to create a new "
                "block mask."
            )
        if q_len < rows or kv_len < columns:
            raise ValueError(
                f"{start}larger length than you're using it for, you can either 1. create a new "
                "block mask with the correct length, or 2. 'adjust' the existing block mask to the "
                "correct length by calling block_mask._adjust(q_len, kv_len). This essentially "
                "'crops' the block mask to the upper left corner, which does not work for all "
                "mask_mods!"
            )

    def to_string(self, grid_size=(20, 20), limit=4):
        """Drawings of the first few batches and heads: sections of blocks that pass all, in part or not.

        Args:
            grid_size: rows and columns of a drawing at most, or one number for both.
            limit: how many are drawn.
        """
        rows, columns = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        dense = self.to_dense().numpy()
        found = []
        for index in np.ndindex(*dense.shape[:-2]):
            if len(found) == limit:
                found += [
                    "...", "To print out more, set BlockMask.to_string(limit=N)",
                    "You can also index (BlockMask[batch, head]) to choose a specific batch or head",
                ]
                break
            found.append(f"{index}\n{_drawing(dense[index], rows, columns)}")
        return "\n".join(found)

    def __str__(self):
        return (
            f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"
        )

    def __repr__(self):
        lines = []
        for name in _TENSORS:
            value = getattr(self, name)
            lines.append(f"    {name}={None if value is None else value.shape}")
        lines += [
            f"    BLOCK_SIZE={self.BLOCK_SIZE}",
            f"    shape={self.shape}",
            f"    sparsity={self.sparsity():.2f}%",
            f"    mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}",
        ]
        return "BlockMask(\n" + ",\n".join(lines) + "\n)"
