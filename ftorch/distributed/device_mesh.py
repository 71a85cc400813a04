"""Processes or devices in a grid (``torch.distributed.device_mesh``)."""

from __future__ import annotations

import math
import threading

import ftorch as torch

from . import _local_devices
from . import distributed_c10d as dist

__all__ = ["DeviceMesh", "init_device_mesh"]


class _MeshEnv(threading.local):
    """The meshes of ``with mesh:``."""

    def __init__(self):
        self.mesh_stack: list = []

    def get_current_mesh(self):
        """The innermost one. Raises RuntimeError if there is none."""
        if not self.mesh_stack:
            raise RuntimeError("No device mesh is currently active!")
        return self.mesh_stack[-1]


_mesh_resources = _MeshEnv()


class DeviceMesh:
    """A grid of processes; each row along a dimension is a group (``torch.distributed.DeviceMesh``).

    In a process that is alone it is a grid of JAX's devices, if there are as many (`ftorch.distributed._local_devices`).

    Args:
        device_type: ``"cpu"`` or ``"cuda"``.
        mesh: ranks of the default group, as nested lists or a tensor of integers.
        mesh_dim_names: a name for each dimension.

    Raises:
        ValueError: for names that are not different, or a mesh with more ranks than processes.
    """

    def __init__(self, device_type: str, mesh, *, mesh_dim_names=None, backend_override=None,
                 _init_backend: bool = True, _rank=None, _root=None, _groups=None, _places=None):
        self.device_type = device_type
        grid = mesh if isinstance(mesh, torch.Tensor) else torch.tensor(mesh, dtype=torch.int32)
        self.mesh = grid.detach().to(torch.int32)
        self._shape, self._flat = tuple(self.mesh.shape), self.mesh.reshape(-1).tolist()
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names is not None else None
        if self.mesh_dim_names is not None:
            if len(set(self.mesh_dim_names)) != len(self.mesh_dim_names):
                raise RuntimeError(
                    f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in {mesh_dim_names}"
                )
            if len(self.mesh_dim_names) != self.mesh.ndim:
                raise RuntimeError("mesh_shape and mesh_dim_names should have same length")
        self._root = _root
        self._flattened: dict[str, DeviceMesh] = {}
        self._places: _local_devices.Places | None = _places
        if _init_backend and _groups is None and _places is None:
            self._places = _local_devices.found(device_type, self._shape, self.mesh_dim_names)
        if self._places is not None:
            self._coordinate, self._groups = [0] * self.mesh.ndim, None
            return
        if not dist.is_initialized() and _init_backend:
            dist.init_process_group()
        rank = dist.get_rank() if dist.is_initialized() else 0
        if _init_backend and _groups is None:
            size = dist.get_world_size()
            if len(self._flat) > size:
                raise RuntimeError(
                    f"Mesh should not be bigger than default world size {size}, but found "
                    f"{len(self._flat)} ranks!"
                )
        if len(set(self._flat)) != len(self._flat):
            raise RuntimeError(f"DeviceMesh cannot have duplicate values, but found {self._flat}")
        self._coordinate = self._place(rank)
        self._groups = _groups
        if _groups is None and _init_backend:
            self._groups = [self._make_group(d) for d in range(self.mesh.ndim)]

    def _place(self, rank):
        if rank not in self._flat:
            return None
        index, place = self._flat.index(rank), []
        for size in reversed(self._shape):
            place.insert(0, index % size)
            index //= size
        return place

    def _rows(self, dim):
        """The ranks of each row along a dimension."""
        moved = self.mesh.movedim(dim, -1).reshape(-1, self._shape[dim])
        return moved.tolist()

    def _make_group(self, dim):
        rows = self._rows(dim)
        world = dist.group.WORLD
        if len(rows) == 1 and rows[0] == list(range(dist.get_world_size())):
            return world
        mine = None
        name = self.mesh_dim_names[dim] if self.mesh_dim_names else f"dim_{dim}"
        for ranks in rows:  # all processes make all groups, in one order
            if sorted(ranks) != ranks:
                made = dist.new_group(sorted(ranks), group_desc=f"mesh_{name}")
            else:
                made = dist.new_group(ranks, group_desc=f"mesh_{name}")
            if dist.get_rank() in ranks:
                mine = made
        return mine

    def __reduce__(self):
        return _remade, (self.device_type, self.mesh.tolist(), self.mesh_dim_names)

    def __deepcopy__(self, memo):
        return self

    # --- what it is ---

    @property
    def shape(self):
        """The number of processes along each dimension."""
        return self._shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of processes, or that along a dimension."""
        return math.prod(self._shape) if mesh_dim is None else self._shape[mesh_dim]

    def get_rank(self) -> int:
        """The calling process' rank in the default group."""
        return dist.get_rank() if self._places is None else 0

    def get_coordinate(self) -> tuple[int, ...] | None:
        """The calling process' place in the mesh; None if it is not in it."""
        return tuple(self._coordinate) if self._coordinate is not None else None

    def _dim(self, mesh_dim, *hints) -> int:
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions",
                    "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.", *hints,
                )
            return 0
        if isinstance(mesh_dim, str):
            if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
                raise KeyError(
                    f"Invalid mesh_dim_name {mesh_dim}. Valid mesh_dim_names are {self.mesh_dim_names}"
                )
            return self.mesh_dim_names.index(mesh_dim)
        return mesh_dim

    def get_local_rank(self, mesh_dim=None) -> int:
        """The calling process' place along a dimension (by number or name)."""
        dim = self._dim(mesh_dim)
        if self._coordinate is None:
            raise RuntimeError("the calling process is not part of the mesh")
        return self._coordinate[dim]

    def get_group(self, mesh_dim=None):
        """The group of the calling process' row along a dimension (by number or name)."""
        if self._groups is None:
            if self._places is not None:
                raise RuntimeError(
                    "DeviceMesh process groups not initialized! The mesh lies over the devices of this process: "
                    "redistribute DTensors, or start a process for each place (torchrun)."
                )
            raise RuntimeError("DeviceMesh process groups not initialized!")
        return self._groups[self._dim(
            mesh_dim,
            "If you want to get the list of all the ProcessGroups in the DeviceMesh,please use `get_all_groups()` instead.",
        )]

    def get_all_groups(self) -> list:
        """The groups of all dimensions."""
        return [self.get_group(d) for d in range(self.ndim)]

    # --- parts ---

    def __getitem__(self, names) -> DeviceMesh:
        """The mesh of some dimensions by name, through the calling process' place in the others.

        Raises:
            KeyError: for unknown names, or another order of dimensions that have several ranks.
            RuntimeError: for names that come twice.
        """
        if self.mesh_dim_names is None:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (names,) if isinstance(names, str) else tuple(names)
        if names == self.mesh_dim_names:
            return self
        if len(names) == 1 and names[0] in self._flattened:
            return self._flattened[names[0]]
        unknown = [n for n in names if n not in self.mesh_dim_names]
        if unknown:
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. "
                f"Valid mesh_dim_names are {[*self.mesh_dim_names, *self._flattened]}."
            )
        dims = [self.mesh_dim_names.index(n) for n in names]
        if len(set(dims)) < len(dims):
            raise RuntimeError(f"Slicing overlapping dim_names {names} is not allowed.")
        wide = [d for d in dims if self.mesh.shape[d] != 1]
        if wide != sorted(wide):
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. Mesh dim indices should be in ascending order."
            )
        return self._slice(dims, names)

    def _slice(self, dims, names):
        others = [d for d in range(self.ndim) if d not in dims]
        place = self._coordinate or [0] * self.ndim
        part = self.mesh.permute(*others, *dims)
        for d in others:
            part = part[place[d]]
        groups = [self._groups[d] for d in dims] if self._groups is not None else None
        return DeviceMesh(self.device_type, part, mesh_dim_names=names, _init_backend=False,
                          _root=self._root or self, _groups=groups,
                          _places=None if self._places is None else self._places.of(dims))

    def _flatten(self, mesh_dim_name: str | None = None, backend_override=None) -> DeviceMesh:
        """The mesh as one dimension, kept under its name."""
        root = self._root or self
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        if name in root._flattened:
            return root._flattened[name]
        if self._places is not None:
            flat = root._flattened[name] = DeviceMesh(
                self.device_type, self.mesh.reshape(-1), mesh_dim_names=(name,), _init_backend=False, _root=root,
                _places=self._places.flat(),
            )
            return flat
        if root is self:
            rows = [self._flat]
        else:
            dims = [root.mesh_dim_names.index(n) for n in self.mesh_dim_names]
            others = [d for d in range(root.ndim) if d not in dims]
            rows = root.mesh.permute(*others, *dims).reshape(-1, len(self._flat)).tolist()
        mine = None
        for ranks in rows:
            made = dist.new_group(ranks, group_desc=f"mesh_{name}")
            if dist.get_rank() in ranks:
                mine = made
        flat = DeviceMesh(self.device_type, self.mesh.reshape(-1), mesh_dim_names=(name,),
                          _init_backend=False, _root=root, _groups=[mine])
        root._flattened[name] = flat
        return flat

    def _unflatten(self, dim: int | str, mesh_sizes: tuple[int, ...], mesh_dim_names: tuple[str, ...],
                   backend_override=None) -> DeviceMesh:
        """The mesh with one dimension as several. All processes call it.

        Raises:
            ValueError: for an unknown dimension, or sizes whose product is not its size.
            RuntimeError: for another number of names.
        """
        if isinstance(dim, int) and dim >= self.ndim:
            raise ValueError(f"dim {dim} specified in `_unflatten` is out of range {self.ndim}")
        if isinstance(dim, str) and dim not in (self.mesh_dim_names or ()):
            raise ValueError(f"dim {dim} specified in `_unflatten` is not in {self.mesh_dim_names}")
        if len(mesh_sizes) != len(mesh_dim_names):
            raise RuntimeError("mesh_dim_names must have same length as mesh_sizes in _unflatten!")
        place = self._dim(dim) % self.ndim
        if math.prod(mesh_sizes) != self._shape[place]:
            raise ValueError(
                f"The product of mesh_sizes={tuple(mesh_sizes)} is {math.prod(mesh_sizes)}, but the original "
                f"dimension at dim={place} has size {self._shape[place]}. These must be equal for unflatten to "
                "work correctly."
            )
        shape = (*self._shape[:place], *mesh_sizes, *self._shape[place + 1 :])
        old = self.mesh_dim_names or tuple(f"dim_{d}" for d in range(self.ndim))
        names = (*old[:place], *mesh_dim_names, *old[place + 1 :])
        if self._places is not None:
            return DeviceMesh(self.device_type, self.mesh.reshape(shape), mesh_dim_names=names)
        made = DeviceMesh(self.device_type, self.mesh.reshape(shape), mesh_dim_names=names, _init_backend=False,
                          _root=self._root)
        if self._groups is not None:
            new = [made._make_group(place + i) for i in range(len(mesh_sizes))]
            made._groups = [*self._groups[:place], *new, *self._groups[place + 1 :]]
        return made

    @staticmethod
    def _concatenate(device_mesh_list: list[DeviceMesh]) -> DeviceMesh:
        """The mesh of the dimensions of several parts of one mesh, in their order.

        Raises:
            RuntimeError: for parts of different meshes.
        """
        roots = {id(m._root or m): m._root or m for m in device_mesh_list}
        if len(roots) != 1:
            raise RuntimeError("Cannot concatenate DeviceMeshes derived from different device meshs")
        (root,) = roots.values()
        names = tuple(n for m in device_mesh_list for n in m.mesh_dim_names or ())
        if names == root.mesh_dim_names:
            return root
        if root._places is not None:
            axes = tuple(axes for m in device_mesh_list for axes in m._places.axes)
            places, groups = _local_devices.Places(root._places.jax_mesh, axes), None
        else:
            places, groups = None, [g for m in device_mesh_list for g in m._groups or ()]
        # Steps along different dimensions of the root add up.
        position = {rank: i for i, rank in enumerate(root._flat)}
        own = position[root._flat[0] if root._coordinate is None else torch.distributed.get_rank()] if places is None else 0
        steps = torch.zeros((), dtype=torch.int64)
        for m in device_mesh_list:
            found = torch.tensor([position[r] - own for r in m._flat]).reshape(m._shape)
            steps = steps.reshape(*steps.shape, *[1] * found.dim()) + found
        ranks = [root._flat[own + s] for s in steps.reshape(-1).tolist()]
        return DeviceMesh(root.device_type, torch.tensor(ranks, dtype=torch.int32).reshape(tuple(steps.shape)),
                          mesh_dim_names=names, _init_backend=False, _root=root, _groups=groups, _places=places)

    def _get_root_mesh(self) -> DeviceMesh:
        return self._root or self

    def _get_all_submeshes(self, mesh_dim_name: str) -> list:
        dim = self._dim(mesh_dim_name)
        return [
            DeviceMesh(self.device_type, ranks, mesh_dim_names=(mesh_dim_name,), _init_backend=False,
                       _groups=[self._groups[dim]])
            for ranks in self._rows(dim)
        ]

    @staticmethod
    def from_group(group, device_type: str, mesh=None, *, mesh_dim_names=None) -> DeviceMesh:
        """A mesh of existing groups, one for each dimension."""
        if not isinstance(group, list):
            ranks = dist.get_process_group_ranks(group)
            if mesh is not None and list(torch.tensor(mesh).reshape(-1).tolist()) != ranks:
                raise ValueError(f"Invalid mesh {mesh} for ProcessGroup with ranks {ranks}")
            return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, _init_backend=False,
                              _groups=[group])
        if not group:
            raise ValueError("Expect at least one ProcessGroup to be specified")
        if mesh is None:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False,
                          _groups=list(group))

    # --- Python's protocols ---

    def __enter__(self):
        _mesh_resources.mesh_stack.append(self)
        return self

    def __exit__(self, *_):
        _mesh_resources.mesh_stack.pop()

    def __repr__(self):
        shape = self._shape
        if self.mesh_dim_names:
            inner = ", ".join(f"{n}={s}" for n, s in zip(self.mesh_dim_names, shape))
        else:
            inner = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        return f"DeviceMesh(({inner}), '{self.device_type}', stride={_strides(self.mesh)})"

    def __hash__(self):
        return hash((tuple(self._flat), self._shape, self.device_type, self.mesh_dim_names))

    def __eq__(self, other):
        if self is other:
            return True
        return isinstance(other, DeviceMesh) and (
            self._flat == other._flat and self._shape == other._shape
            and self.device_type == other.device_type and self.mesh_dim_names == other.mesh_dim_names
        )

    def jax(self, devices=None):
        """The ``jax.sharding.Mesh`` of the same shape over JAX's devices (as many as it has places)."""
        import jax
        import numpy as np

        if self._places is not None and devices is None and self._root is None:
            return self._places.jax_mesh
        devices = list(devices or jax.devices(self.device_type if self.device_type != "cuda" else "gpu"))
        if len(devices) < self.size():
            raise RuntimeError(f"the mesh has {self.size()} places, JAX {len(devices)} devices")
        names = self.mesh_dim_names or tuple(f"dim_{d}" for d in range(self.ndim))
        return jax.sharding.Mesh(np.array(devices)[: self.size()].reshape(self._shape), names)


def _strides(mesh):
    return tuple(() if n == 1 else s for n, s in zip(mesh.shape, mesh.stride()))  # as PyTorch's layouts write it


def _remade(kind, ranks, names):
    return DeviceMesh(kind, ranks, mesh_dim_names=names)


def init_device_mesh(device_type: str, mesh_shape, *, mesh_dim_names=None, backend_override=None):
    """A mesh of all processes in their order (``torch.distributed.init_device_mesh``).

    Raises:
        RuntimeError: for a device type with an index, or a mesh of another number of processes.

    >>> import ftorch as torch
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,), mesh_dim_names=("data",))
    >>> mesh["data"].get_local_rank()
    0
    >>> dist.destroy_process_group()
    """
    mesh_shape = tuple(mesh_shape)
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                "Each mesh_dim_name must be unique. "
                f"Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}",
            )
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! "
                f"Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}.",
            )
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )
    ranks = torch.arange(math.prod(mesh_shape), dtype=torch.int32).view(mesh_shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)
