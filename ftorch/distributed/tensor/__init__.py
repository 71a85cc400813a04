"""Tensors over several processes (``torch.distributed.tensor``)."""

from ..device_mesh import DeviceMesh, init_device_mesh
from . import placement_types
from ._api import (
    DTensor,
    distribute_module,
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
    "distribute_tensor", "empty", "full", "init_device_mesh", "ones", "placement_types", "rand", "randn",
    "zeros",
]
