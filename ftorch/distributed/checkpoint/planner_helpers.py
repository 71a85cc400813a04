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


def _create_chunk_from_tensor(tensor) -> ChunkStorageMetadata:
    """A tensor as its only part."""
    return ChunkStorageMetadata(torch.Size([0] * tensor.dim()), torch.Size(tensor.shape))


def _create_chunk_list(tensor) -> list[ChunkStorageMetadata]:
    """The parts of a tensor that this process has."""
    if hasattr(tensor, "__create_chunk_list__"):
        return tensor.__create_chunk_list__()
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"Unsupported Type, expecting one of [Tensor, DTensor, ShardedTensor], but got {type(tensor)}")
    return [_create_chunk_from_tensor(tensor)]


def _create_write_item(fqn, tensor, chunk, kind) -> WriteItem:
    properties = TensorProperties.create_from_tensor(tensor)
    return WriteItem(
        MetadataIndex(fqn, chunk.offsets), kind, tensor_data=TensorWriteData(chunk, properties, torch.Size(tensor.shape))
    )


def _create_write_item_for_tensor(fqn: str, tensor) -> WriteItem:
    """The item of a whole tensor."""
    return _create_write_item(fqn, tensor, _create_chunk_from_tensor(tensor), WriteItemType.TENSOR)


def _create_write_item_for_bytesio(fqn: str, bytes: Any) -> WriteItem:
    """The item of a value that is no tensor."""
    return WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)


def _create_write_items_for_dtensor(fqn: str, tensor) -> WriteItem:
    """The item of the part of a divided tensor that is here."""
    return _create_write_item(fqn, tensor, _create_chunk_list(tensor)[0], WriteItemType.SHARD)


def _create_write_items(fqn: str, object: Any) -> list[WriteItem]:
    """The items of a value: of a divided tensor the parts that are here and not empty."""
    if hasattr(object, "__create_write_items__"):
        return object.__create_write_items__(fqn, object)
    if not isinstance(object, torch.Tensor):
        return [_create_write_item_for_bytesio(fqn, object)]
    kind = WriteItemType.SHARD if isinstance(object, DTensor) else WriteItemType.TENSOR
    chunks = [chunk for chunk in _create_chunk_list(object) if all(chunk.sizes) or not object.numel()]
    return [_create_write_item(fqn, object, chunk, kind) for chunk in chunks]


def _create_default_metadata_only_plan(state_dict) -> SavePlan:
    """The plan of one process that has everything."""
    return SavePlan([item for key, value in state_dict.items() for item in _create_write_items(key, value)])


def _create_read_item_for_byteio(dest_index, dest_offset, storage_index, storage_offset, length) -> ReadItem:
    """The item that reads a value that is no tensor."""
    return ReadItem(
        LoadItemType.BYTE_IO, dest_index, torch.Size((dest_offset,)), storage_index, torch.Size((storage_offset,)),
        torch.Size((length,)),
    )


def _create_read_item_for_tensor(dest_index, dest_offsets, storage_index, storage_offsets, lengths) -> ReadItem:
    """The item that reads a part of a tensor."""
    return ReadItem(
        LoadItemType.TENSOR, dest_index, torch.Size(dest_offsets), storage_index, torch.Size(storage_offsets),
        torch.Size(lengths),
    )


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
            items.append(_create_read_item_for_tensor(
                MetadataIndex(fqn, wanted.offsets, i),
                [b - o for b, o in zip(begin, wanted.offsets)],
                MetadataIndex(fqn, saved.offsets, j),
                [b - o for b, o in zip(begin, saved.offsets)],
                [e - b for b, e in zip(begin, end)],
            ))
    return items


def _create_read_items(fqn: str, md, obj: Any) -> list[ReadItem]:
    """The items that read a value."""
    if isinstance(md, BytesStorageMetadata):
        return [_create_read_item_for_byteio(MetadataIndex(fqn), 0, MetadataIndex(fqn), 0, 0)]
    try:
        chunks = _create_chunk_list(obj)
    except ValueError as error:
        raise ValueError(
            f"Invalid checkpoint metadata for {fqn}, expected BytesStorageMetadata but found {type(md)}"
        ) from error
    return create_read_items_for_chunk_list(fqn, md, chunks)
