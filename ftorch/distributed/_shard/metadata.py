"""Where a piece of a tensor lies (``torch.distributed._shard.metadata``)."""

from __future__ import annotations

from dataclasses import dataclass

from ..remote_device import _remote_device


@dataclass
class ShardMetadata:
    """A piece of a tensor: where it begins, its sizes and its place (``"rank:0/cpu"``).

    Raises:
        ValueError: the lists differ in length, or a number is negative.

    >>> from ftorch.distributed._shard.metadata import ShardMetadata
    >>> ShardMetadata([0, 4], [2, 4], "rank:1/cpu")
    ShardMetadata(shard_offsets=[0, 4], shard_sizes=[2, 4], placement=rank:1/cpu)
    """

    __slots__ = ["placement", "shard_offsets", "shard_sizes"]

    shard_offsets: list[int]
    shard_sizes: list[int]
    placement: _remote_device | None

    def __init__(self, shard_offsets: list[int], shard_sizes: list[int], placement=None):
        self.shard_offsets, self.shard_sizes = shard_offsets, shard_sizes
        self.placement = _remote_device(placement) if isinstance(placement, str) else placement
        if len(shard_offsets) != len(shard_sizes):
            raise ValueError(
                "shard_offsets and shard_sizes should have the same number of elements, found "
                f"{len(shard_offsets)} and {shard_sizes} respectively"
            )
        for offset, size in zip(shard_offsets, shard_sizes):
            if offset < 0:
                raise ValueError("shard_offsets should be >=0")
            if size < 0:
                raise ValueError("shard_sizes should be >= 0")

    def __hash__(self):
        return hash((*self.shard_offsets, *self.shard_sizes, self.placement))
