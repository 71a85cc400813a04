"""Boxes of tensors: do they overlap, do they fill one, how is a dimension cut."""

from __future__ import annotations

import itertools
import math
from typing import Any

make_shards: list[Any] = [None]  # makes a `ShardedTensor` of a tensor: set by `sharded_tensor`


def _check_shard_metadata_pair_overlap(shard1, shard2) -> bool:
    """Whether two boxes share an element."""
    return all(
        a < b + n and b < a + m
        for a, m, b, n in zip(
            shard1.shard_offsets,
            shard1.shard_sizes,
            shard2.shard_offsets,
            shard2.shard_sizes,
            strict=True,
        )
    )


def _find_overlap(shards):
    """The indices of two boxes that share an element, or None. Those are compared that begin before the other ends."""
    if not shards or not shards[0].shard_offsets:
        return None
    # Along the dimension in which most of them begin elsewhere, few are open at a time.
    dim = max(
        range(len(shards[0].shard_offsets)), key=lambda d: len({s.shard_offsets[d] for s in shards})
    )
    open_: list[int] = []
    for i in sorted(range(len(shards)), key=lambda i: shards[i].shard_offsets[dim]):
        start = shards[i].shard_offsets[dim]
        open_ = [
            k for k in open_ if shards[k].shard_offsets[dim] + shards[k].shard_sizes[dim] > start
        ]
        for k in open_:
            if _check_shard_metadata_pair_overlap(shards[k], shards[i]):
                return k, i
        open_.append(i)
    return None


def validate_non_overlapping_shards_metadata(shards: list) -> None:
    """Raises ValueError if two of some boxes share an element."""
    found = _find_overlap(shards) if len(shards) > 1 else None
    if found is not None:
        raise ValueError(f"Shards {shards[found[0]]} and {shards[found[1]]} overlap")


def check_tensor(shards_metadata, tensor_dims) -> None:
    """Raises ValueError unless boxes, which do not overlap, fill a tensor of some sizes."""
    rank = len(shards_metadata[0].shard_offsets)
    if len(tensor_dims) != rank:
        raise ValueError(f"Rank of tensor is {len(tensor_dims)}, but shards rank is {rank}")
    for shard in shards_metadata:
        for offset, size, whole in zip(shard.shard_offsets, shard.shard_sizes, tensor_dims):
            if offset + size > whole:
                raise ValueError(
                    f"Shard offset {offset} and length {size} exceeds tensor dim: {whole} for shard {shard}"
                )
    volume, total = math.prod(tensor_dims), sum(math.prod(s.shard_sizes) for s in shards_metadata)
    if total != volume:
        raise ValueError(
            f"Total volume of shards: {total} does not match tensor volume: {volume}, in other words all the "
            "individual shards do not cover the entire tensor"
        )


def get_split_size(dim_size: int, chunks: int) -> int:
    """The size of all pieces but the last of a dimension that is cut as `torch.chunk` does."""
    return -(-dim_size // chunks)


def get_chunked_dim_size(dim_size: int, split_size: int, idx: int) -> int:
    """The size of the piece of a number."""
    return max(0, min(split_size, dim_size - split_size * idx))


def get_chunk_sharding_params(
    sharding_dim_size: int, world_size: int, spec, rank: int
) -> tuple[int, int]:
    """(where a rank's piece of a dimension begins, its size)"""
    split = get_split_size(sharding_dim_size, world_size)
    sizes = [get_chunked_dim_size(sharding_dim_size, split, i) for i in range(len(spec.placements))]
    ranks = [place.rank() for place in spec.placements]
    at = ranks.index(rank) if rank in ranks else None
    starts = list(itertools.accumulate(sizes, initial=0))
    return (0, sizes[-1]) if at is None else (starts[at], sizes[at])
