"""Mesh, placements and shape of a `DTensor` (``torch.distributed.tensor._dtensor_spec``)."""

from __future__ import annotations

from typing import Any, NamedTuple

from .placement_types import Partial, Replicate, Shard, divides

__all__ = ["DTensorSpec", "ShardOrderEntry", "TensorMeta"]


class TensorMeta(NamedTuple):
    """Shape, strides and dtype of a whole tensor."""

    shape: Any
    stride: tuple[int, ...]
    dtype: Any


class ShardOrderEntry(NamedTuple):
    """The dimensions of a mesh that divide a dimension of a tensor, in the order in which they do."""

    tensor_dim: int
    mesh_dims: tuple[int, ...]


class DTensorSpec:
    """Where a tensor lies: a mesh, a placement for each of its dimensions, and what the whole tensor is.

    Args:
        mesh: the mesh; placements: one for each of its dimensions.
        tensor_meta: shape, strides and dtype, where they are known.

    Properties that need the shape raise ValueError without one.

    >>> import ftorch as torch
    >>> from ftorch.distributed.tensor import Replicate, Shard, distribute_tensor
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1, 1))
    >>> spec = distribute_tensor(torch.zeros(4, 2), mesh, [Replicate(), Shard(1)])._spec
    >>> print(spec, spec.dim_map, spec.num_shards_map)
    Spec(f32[4, 2](RS(1))) [-1, 1] [1, 1]
    >>> dist.destroy_process_group()
    """

    __slots__ = ("mesh", "placements", "tensor_meta")

    def __init__(self, mesh, placements, tensor_meta: TensorMeta | None = None):
        self.mesh, self.placements, self.tensor_meta = mesh, tuple(placements), tensor_meta

    def __eq__(self, other):
        return isinstance(other, DTensorSpec) and (self.mesh, self.placements, self.tensor_meta) == (
            other.mesh, other.placements, other.tensor_meta,
        )

    def __hash__(self):
        return hash((self.mesh, self.placements, self.tensor_meta))

    def __repr__(self):
        return (
            f"DTensorSpec(mesh={self.mesh!r}, placements={self.placements!r}, tensor_meta={self.tensor_meta!r}, "
            f"shard_order={self.shard_order!r})"
        )

    def __str__(self):
        placed = "".join(map(str, self.placements))
        if self.tensor_meta is None:
            return f"Spec(unknown({placed}))"
        name = str(self.tensor_meta.dtype).partition(".")[2].replace("bool", "b8")
        kind = name.replace("complex", "c").replace("uint", "u").replace("int", "i").replace("float", "f")
        return f"Spec({kind}[{', '.join(map(str, self.tensor_meta.shape))}]({placed}))"

    def _known(self) -> TensorMeta:
        if self.tensor_meta is None:
            raise ValueError("tensor_meta is not set")
        return self.tensor_meta

    @property
    def device_mesh(self):
        """The mesh."""
        return self.mesh

    @property
    def shape(self):
        """The shape of the whole tensor."""
        return self._known().shape

    @property
    def stride(self) -> tuple[int, ...]:
        """Its strides."""
        return self._known().stride

    @property
    def dtype(self):
        """Its dtype."""
        return self._known().dtype

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self._known().shape)

    @property
    def num_shards(self) -> int:
        """In how many parts it is divided."""
        count = 1
        for m, p in enumerate(self.placements):
            if divides(p):
                count *= self.mesh.size(m)
        return count

    @property
    def dim_map(self) -> list[int]:
        """For each dimension of the tensor that of the mesh which divides it, or -1.

        Raises:
            ValueError: two of them divide one.
        """
        found = [-1] * self.ndim
        for m, p in enumerate(self.placements):
            if not divides(p):
                continue
            if found[p.dim] >= 0:
                raise ValueError(
                    f"Tensor dim {p.dim} is already sharded on mesh dim {found[p.dim]}, DTensor operator implementation "
                    "does not support things like hybrid sharding strategies yet (i.e. [Shard(0), Shard(0)])"
                )
            found[p.dim] = m
        return found

    @property
    def num_shards_map(self) -> list[int]:
        """For each dimension of the tensor in how many parts it is divided."""
        counts = [1] * self.ndim
        for m, p in enumerate(self.placements):
            if divides(p):
                counts[p.dim] *= self.mesh.size(m)
        return counts

    @property
    def shard_order(self) -> tuple[ShardOrderEntry, ...]:
        """By which dimensions of the mesh each divided dimension is, in order."""
        order: dict[int, tuple[int, ...]] = {}
        for m, p in enumerate(self.placements):
            if divides(p):
                order[p.dim] = (*order.get(p.dim, ()), m)
        return tuple(ShardOrderEntry(dim, order[dim]) for dim in sorted(order))

    @property
    def sums(self) -> list[int]:
        """The dimensions of the mesh on which it is a sum of terms."""
        return [m for m, p in enumerate(self.placements) if p.is_partial()]

    @classmethod
    def from_dim_map(cls, mesh, dim_map: list[int], sums: list[int], tensor_meta: TensorMeta | None = None):
        """The spec of a `dim_map` and `sums`.

        Raises:
            RuntimeError: they use a dimension of the mesh twice.
        """
        placed: list = [Replicate() for _ in range(mesh.ndim)]
        for m in sums:
            placed[m] = Partial()
        for dim, m in enumerate(dim_map):
            if m < 0:
                continue
            if divides(placed[m]):
                raise RuntimeError(
                    f"DeviceMesh dimension can't be mapped to two dimension of the same tensor: {dim} and {placed[m].dim}"
                )
            if placed[m].is_partial():
                raise RuntimeError(f"DeviceMesh dimension {m} cannot be both shard and partial!")
            placed[m] = Shard(dim)
        return cls(mesh, tuple(placed), tensor_meta)

    def is_replicated(self) -> bool:
        """Whether every process has all of it."""
        return all(p.is_replicate() for p in self.placements)

    def is_sharded(self) -> bool:
        """Whether a dimension is divided."""
        return any(divides(p) for p in self.placements)

    def shallow_copy_with_tensor_meta(self, tensor_meta: TensorMeta | None) -> DTensorSpec:
        """The same placements of another tensor.

        Raises:
            AssertionError: for None.
        """
        if tensor_meta is None:
            raise AssertionError("shallow copy with no tensor_meta!")
        return DTensorSpec(self.mesh, self.placements, tensor_meta)
