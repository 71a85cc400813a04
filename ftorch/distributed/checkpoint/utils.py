"""Values of state dicts by their indices (``torch.distributed.checkpoint.utils``)."""

from __future__ import annotations

from typing import Any

import ftorch as torch

from ..tensor import DTensor
from .metadata import MetadataIndex

__all__ = ["find_state_dict_object", "find_tensor_shard"]


def find_tensor_shard(tensor, index: MetadataIndex):
    """The part of a tensor that an index names.

    Raises:
        ValueError: if the tensor is whole and the index names another part.
    """
    if hasattr(tensor, "__get_tensor_shard__"):
        return tensor.__get_tensor_shard__(index)
    if isinstance(tensor, DTensor):
        return tensor._local_tensor
    if index.offset is not None and any(index.offset):
        raise ValueError(f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'")
    return tensor


def find_state_dict_object(state_dict: dict, index: MetadataIndex) -> Any:
    """The value that an index names: of a divided tensor the part that is here.

    Raises:
        ValueError: if there is none.
    """
    if index.fqn not in state_dict:
        raise ValueError(f"Could not find FQN: '{index.fqn}'")
    value = state_dict[index.fqn]
    if isinstance(value, torch.Tensor):
        return find_tensor_shard(value, index)
    if index.offset is not None:
        raise ValueError(f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'")
    return value
