"""Tensor parallelism within `FullyShardedDataParallel`: how parts of `DTensor`s are divided once more."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ...device_mesh import DeviceMesh
from .._api import DTensor, distribute_tensor
from ..placement_types import Replicate, Shard
from ._data_parallel_utils import _flatten_tensor, _unflatten_tensor

__all__ = ["DTensorExtensions"]


class FSDPExtensions(ABC):
    """What `FullyShardedDataParallel` asks of parameters that are not plain tensors."""

    @abstractmethod
    def pre_flatten_transform(self, tensor):
        """(the plain tensor to be divided, what `post_unflatten_transform` needs)"""
        ...

    @abstractmethod
    def post_unflatten_transform(self, tensor, param_extension):
        """The tensor again."""
        ...

    @abstractmethod
    def chunk_tensor(self, tensor, rank, world_size, num_devices_per_node, pg, device=None):
        """The tensor divided over a group."""
        ...

    @abstractmethod
    def chunk_dtensor(self, tensor, rank, device_mesh):
        """The tensor divided over a mesh, as a `DTensor`."""
        ...

    @abstractmethod
    def pre_load_state_dict_transform(self, tensor):
        """(a tensor that is loaded, its own parts)"""
        ...

    @abstractmethod
    def all_gather_dtensor(self, tensor, parent_mesh):
        """The whole of `chunk_dtensor`'s result, as far as the parent mesh divided it."""
        ...


class DTensorExtensions(FSDPExtensions):
    """`FSDPExtensions` of `DTensor`s."""

    def __init__(self, device_handle=None):
        self.compute_stream, self.device_handle = None, device_handle

    def pre_flatten_transform(self, tensor):
        """(the own part, how it lies)"""
        return _flatten_tensor(tensor)

    def post_unflatten_transform(self, tensor, param_extension):
        """The `DTensor`."""
        made = _unflatten_tensor(tensor, param_extension)
        made._fsdp_flattened = True
        return made

    def chunk_tensor(self, tensor, rank, world_size, num_devices_per_node, pg, device=None):
        """The own part of a tensor, divided along dimension 0 of a group's processes, as a `DTensor`."""
        local = tensor._local_tensor if isinstance(tensor, DTensor) else tensor
        mesh = DeviceMesh.from_group(pg, "cpu")
        return distribute_tensor(local.detach(), mesh, [Shard(0)], src_data_rank=None)

    def chunk_dtensor(self, tensor, rank, device_mesh):
        """A tensor divided along dimension 0 over the mesh dimension before the last.

        Raises:
            RuntimeError: unless the mesh is a part of one with at least two dimensions.
        """
        root = device_mesh._get_root_mesh() if device_mesh is not None else None
        if root is None:
            raise RuntimeError("No parent device_mesh is found for FSDP device_mesh.")
        if root.ndim < 2:
            raise RuntimeError(f"Found parent device_mesh of ndim={root.ndim},", "but meshes must be at least 2D.")
        whole = [Replicate()] * root.ndim
        target = list(whole)
        if isinstance(tensor, DTensor):
            whole[-1] = target[-1] = tensor.placements[0]
            target[-2] = Shard(0)
            tensor = tensor._local_tensor
        else:
            target[0] = Shard(0)
        made = DTensor.from_local(tensor.detach().clone(), root, whole, run_check=False)
        return made.redistribute(root, target)

    def pre_load_state_dict_transform(self, tensor):
        """(the `DTensor`, its own part)"""
        return tensor, [tensor._local_tensor] if isinstance(tensor, DTensor) else [tensor]

    def all_gather_dtensor(self, tensor, parent_mesh):
        """The own part with respect to the last mesh dimension alone."""
        if parent_mesh != tensor.device_mesh:
            raise AssertionError("the tensor lies on another mesh")
        wanted = [Replicate()] * (len(tensor.placements) - 1) + [tensor.placements[-1]]
        return tensor.redistribute(tensor.device_mesh, wanted).to_local()
