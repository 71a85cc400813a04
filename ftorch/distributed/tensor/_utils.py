"""Where a rank's part of a sharded tensor lies (``torch.distributed.tensor._utils``)."""

from __future__ import annotations

from ._api import _normalized
from ._explicit import ExplicitRedistributionContext, logger  # noqa: F401
from ._redistribute import local_shape, offsets


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
    placed = _normalized(placements, len(global_shape), mesh)
    return tuple(local_shape(global_shape, mesh, placed)), tuple(offsets(global_shape, mesh, placed))


def compute_local_shape(global_shape, mesh, placements):
    """The shape of this rank's part."""
    return compute_local_shape_and_global_offset(global_shape, mesh, placements)[0]
