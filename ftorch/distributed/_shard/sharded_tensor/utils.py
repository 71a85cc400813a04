"""Checks and metadata of tensors in pieces."""

from __future__ import annotations

import collections.abc
import copy

import ftorch as torch

from ... import distributed_c10d as dist
from .._tensor_metadata import ShardedTensorMetadata, TensorProperties
from ..metadata import ShardMetadata
from ..sharding_spec._internals import check_tensor, validate_non_overlapping_shards_metadata


def _parse_and_validate_remote_device(pg, remote_device):
    """(the rank, the device) of a place.

    Raises:
        ValueError: it is none of the group.
    """
    if remote_device is None:
        raise ValueError("remote device is None")
    rank, worker = remote_device.rank(), remote_device.worker_name()
    if worker is not None:
        from ... import rpc

        if not rpc._is_current_rpc_agent_set():
            raise RuntimeError(
                f"RPC framework needs to be initialized for using worker names: {worker}"
            )
        found = [w for w in rpc._get_current_rpc_agent().get_worker_infos() if w.name == worker]
        if not found:
            raise ValueError(f"Invalid worker name: {worker}")
        return found[0].id, remote_device.device()
    if rank is not None and not (
        0 <= rank < dist.get_world_size() and not dist._rank_not_in_group(pg)
    ):
        raise ValueError(
            f"Global rank {rank} does not exist in input process group: {dist.get_process_group_ranks(pg)}"
        )
    return rank, remote_device.device()


def _validate_output_tensor_for_gather(my_rank: int, dst_rank: int, size, dst_tensor) -> None:
    if dst_rank == my_rank:
        if dst_tensor is None:
            raise ValueError(
                f"Argument ``dst_tensor`` must be specified on destination rank {dst_rank}"
            )
        if tuple(size) != tuple(dst_tensor.size()):
            raise ValueError(
                f"Argument ``dst_tensor`` have size {tuple(dst_tensor.size())},but should be {tuple(size)}"
            )
    elif dst_tensor:
        raise ValueError("Argument ``dst_tensor`` must NOT be specified on non-destination ranks.")


def _flatten_tensor_size(size) -> torch.Size:
    """Sizes that are given as one list or as several numbers.

    Raises:
        TypeError: not all are numbers.
    """
    dims = (
        list(size[0])
        if len(size) == 1 and isinstance(size[0], collections.abc.Sequence)
        else list(size)
    )
    for dim in dims:
        if not isinstance(dim, int):
            raise TypeError(f"size has to be a sequence of ints, found: {dims}")
    return torch.Size(dims)


def _raise_if_mismatch(expected, actual, prop_name, ranks, is_local=True):
    if is_local:
        assert isinstance(ranks, int)
    if expected == actual:
        return
    if is_local:
        raise ValueError(
            f"Local shards' tensor {prop_name} property need to be the same on rank:{ranks}! Found one local shard "
            f"tensor {prop_name}={expected}, the other local shard tensor {prop_name}={actual}."
        )
    raise ValueError(
        f"ShardedTensor {prop_name} property does not match from different ranks! Found {prop_name}={expected} on "
        f"rank:{ranks[0]}, and {prop_name}={actual} on rank:{ranks[1]}."
    )


def build_metadata_from_local_shards(
    local_shards, global_size, current_rank: int, pg
) -> ShardedTensorMetadata:
    """What the pieces of one process say of the tensor.

    Raises:
        ValueError: they are not of one kind, or say that they lie elsewhere.
    """
    first = local_shards[0].tensor
    for shard in local_shards:
        t, place = shard.tensor, shard.metadata.placement
        rank, device = _parse_and_validate_remote_device(pg, place)
        if t.layout != torch.strided or not t.is_contiguous():
            raise ValueError("Only torch.contiguous_format memory_format is currently supported")
        if rank != current_rank:
            raise ValueError(
                f"Local shard metadata's rank does not match with the rank in its process group! Found current rank in "
                f"the process group: {current_rank}, local ShardMetadata placement's rank: {rank}"
            )
        if device != t.device:
            raise ValueError(
                f"Local shard tensor device does not match with local Shard's placement! Found local shard tensor "
                f"device: {t.device}, local shard metadata placement device: {device}"
            )
        for name in ("dtype", "layout", "requires_grad"):
            _raise_if_mismatch(getattr(first, name), getattr(t, name), name, current_rank)
    return ShardedTensorMetadata(
        [s.metadata for s in local_shards], global_size, TensorProperties.create_from_tensor(first)
    )


def build_global_metadata(
    gathered_metadatas, recalc_metadata: bool = False
) -> ShardedTensorMetadata:
    """What those of all processes say together.

    Args:
        recalc_metadata: whether pieces begin where those of the ranks before end, along the first dimension.

    Raises:
        ValueError: they do not go together, or do not fill the tensor.
    """
    made, first = None, 0
    for rank, found in enumerate(gathered_metadatas):
        if found is None:
            continue
        if made is None:
            made, first = copy.deepcopy(found), rank
            continue
        if not recalc_metadata:
            _raise_if_mismatch(made.size, found.size, "global_size", [first, rank], is_local=False)
        for name in ("dtype", "layout", "requires_grad", "memory_format"):
            _raise_if_mismatch(
                getattr(made.tensor_properties, name),
                getattr(found.tensor_properties, name),
                name,
                [first, rank],
                is_local=False,
            )
        made.shards_metadata.extend(found.shards_metadata)
    if made is None:
        raise ValueError("ShardedTensor have no local shards on all ranks!")
    if recalc_metadata:
        at, pieces = 0, []
        for shard in made.shards_metadata:
            offsets = [at, *[0] * (len(shard.shard_sizes) - 1)]
            pieces.append(ShardMetadata(offsets, shard.shard_sizes, shard.placement))
            at += shard.shard_sizes[0]
        made.shards_metadata, made.size = pieces, torch.Size([at, *pieces[0].shard_sizes[1:]])
    validate_non_overlapping_shards_metadata(made.shards_metadata)
    check_tensor(made.shards_metadata, made.size)
    return made
