"""A piece that a process has."""

from __future__ import annotations

from dataclasses import dataclass

import ftorch as torch

from ...remote_device import _remote_device
from ..metadata import ShardMetadata


@dataclass
class Shard:
    """A piece of a tensor, and where it lies.

    Raises:
        ValueError: its sizes or its device are not those of the metadata.
    """

    __slots__ = ["metadata", "tensor"]

    tensor: torch.Tensor
    metadata: ShardMetadata

    def __post_init__(self) -> None:
        sizes, place = list(self.tensor.size()), self.metadata.placement
        if sizes != self.metadata.shard_sizes:
            raise ValueError(
                f"Shard tensor size does not match with metadata.shard_lengths! Found shard tensor size: {sizes}, "
                f"metadata.shard_lengths: {self.metadata.shard_sizes}, "
            )
        if place is not None and place.device() != self.tensor.device:
            raise ValueError(
                "Local shard tensor device does not match with local Shard's placement! Found local shard tensor "
                f"device: {self.tensor.device}, local shard metadata placement device: {place.device()}"
            )

    @classmethod
    def from_tensor_and_offsets(cls, tensor, shard_offsets: list[int], rank: int) -> Shard:
        """The piece that begins at offsets, of a rank."""
        place = _remote_device(f"rank:{rank}/{tensor.device}")
        return cls(tensor, ShardMetadata(shard_offsets, list(tensor.size()), place))
