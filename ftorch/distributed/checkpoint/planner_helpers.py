"""Items of plans for values (``torch.distributed.checkpoint.planner_helpers``)."""

from __future__ import annotations

from typing import Any

import ftorch as torch

from ..tensor import DTensor
from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import (
    LoadItemType,
    ReadItem,
    SavePlan,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from .resharding import _shared

__all__ = ["create_read_items_for_chunk_list"]


def _create_chunk_list(tensor) -> list[ChunkStorageMetadata]:
    """The parts of a tensor that this process has."""
    if hasattr(tensor, "__create_chunk_list__"):
        return tensor.__create_chunk_list__()
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"Unsupported Type, expecting one of [Tensor, DTensor, ShardedTensor], but got {type(tensor)}")
    return [ChunkStorageMetadata(torch.Size([0] * tensor.dim()), torch.Size(tensor.shape))]


def _create_write_items(fqn: str, object: Any) -> list[WriteItem]:
    """The items of a value: of a divided tensor the parts that are here and not empty."""
    if hasattr(object, "__create_write_items__"):
        return object.__create_write_items__(fqn, object)
    if not isinstance(object, torch.Tensor):
        return [WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)]
    kind = WriteItemType.SHARD if isinstance(object, DTensor) else WriteItemType.TENSOR
    properties, size = TensorProperties.create_from_tensor(object), torch.Size(object.shape)
    return [
        WriteItem(
            MetadataIndex(fqn, chunk.offsets), kind, tensor_data=TensorWriteData(chunk, properties, size)
        )
        for chunk in _create_chunk_list(object)
        if all(chunk.sizes) or not object.numel()
    ]


def _create_default_metadata_only_plan(state_dict) -> SavePlan:
    """The plan of one process that has everything."""
    return SavePlan([item for key, value in state_dict.items() for item in _create_write_items(key, value)])


def create_read_items_for_chunk_list(
    fqn: str, checkpoint_md: TensorStorageMetadata, local_chunks: list[ChunkStorageMetadata]
) -> list[ReadItem]:
    """Items that fill the parts of a tensor that are here from those that were saved.

    Args:
        checkpoint_md: what the index says of the tensor.
        local_chunks: the parts that are here.
    """
    items = []
    for i, wanted in enumerate(local_chunks):
        for j, saved in enumerate(checkpoint_md.chunks):
            shared = _shared(saved, wanted)
            if shared is None:
                continue
            begin, end = shared
            items.append(ReadItem(
                LoadItemType.TENSOR,
                MetadataIndex(fqn, wanted.offsets, i),
                torch.Size([b - o for b, o in zip(begin, wanted.offsets)]),
                MetadataIndex(fqn, saved.offsets, j),
                torch.Size([b - o for b, o in zip(begin, saved.offsets)]),
                torch.Size([e - b for b, e in zip(begin, end)]),
            ))
    return items


def _create_read_items(fqn: str, md, obj: Any) -> list[ReadItem]:
    """The items that read a value."""
    if isinstance(md, BytesStorageMetadata):
        nothing = torch.Size([0])
        index = MetadataIndex(fqn)
        return [ReadItem(LoadItemType.BYTE_IO, index, nothing, index, nothing, nothing)]
    try:
        chunks = _create_chunk_list(obj)
    except ValueError as error:
        raise ValueError(
            f"Invalid checkpoint metadata for {fqn}, expected BytesStorageMetadata but found {type(md)}"
        ) from error
    return create_read_items_for_chunk_list(fqn, md, chunks)
