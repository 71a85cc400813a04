"""Pieces of tensors by their metadata."""

from __future__ import annotations

DEPRECATE_MSG = "Please use DTensor instead and we are deprecating ShardedTensor."


def narrow_tensor_by_index(tensor, offsets, sizes):
    """The box of a tensor that begins at offsets and has sizes: a view, or the tensor itself."""
    for dim, (offset, size) in enumerate(zip(offsets, sizes)):
        if size < tensor.size(dim):
            tensor = tensor.narrow(dim, offset, size)
    return tensor


def narrow_tensor(tensor, metadata):
    """The piece of a tensor that a `ShardMetadata` says."""
    return narrow_tensor_by_index(tensor, metadata.shard_offsets, metadata.shard_sizes)
