"""Tensors in pieces within one process' pieces, as state dicts of sharded models once had them."""

from __future__ import annotations

import dataclasses

from .._shard.sharded_tensor import Shard, ShardedTensor
from ._traverse import set_element, traverse_state_dict


def _flatten_sharded_tensors(state_dict: dict) -> dict:
    """A state dict in which a `ShardedTensor` whose one own part is a `ShardedTensor`, too, is one of the parts of that."""
    found: dict = {}

    def visit(path, value):
        set_element(found, path, _flattened(value) if isinstance(value, ShardedTensor) else value)

    traverse_state_dict(state_dict, visit)
    return found


def _flattened(value):
    parts = value.local_shards()
    if not parts or not isinstance(parts[0].tensor, ShardedTensor):
        return value
    if len(parts) != 1:
        raise ValueError("Cannot handle outer tensor with more than 1 shard")
    outer, inner = parts[0], parts[0].tensor

    def moved(metadata):
        offsets = [a + b for a, b in zip(metadata.shard_offsets, outer.metadata.shard_offsets)]
        return dataclasses.replace(metadata, shard_offsets=offsets)

    return ShardedTensor._init_from_local_shards_and_global_metadata(
        [Shard(s.tensor, moved(s.metadata)) for s in inner.local_shards()],
        dataclasses.replace(value.metadata(), shards_metadata=[moved(m) for m in inner.metadata().shards_metadata]),
    )
