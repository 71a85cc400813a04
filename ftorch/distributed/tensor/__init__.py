"""Tensors over several processes (``torch.distributed.tensor``)."""

from ...serialization import add_safe_globals as _add_safe_globals
from ..device_mesh import DeviceMesh, _remade, init_device_mesh
from . import placement_types
from ._api import (
    DTensor,
    _rebuilt,
    distribute_module,
    distribute_tensor,
)
from ._dtensor_spec import DTensorSpec, TensorMeta
from ._factories import empty, full, ones, rand, randn, zeros
from .placement_types import NormPartial, Partial, Placement, Replicate, Shard, _StridedShard

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
    "distribute_tensor", "empty", "full", "init_device_mesh", "ones", "placement_types", "rand", "randn",
    "zeros",
]

_add_safe_globals([  # what files of a `DTensor` name
    DeviceMesh, DTensor, DTensorSpec, NormPartial, Partial, Replicate, Shard, TensorMeta, _StridedShard, _rebuilt, _remade,
])
