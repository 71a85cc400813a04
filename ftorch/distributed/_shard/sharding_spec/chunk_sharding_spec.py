"""A tensor cut along one dimension into chunks."""

from __future__ import annotations

from dataclasses import dataclass

from ...remote_device import _remote_device
from .. import _tensor_metadata as _metadata
from ..metadata import ShardMetadata
from ._internals import get_chunked_dim_size, get_split_size, make_shards
from .api import ShardingSpec


@dataclass
class ChunkShardingSpec(ShardingSpec):
    """Chunks along a dimension, as `torch.chunk` makes them, one for each place.

    Raises:
        ValueError: the dimension is no number. NotImplementedError: it is a name.

    >>> from ftorch.distributed._shard.sharding_spec import ChunkShardingSpec
    >>> ChunkShardingSpec(0, ["rank:0/cpu", "rank:1/cpu"]).placements
    [rank:0/cpu, rank:1/cpu]
    """

    ShardingDim = int | str

    dim: int | str
    placements: list

    def __post_init__(self):
        self._verify_dim(self.dim)
        places = [
            p if isinstance(p, _remote_device) else _remote_device(p) for p in self.placements
        ]
        self.placements[:] = places

    @staticmethod
    def _verify_dim(dim):
        if isinstance(dim, str):
            raise NotImplementedError("ChunkShardingSpec does not support named dimension yet!")
        if not isinstance(dim, int):
            raise ValueError(f"Sharding dim needs to be an integer, found: {dim}")

    def build_metadata(self, tensor_sizes, tensor_properties):
        """The chunks of a tensor of some sizes.

        Raises:
            ValueError: it has no such dimension.
        """
        self._verify_dim(self.dim)
        rank = len(tensor_sizes)
        if not -rank <= self.dim < rank:
            raise ValueError(f"Invalid sharding dim: {self.dim}")
        split, found = get_split_size(tensor_sizes[self.dim], len(self.placements)), []
        for i, place in enumerate(self.placements):
            offsets, sizes = [0] * rank, list(tensor_sizes)
            offsets[self.dim], sizes[self.dim] = (
                split * i,
                get_chunked_dim_size(tensor_sizes[self.dim], split, i),
            )
            found.append(ShardMetadata(offsets, sizes, place))
        return _metadata.ShardedTensorMetadata(found, tensor_sizes, tensor_properties)

    def shard(self, tensor, src_rank: int = 0, process_group=None):
        """The chunks of a rank's tensor (of the group, where one is given), each where it belongs."""
        return make_shards[0](self, tensor, src_rank, process_group)
