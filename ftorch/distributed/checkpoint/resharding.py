"""Boxes that two parts of a tensor share."""

from __future__ import annotations

from .metadata import ChunkStorageMetadata

__all__: list[str] = []


def _shared(saved: ChunkStorageMetadata, wanted: ChunkStorageMetadata):
    """(where the box that two parts share begins, where it ends) in the whole tensor, or None."""
    begin = [max(a, b) for a, b in zip(saved.offsets, wanted.offsets)]
    end = [
        min(a + n, b + m)
        for a, n, b, m in zip(saved.offsets, saved.sizes, wanted.offsets, wanted.sizes)
    ]
    return None if any(e <= b for b, e in zip(begin, end)) else (begin, end)


def _check_shard_metadata_pair_overlap(shard1, shard2) -> bool:
    """Whether two parts share elements."""
    return _shared(shard1, shard2) is not None


def _shards_get_overlap_region_wrt_saved_tensor(saved_shard, current_shard):
    """For each dimension (its number, where the shared box begins in the saved part and in the other, its length)."""
    shared = _shared(saved_shard, current_shard)
    begin, end = shared if shared is not None else (saved_shard.offsets, saved_shard.offsets)
    return [
        (d, b - saved_shard.offsets[d], b - current_shard.offsets[d], e - b)
        for d, (b, e) in enumerate(zip(begin, end))
    ]
