"""How a tensor is cut (``torch.distributed._shard.sharding_spec``)."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from ...remote_device import _remote_device
from .. import _tensor_metadata as _metadata
from ..metadata import ShardMetadata
from ._internals import (
    check_tensor,
    get_chunked_dim_size,
    get_split_size,
    validate_non_overlapping_shards_metadata,
)

_CUSTOM_SHARDING_SPEC_OPS: dict[str, dict[Callable, Callable]] = {}


class PlacementSpec(ABC):  # noqa: B024
    """Where a tensor lies."""


@dataclass
class DevicePlacementSpec(PlacementSpec):
    """A tensor that lies on one device of one process."""

    device: _remote_device

    def __post_init__(self):
        if not isinstance(self.device, _remote_device):
            self.device = _remote_device(self.device)


class ShardingSpec(PlacementSpec):
    """How a tensor is cut into pieces, and where they lie."""

    @abstractmethod
    def build_metadata(self, tensor_sizes, tensor_properties) -> _metadata.ShardedTensorMetadata:
        """The pieces of a tensor of some sizes."""

    @abstractmethod
    def shard(self, tensor, src_rank: int = 0, process_group=None):
        """A tensor of the process ``src_rank``, cut: a `ShardedTensor`."""


def _name(spec) -> str:
    return f"{spec.__class__.__module__}.{spec.__class__.__qualname__}"


def _has_custom_op(sharding_spec, op) -> bool:
    """Whether an operation is known for tensors that are cut so."""
    return op in _CUSTOM_SHARDING_SPEC_OPS.get(_name(sharding_spec), {})


def _dispatch_custom_op(sharding_spec, op: Callable, types, args, kwargs, process_group):
    """Calls what is known for an operation.

    Raises:
        RuntimeError: nothing is.
    """
    if not _has_custom_op(sharding_spec, op):
        raise RuntimeError(f"Custom op: {op} not registered for {_name(sharding_spec)}")
    return _CUSTOM_SHARDING_SPEC_OPS[_name(sharding_spec)][op](types, args, kwargs, process_group)


def custom_sharding_spec_op(sharding_spec_class, func: Callable):
    """A decorator: the function is what an operation does to tensors that are cut by a class of specs."""
    table = _CUSTOM_SHARDING_SPEC_OPS.setdefault(
        f"{sharding_spec_class.__module__}.{sharding_spec_class.__qualname__}", {}
    )

    def register(op: Callable):
        @functools.wraps(op)
        def run(types, args, kwargs, process_group):
            return op(types, args, kwargs, process_group)

        table[func] = run
        return op

    return register


@dataclass
class EnumerableShardingSpec(ShardingSpec):
    """A tensor cut into the boxes of a list.

    Raises:
        ValueError: there are none, they have other numbers of dimensions, or overlap.
    """

    shards: list[ShardMetadata]

    def __post_init__(self):
        if not self.shards:
            raise ValueError(f"Empty shard list provided: {self.shards}")
        rank = -1
        for shard in self.shards:
            if rank not in (-1, len(shard.shard_offsets)):
                raise ValueError(
                    f"Found inconsistent ranks for shards: {rank} and {len(shard.shard_offsets)}"
                )
            rank = len(shard.shard_offsets)
        validate_non_overlapping_shards_metadata(self.shards)

    def build_metadata(self, tensor_sizes, tensor_properties):
        """The list, if it fills a tensor of these sizes."""
        check_tensor(self.shards, tensor_sizes)
        return _metadata.ShardedTensorMetadata(self.shards, tensor_sizes, tensor_properties)

    def shard(self, tensor, src_rank: int = 0, process_group=None):
        """Raises NotImplementedError, as in PyTorch."""
        raise NotImplementedError("EnumerableShardingSpec.shard not implemented yet!")


def _infer_sharding_spec_from_shards_metadata(shards_metadata):
    """The spec that a list of boxes follows: a `ChunkShardingSpec` where they are chunks along one dimension."""
    from .chunk_sharding_spec import ChunkShardingSpec

    rank = len(shards_metadata[0].shard_offsets)
    ordered = sorted(
        shards_metadata, key=lambda s: s.placement.rank() if s.placement.rank() is not None else 0
    )
    ends = [max(s.shard_offsets[d] + s.shard_sizes[d] for s in ordered) for d in range(rank)]
    cut = [d for d in range(rank) if any(s.shard_sizes[d] != ends[d] for s in ordered)]
    dim = 0 if not cut and rank else cut[0] if len(cut) == 1 else None
    if dim is not None:
        by_start = sorted(
            shards_metadata, key=lambda s: (s.shard_offsets[dim], -s.shard_sizes[dim])
        )
        split = get_split_size(ends[dim], len(by_start))
        sizes = [get_chunked_dim_size(ends[dim], split, i) for i in range(len(by_start))]
        if [s.shard_sizes[dim] for s in by_start] == sizes and all(
            s.shard_offsets[dim] == split * i or not n
            for i, (s, n) in enumerate(zip(by_start, sizes))
        ):
            return ChunkShardingSpec(dim, [s.placement for s in by_start])
    return EnumerableShardingSpec(shards_metadata)
