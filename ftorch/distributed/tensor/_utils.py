"""Where a rank's part of a sharded tensor lies (``torch.distributed.tensor._utils``)."""

from __future__ import annotations

from .placement_types import Shard


def compute_local_shape_and_global_offset(global_shape, mesh, placements):
    """The shape of this rank's part of a tensor, and where it begins in the whole.

    Args:
        global_shape: of the whole tensor.
        mesh: the device mesh; placements: one for each of its dimensions.

    Returns:
        (shape, offset), as tuples; empty ones for a rank outside the mesh.
    """
    place = mesh.get_coordinate()
    if place is None:
        return (0,), ()
    shape, offset = list(global_shape), [0] * len(global_shape)
    for dim, placement in enumerate(placements):
        if isinstance(placement, Shard):
            d = placement.dim % max(len(shape), 1)
            size, start = Shard.local_shard_size_and_offset(shape[d], mesh.size(dim), place[dim])
            shape[d] = size
            offset[d] += start
    return tuple(shape), tuple(offset)


def compute_local_shape(global_shape, mesh, placements):
    """The shape of this rank's part."""
    return compute_local_shape_and_global_offset(global_shape, mesh, placements)[0]
