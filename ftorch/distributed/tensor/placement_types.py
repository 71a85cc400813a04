"""How a tensor lies on a dimension of a mesh (``torch.distributed.tensor.placement_types``)."""

from __future__ import annotations

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """The base of `Shard`, `Replicate` and `Partial`."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it is `Shard` (of a dimension)."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Whether it is `Replicate`."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether it is `Partial` (of a reduction)."""
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


def _joined(first, second, dim):
    import ftorch as torch

    return torch.cat([first, second], dim)


class Shard(Placement):
    """Each process has a part along a dimension: of ``ceil(size / n)`` elements, the last fewer or none.

    >>> Shard(0)
    Shard(dim=0)
    """

    def __init__(self, dim: int):
        self.dim = dim

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int):
        """(the size, where it begins) of a process' part."""
        full = -(-curr_local_size // num_chunks)
        start = min(full * rank, curr_local_size)
        return min(full, curr_local_size - start), start

    _local_shard_size_and_offset = local_shard_size_and_offset

    def _split_tensor(self, tensor, num_chunks: int, *, with_padding: bool = True, contiguous: bool = True):
        """(the parts of all processes, by how many elements each is filled up)

        Args:
            with_padding: whether all parts are filled up with zeros to one size.
        """
        if not -tensor.dim() <= self.dim < tensor.dim():
            raise AssertionError(
                f"Sharding dim {self.dim} greater than tensor ndim {tensor.dim()} for placement number {num_chunks}."
            )
        size = tensor.size(self.dim)
        full, parts, missing = -(-size // num_chunks), [], []
        for rank in range(num_chunks):
            count, start = self.local_shard_size_and_offset(size, num_chunks, rank)
            part = tensor.narrow(self.dim, start, count)
            missing.append(full - count if with_padding else 0)
            if missing[-1]:
                shape = list(part.shape)
                shape[self.dim] = missing[-1]
                part = _joined(part, part.new_zeros(shape), self.dim)
            parts.append(part.contiguous() if contiguous else part)
        return parts, missing if with_padding else []

    def __eq__(self, other):
        return isinstance(other, Shard) and self.dim == other.dim

    def __hash__(self):
        return hash(("S", self.dim))

    def __repr__(self):
        return f"Shard(dim={self.dim})"

    def __str__(self):
        return f"S({self.dim})"


class _StridedShard(Placement):
    """A part of each of ``split_factor`` pieces of a dimension: what data parallelism divides after tensor parallelism.

    The pieces are those of a later dimension of the mesh, whose `Shard` then picks the part of its own piece.
    """

    def __init__(self, dim: int, *, split_factor: int = 1):
        self.dim, self.split_factor = dim, split_factor

    def __eq__(self, other):
        return isinstance(other, _StridedShard) and (self.dim, self.split_factor) == (
            other.dim, other.split_factor,
        )

    def __hash__(self):
        return hash(("_S", self.dim, self.split_factor))

    def __repr__(self):
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self):
        return f"_S({self.dim}, {self.split_factor})"


def divides(placement, dim: int | None = None) -> bool:
    """Whether a placement divides (a dimension of) a tensor, in one part for each process or in strided ones."""
    return isinstance(placement, (Shard, _StridedShard)) and (dim is None or placement.dim == dim)


def along(placement, dim: int):
    """A placement that divides another dimension in the same way."""
    return _StridedShard(dim, split_factor=placement.split_factor) if isinstance(placement, _StridedShard) else Shard(dim)


def runs(placement, size: int, count: int, rank: int) -> list[tuple[int, int]]:
    """(start, size) of each run of a dimension that a rank has."""
    pieces = placement.split_factor if isinstance(placement, _StridedShard) else 1
    out = []
    for piece in range(pieces):
        length, start = Shard.local_shard_size_and_offset(size, pieces, piece)
        own, begin = Shard.local_shard_size_and_offset(length, count, rank)
        out.append((start + begin, own))
    return out


class Replicate(Placement):
    """Each process has all of it."""

    def __eq__(self, other):
        return isinstance(other, Replicate)

    def __hash__(self):
        return hash("R")

    def __repr__(self):
        return "Replicate()"

    def __str__(self):
        return "R"


class Partial(Placement):
    """Each process has a term: the value is their sum (or average, product, minimum, maximum)."""

    def __init__(self, reduce_op: str = "sum"):
        self.reduce_op = reduce_op

    def __eq__(self, other):
        return isinstance(other, Partial) and self.reduce_op == other.reduce_op

    def __hash__(self):
        return hash(("P", self.reduce_op))

    def __repr__(self):
        return f"Partial({self.reduce_op})"

    def __str__(self):
        return f"P({self.reduce_op})"


class NormPartial(Partial):
    """Each process has the norm of its part: the value is the norm of these norms."""

    def __init__(self, norm_type: float = 2):
        super().__init__("norm")
        self.norm_type = norm_type

    def __eq__(self, other):
        return isinstance(other, NormPartial) and self.norm_type == other.norm_type

    def __hash__(self):
        return hash(("NormP", self.norm_type))

    def __repr__(self):
        return f"_NormPartial({self.norm_type})"

    def __str__(self):
        return f"_NormP({self.norm_type})"


_Partial = Partial  # its former name
