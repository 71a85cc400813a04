"""From one placement to another: the collectives between them, with their derivatives."""

from __future__ import annotations

import ftorch as torch

from ...autograd import Function
from .. import _local_devices
from .. import distributed_c10d as dist
from ._explicit import observe
from .placement_types import NormPartial, Replicate, Shard, _StridedShard, divides, runs


def part(size: int, count: int, rank: int) -> tuple[int, int]:
    """(size, start) of a rank's part of a dimension."""
    return Shard.local_shard_size_and_offset(size, count, rank)


def part_size(placement, size: int, count: int, rank: int) -> int:
    """The size of a rank's part of a dimension that a placement divides."""
    return sum(n for _, n in runs(placement, size, count, rank))


def local_shape(shape, mesh, placements, upto: int | None = None, place=None) -> list[int]:
    """The shape of a process' part; ``upto``: with the first mesh dimensions only."""
    sizes = list(shape)
    if mesh._places is not None:
        return sizes
    place = mesh.get_coordinate() if place is None else place
    for m, p in enumerate(placements if upto is None else placements[:upto]):
        if divides(p):
            sizes[p.dim] = part_size(p, sizes[p.dim], mesh.size(m), place[m])
    return sizes


def offsets(shape, mesh, placements, place=None) -> list[int]:
    """Where a process' part begins."""
    if mesh._places is not None:
        return [0] * len(shape)
    place = mesh.get_coordinate() if place is None else place
    kept = [range(size) for size in shape]  # what of each dimension the process has; a list, where that has gaps
    for m, p in enumerate(placements):
        if divides(p):
            found = [kept[p.dim][s : s + n] for s, n in runs(p, len(kept[p.dim]), mesh.size(m), place[m])]
            kept[p.dim] = found[0] if len(found) == 1 else [i for piece in found for i in piece]
    return [k[0] if k else k.start if isinstance(k, range) else size for k, size in zip(kept, shape)]


def contiguous_strides(shape) -> tuple[int, ...]:
    """The strides of a dense tensor in order."""
    strides, n = [], 1
    for s in reversed(shape):
        strides.insert(0, n)
        n *= max(s, 1)
    return tuple(strides)


def global_strides(local, shape) -> tuple[int, ...] | None:
    """The strides of the whole of which a tensor is a part: None for those of a dense one in order."""
    strides = list(local.stride())
    if len(strides) != len(shape) or strides == list(contiguous_strides(local.shape)):
        return None
    for d, (size, part_size) in enumerate(zip(shape, local.shape)):
        if size == part_size or not part_size:
            continue
        for other, stride in enumerate(strides):
            if other != d and stride > strides[d] and stride % part_size == 0:
                strides[other] = stride // part_size * size
    return tuple(strides)


def _chunks(t, p, count):
    """The parts of all ranks, the last ones empty if need be."""
    out = []
    for rank in range(count):
        found = [t.narrow(p.dim, start, n) for start, n in runs(p, t.shape[p.dim], count, rank)]
        out.append(found[0] if len(found) == 1 else torch.cat(found, p.dim))
    return out


def _unshard(t, p, size, group):
    count, dim = group.size(), p.dim
    longest = part_size(p, size, count, 0)
    if t.shape[dim] < longest:
        widened = list(t.shape)
        widened[dim] = longest - t.shape[dim]
        t = torch.cat([t, t.new_zeros(widened)], dim)
    t = t.contiguous()
    out = t.new_empty((count, *t.shape))
    dist.all_gather_single(out.view(-1) if t.dim() == 0 else out.flatten(0, 1), t, group=group)
    found = []
    for r in range(count):
        begin = 0
        for start, n in runs(p, size, count, r):
            if n:
                found.append((start, out[r].narrow(dim, begin, n)))
            begin += n
    found.sort(key=lambda run: run[0])
    return torch.cat([run for _, run in found] or [t], dim)


def _reduce_shard(t, p, op, group):
    count, dim, size = group.size(), p.dim, t.shape[p.dim]
    longest = part_size(p, size, count, 0)
    pieces = []
    for piece in _chunks(t, p, count):
        if piece.shape[dim] < longest:
            widened = list(piece.shape)
            widened[dim] = longest - piece.shape[dim]
            piece = torch.cat([piece, piece.new_zeros(widened)], dim)
        pieces.append(piece.contiguous())
    out = torch.empty_like(pieces[0])
    dist.reduce_scatter(out, pieces, op=_op(op), group=group)
    return out.narrow(dim, 0, part_size(p, size, count, group.rank()))


def _op(name):
    return getattr(dist.ReduceOp, {"sum": "SUM", "avg": "AVG", "product": "PRODUCT", "max": "MAX",
                                   "min": "MIN"}[name])


def _reshard(t, source, target, size, group):
    """From parts along one dimension to parts along another: everybody sends a part to everybody."""
    count, rank = group.size(), group.rank()
    given = [p.contiguous() for p in _chunks(t, Shard(target), count)]
    got = []
    for r in range(count):
        shape = list(t.shape)
        shape[target] = part(t.shape[target], count, rank)[0]
        shape[source] = part(size, count, r)[0]
        got.append(t.new_empty(shape))
    dist.all_to_all(got, given, group=group)
    return torch.cat(got, source)


def _step(t, mesh, m, now, to, shape):
    """One mesh dimension's change. ``shape``: the local shape if that dimension did not divide it."""
    group, count = mesh.get_group(m), mesh.size(m)
    rank = mesh.get_local_rank(m)
    if now == to:
        return t
    if divides(now) and to.is_replicate():
        return _unshard(t, now, shape[now.dim], group)
    if divides(now) and divides(to):
        if now.dim == to.dim or isinstance(now, _StridedShard) or isinstance(to, _StridedShard):
            return _step(_step(t, mesh, m, now, Replicate(), shape), mesh, m, Replicate(), to, shape)
        return _reshard(t, now.dim, to.dim, shape[now.dim], group)
    if now.is_replicate() and divides(to):
        return _chunks(t, to, count)[rank].clone()
    if isinstance(now, NormPartial):
        from ._special import combined_norms

        return _step(combined_norms(t, now.norm_type, group), mesh, m, Replicate(), to, shape)
    if now.is_partial() and to.is_replicate():
        out = t.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(out, _op(now.reduce_op), group=group)
        return out
    if now.is_partial() and divides(to):
        return _reduce_shard(t, to, now.reduce_op, group)
    if now.is_replicate() and to.is_partial():
        if to.reduce_op in ("avg", "max", "min"):
            return t
        if t.is_floating_point() or t.is_complex():
            return t / count
        return t if rank == 0 else torch.zeros_like(t)
    if divides(now) and to.is_partial():
        return _step(_step(t, mesh, m, now, Replicate(), shape), mesh, m, Replicate(), to, shape)
    raise RuntimeError(f"redistribution from {now} to {to} is not supported")


def move(t, mesh, shape, now, to):
    """A local tensor with other placements, without derivatives."""
    if mesh._places is not None:
        return _local_devices.placed(t, mesh._places, to, now or ())
    now, to = list(now), list(to)
    changed = [m for m in range(mesh.ndim) if now[m] != to[m]]
    if not changed or mesh.get_coordinate() is None:  # who is not in the mesh has nothing
        return t
    dims = {p.dim for m in changed for p in (now[m], to[m]) if divides(p)}
    alone = len(changed) == 1 and not any(
        divides(p) and p.dim in dims for m, p in enumerate(now) if m not in changed
    )
    if alone:  # nobody else divides these dimensions: one collective
        (m,) = changed
        before = local_shape(shape, mesh, [p if i != m else Replicate() for i, p in enumerate(now)])
        return _step(t, mesh, m, now[m], to[m], before)
    # Inner divisions are undone before outer ones, and made after them.
    for m in reversed(range(mesh.ndim)):
        again = divides(now[m]) and now[m].dim in dims and m >= min(changed)
        if now[m] != to[m] or again:
            if not (now[m].is_partial() and to[m].is_partial()):
                before = local_shape(shape, mesh, now, m)
                t = _step(t, mesh, m, now[m], Replicate(), before)
                now[m] = Replicate()
    for m in range(mesh.ndim):
        if now[m] != to[m]:
            t = _step(t, mesh, m, now[m], to[m], local_shape(shape, mesh, now))
            now[m] = to[m]
    return t


def gradient_placements(placements):
    """How the gradient of a tensor lies: that of a sum's terms is the same for all."""
    return [Replicate() if p.is_partial() else p for p in placements]


class Redistribute(Function):
    """`move`, with derivatives."""

    @staticmethod
    def forward(ctx, t, mesh, shape, now, to, comes=None):
        ctx.where = mesh, shape, now, to, gradient_placements(to) if comes is None else comes
        out = move(t, mesh, shape, now, to)
        return out.view_as(out) if out is t else out

    @staticmethod
    def backward(ctx, grad):
        mesh, shape, now, _, comes = ctx.where
        return move(grad, mesh, shape, comes, gradient_placements(now)), None, None, None, None, None


class OfMean(Function):
    """Terms of a mean that an operation makes of parts. Their gradient is that of the mean, of which each part has a share."""

    @staticmethod
    def forward(ctx, t, count):
        ctx.count = count
        return t.view_as(t)

    @staticmethod
    def backward(ctx, grad):
        return grad / ctx.count, None


class ImplicitRedistribute(Redistribute):
    """`Redistribute` that a call makes, not the program."""

    @staticmethod
    def backward(ctx, grad):
        mesh, _, now, to, _ = ctx.where
        observe("a gradient", gradient_placements(to), gradient_placements(now), mesh)
        return Redistribute.backward(ctx, grad)


class GradientMoved(Function):
    """The same tensor, whose gradient comes with some placements and leaves with others."""

    @staticmethod
    def forward(ctx, t, mesh, shape, now, to):
        ctx.where = mesh, shape, now, to
        return t.view_as(t)

    @staticmethod
    def backward(ctx, grad):
        return move(grad, *ctx.where), None, None, None, None


class _Again(Function):
    """A tensor as what was made of another, whose gradient it hands on from some placements to some."""

    @staticmethod
    def forward(ctx, source, t, mesh, shape, now, to):
        ctx.where = mesh, shape, now, to
        return t.view_as(t)

    @staticmethod
    def backward(ctx, grad):
        return move(grad, *ctx.where), None, None, None, None, None


class SumsTaken:
    """A tensor that was gathered, once more for a call whose gradient comes as terms of a sum: they are made parts again by
    one reduce-scatter instead of an all-reduce, of which each takes its part. For what only the package's calls are given:
    who asks for the gathered tensor's own gradient later gets none of those."""

    def __init__(self, source, made, mesh, shape, to):
        self._source, self._made, self._version, self._to = source, made, made._version, tuple(to)
        self._mesh, self._shape, self._again = mesh, shape, None

    def again(self, made, comes):
        """The tensor for one whose gradient comes so; None where it comes otherwise, or somebody looks at gradients or has
        written to it."""
        if (
            made is not self._made or made._version != self._version or made._backward_hooks or made.retains_grad
            or not all(p == q or p.is_partial("sum") for p, q in zip(comes, gradient_placements(comes)))
            or not made.requires_grad or not torch.is_grad_enabled()
        ):
            return None
        if self._again is None or self._again[1] != comes:
            found = _Again.apply(self._source, made.detach(), self._mesh, self._shape, tuple(comes), self._to)
            self._again = found, list(comes)
        return self._again[0]


class _FromTorchTensor(Function):
    """A tensor as the part of a `DTensor`: it shares the tensor's memory, and is none of its views, so that it may be written
    where the tensor is a leaf. Its gradient comes with some placements and leaves with others."""

    @staticmethod
    def forward(ctx, t, *where):
        ctx.where = where
        return t.detach()

    @staticmethod
    def backward(ctx, grad):
        mesh, shape, now, to = ctx.where
        return (grad if list(now) == list(to) else move(grad, mesh, shape, now, to)), None, None, None, None


class _ToTorchTensor(GradientMoved):
    """A local part as a tensor of its own."""


def redistributed(t, mesh, shape, now, to, name=None, comes=None):
    """A local tensor with other placements; ``name`` is that of the call which wants it, if it is not the program, and
    ``comes`` how its gradient will lie."""
    if list(now) == list(to):
        return t
    if name is not None:
        observe(name, now, to, mesh)
        return ImplicitRedistribute.apply(t, mesh, shape, tuple(now), tuple(to), comes)
    return Redistribute.apply(t, mesh, shape, tuple(now), tuple(to), comes)


def with_gradient(t, mesh, shape, now, to):
    """The same tensor, whose gradient's placements change from ``now`` to ``to`` on its way back."""
    if list(now) == list(to) or not (t.requires_grad and torch.is_grad_enabled()):
        return t
    return GradientMoved.apply(t, mesh, shape, tuple(now), tuple(to))


def from_torch_tensor(t, mesh, shape, placements, grad_placements=None):
    """A plain tensor as a part of that lies so; ``grad_placements``: how its gradient will lie instead."""
    now = gradient_placements(placements)
    if not (t.requires_grad and torch.is_grad_enabled()):
        return t.view_as(t)
    return _FromTorchTensor.apply(t, mesh, shape, tuple(now), tuple(grad_placements or now))


def to_torch_tensor(t, mesh, shape, now, to):
    """`with_gradient` whose result is another tensor in any case."""
    return _ToTorchTensor.apply(t, mesh, shape, tuple(now), tuple(to))


