"""`DTensor`s of one value or of random numbers: ``torch.distributed.tensor.zeros`` and its like."""

from __future__ import annotations

import ftorch as torch

from ..device_mesh import _mesh_resources
from ._api import DTensor, _normalized
from ._redistribute import local_shape, move
from .placement_types import Replicate


def _factory(name):
    def make(
        *size,
        requires_grad=False,
        dtype=None,
        layout=torch.strided,
        device_mesh=None,
        placements=None,
    ):
        mesh = device_mesh or _mesh_resources.get_current_mesh()
        arguments = list(size)
        fill = [arguments.pop()] if name == "full" else []
        shape = arguments[0] if arguments and isinstance(arguments[0], (tuple, list)) else arguments
        shape = tuple(shape)
        placed = _normalized(placements or [Replicate()] * mesh.ndim, len(shape), mesh)
        with torch.no_grad():
            if name in ("rand", "randn"):
                whole = [Replicate()] * mesh.ndim
                local = move(getattr(torch, name)(shape, dtype=dtype), mesh, shape, whole, placed)
                if mesh.get_coordinate() is None:
                    local = local.new_empty(0)
            else:
                part = (
                    local_shape(shape, mesh, placed) if mesh.get_coordinate() is not None else [0]
                )
                local = getattr(torch, name)(part, *fill, dtype=dtype)
                if mesh._places is not None:
                    local = move(local, mesh, shape, [Replicate()] * mesh.ndim, placed)
        made = DTensor._made(local, mesh, placed, shape)
        return made.requires_grad_() if requires_grad else made

    make.__name__ = name
    make.__doc__ = f"`ftorch.{name}` over a mesh."
    return make


zeros, ones, empty = _factory("zeros"), _factory("ones"), _factory("empty")
rand, randn, _full = _factory("rand"), _factory("randn"), _factory("full")


def full(
    size,
    fill_value,
    *,
    dtype=None,
    layout=torch.strided,
    requires_grad=False,
    device_mesh=None,
    placements=None,
):
    """`ftorch.full` over a mesh."""
    return _full(
        tuple(size),
        fill_value,
        dtype=dtype,
        requires_grad=requires_grad,
        device_mesh=device_mesh,
        placements=placements,
    )
