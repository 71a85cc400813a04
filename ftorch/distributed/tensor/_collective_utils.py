"""Collectives along a dimension of a mesh, and what redistributions cost (``torch.distributed.tensor._collective_utils``)."""

from __future__ import annotations

import ftorch as torch

from .. import distributed_c10d as dist
from ._choices import placement_cost

__all__ = [
    "fill_empty_tensor_to_shards", "mesh_broadcast", "mesh_scatter", "pad_tensor", "redistribute_cost", "spec_to_bytes",
    "unpad_tensor",
]


def mesh_scatter(output, scatter_list, mesh, mesh_dim: int = 0, async_op: bool = False, *, group_src: int = 0):
    """Gives each process of a row of a mesh its tensor of ``scatter_list``; returns the handle with ``async_op``.

    Args:
        group_src: whose list is taken: a rank within the row.
    """
    if output.is_meta:
        return None
    group = mesh.get_group(mesh_dim)
    given = list(scatter_list) if dist.get_rank(group) == group_src else None
    return dist.scatter(output, given, group=group, async_op=async_op, group_src=group_src)


def mesh_broadcast(tensor, mesh, mesh_dim: int = 0, async_op: bool = False, *, group_src: int = 0):
    """Gives a tensor to all processes of a row of a mesh; returns the handle with ``async_op``."""
    if tensor.is_meta:
        return None
    return dist.broadcast(tensor, group=mesh.get_group(mesh_dim), async_op=async_op, group_src=group_src)


def pad_tensor(tensor, pad_dim: int, pad_size: int):
    """A tensor with ``pad_size`` zeros more along a dimension.

    >>> import ftorch as torch
    >>> from ftorch.distributed.tensor._collective_utils import pad_tensor, unpad_tensor
    >>> unpad_tensor(pad_tensor(torch.ones(2), 0, 3), 0, 1)
    tensor([1., 1., 0., 0.])
    """
    if pad_size == 0:
        return tensor
    widths = [0, 0] * (tensor.dim() - pad_dim)
    widths[-1] = pad_size
    return torch.nn.functional.pad(tensor, widths)


def unpad_tensor(tensor, pad_dim: int, pad_size: int):
    """A tensor without its last ``pad_size`` elements along a dimension."""
    return tensor if pad_size == 0 else tensor.narrow(pad_dim, 0, tensor.size(pad_dim) - pad_size)


def fill_empty_tensor_to_shards(shards: list, shard_dim: int, num_empty_tensors: int) -> list:
    """A list of parts with empty ones behind."""
    if num_empty_tensors:
        shape = list(shards[0].shape)
        shape[shard_dim] = 0
        shards.extend(shards[0].new_zeros(shape) for _ in range(num_empty_tensors))
    return shards


def spec_to_bytes(spec) -> int:
    """The size of the whole tensor."""
    return spec.dtype.itemsize * torch.Size(spec.shape).numel()


def redistribute_cost(current_spec, target_spec) -> float:
    """What it costs to move a tensor from one spec to another, in microseconds of a network that is as fast as one expects.

    Nothing where all have all of it, infinitely much between meshes.
    """
    if current_spec.mesh != target_spec.mesh:
        return float("inf")
    return placement_cost(
        current_spec.placements, target_spec.placements, tuple(current_spec.mesh.shape), spec_to_bytes(current_spec)
    )
