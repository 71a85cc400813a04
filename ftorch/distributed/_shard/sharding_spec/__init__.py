"""How a tensor is cut."""

from ..metadata import ShardMetadata
from .api import (
    DevicePlacementSpec,
    EnumerableShardingSpec,
    PlacementSpec,
    ShardingSpec,
    _infer_sharding_spec_from_shards_metadata,
)
from .chunk_sharding_spec import ChunkShardingSpec

__all__ = [
    "ChunkShardingSpec",
    "DevicePlacementSpec",
    "EnumerableShardingSpec",
    "PlacementSpec",
    "ShardMetadata",
    "ShardingSpec",
    "_infer_sharding_spec_from_shards_metadata",
]
