"""The parameters of one module that `fully_shard` gathers and divides together.

Each process keeps its part of each parameter, along dimension 0. Before the module's forward all
parts are gathered, in one exchange; what backward needs of the whole parameters is not kept: saved
tensors that are views of them are remembered as views, and gathered again when backward asks. The
gradients of whole parameters are reduced to parts in one exchange.
"""

from __future__ import annotations

import math

import ftorch as torch

from ...autograd import Function
from .. import distributed_c10d as dist
from ..device_mesh import DeviceMesh
from ..tensor import DTensor, Replicate, Shard
from ..tensor._api import distribute_tensor
from ..tensor._redistribute import move, part
from ..tensor.placement_types import _StridedShard, divides


class ShardedParameter:
    """One parameter: where it is used, and its part."""

    def __init__(self, owners, parameter, mesh, dim=0, dtype=None):
        self.owners, self.shape, self.mesh = owners, tuple(parameter.shape), mesh
        self.spmd = None
        placements = [Replicate()] * (mesh.ndim - 1) + [Shard(dim)]
        self.dim = dim
        full = parameter.detach()
        if isinstance(full, DTensor):
            self.spmd = full.device_mesh, full.placements, tuple(full.shape)
            full = full.to_local().detach()
            self.shape = tuple(full.shape)
            made = self._over_both(full, placements)
        else:
            made = distribute_tensor(full, mesh, placements, src_data_rank=None)
        self.sharded = torch.nn.Parameter(made, parameter.requires_grad)
        self.put(self.sharded)

    def _over_both(self, local, placements):
        """The part of a part, as a tensor over the dimensions of both meshes. Where both divide one dimension,
        this one divides the pieces of the other: in the whole its parts are strided.
        """
        parallel, parallel_placements, shape, *_ = self.spmd
        pieces = math.prod(parallel.size(m) for m, p in enumerate(parallel_placements) if divides(p, self.dim))
        outer = [*placements[:-1], _StridedShard(self.dim, split_factor=pieces)] if pieces > 1 else placements
        both = DeviceMesh._concatenate([self.mesh, parallel])
        placed = [*outer, *parallel_placements]
        if both._places is not None:
            part_of_part = move(local, both, shape, None, placed)
        else:
            part_of_part = distribute_tensor(local, self.mesh, placements, src_data_rank=None).to_local()
        return DTensor._made(part_of_part, both, placed, shape)

    def adopt(self):
        """Takes what was put in the place of the part since, by ``load_state_dict(assign=True)``, say."""
        module, name = self.owners[0]
        now = module._parameters[name]
        if now is self.sharded or not isinstance(now, DTensor):
            return
        self.sharded = now if isinstance(now, torch.nn.Parameter) else torch.nn.Parameter(now, now.requires_grad)
        self.sharded._fsdp_sharded = True
        self.put(self.sharded)

    def put(self, value):
        """Makes a tensor the modules' parameter."""
        for module, name in self.owners:
            module._parameters[name] = value

    @property
    def requires_grad(self):
        """Whether it is trained, at present."""
        return self.sharded.requires_grad

    @property
    def local(self):
        """The own part, which has the gradient."""
        return self.sharded._local_tensor


class _Gather(Function):
    """Whole parameters of parts; the gradients' parts of whole gradients."""

    @staticmethod
    def forward(ctx, group, *parts):
        ctx.group = group
        ctx.set_materialize_grads(False)
        # What was gathered without gradients, and perhaps written to since, is what the module uses.
        whole = group.gathered() if group.whole is None else [w.detach() for w in group.whole]
        ctx.mark_non_differentiable(*[w for w, p in zip(whole, group.parameters) if not p.requires_grad])
        return tuple(whole)

    @staticmethod
    def backward(ctx, *grads):
        return None, *ctx.group.reduced(grads)


class ParameterGroup:
    """The parameters of one call of `fully_shard`."""

    def __init__(self, parameters, mesh, reshard_after_forward, policy, offload=False):
        self.parameters, self.mesh, self.policy = parameters, mesh, policy
        self.reshard_after_forward = reshard_after_forward
        self._exchange_over(mesh)
        self.syncs = self.all_reduces = True
        self.divide_factor = None
        self.reduces_unused = False  # whether parameters that had no gradient get zeros
        self.hook = None  # called with reduced gradients
        self.gathers, self.reduces = dist.all_gather_single, dist.reduce_scatter_single
        self.whole: list | None = None  # while they are gathered
        self.is_derived = False  # whether gradients of those go to the parts
        self.regathered: list | None = None  # whole parameters of a backward
        self.waiting: list | None = None  # gradients that are not reduced yet
        self._keys: dict[int, int] = {}
        self.full_precision = False  # whether parameters are gathered as they are kept

    def _exchange_over(self, mesh):
        self.process_group = mesh.get_group(mesh.ndim - 1)
        self.replicas = mesh.get_group(0) if mesh.ndim == 2 else None
        self.count, self.rank = self.process_group.size(), self.process_group.rank()

    # --- gathering ---

    def _dtype(self, t):
        if self.full_precision:
            return t.dtype
        return self.policy.param_dtype if self.policy.param_dtype and t.is_floating_point() else t.dtype

    def _padded(self, p, t):
        """A part as a flat tensor, as long as the longest."""
        rows = -(-p.shape[p.dim] // self.count) if p.shape else 1
        t = t.movedim(p.dim, 0) if p.dim else t
        width = t[0].numel() if t.shape[0] else _rest(p)
        flat = t.reshape(-1)
        missing = rows * width - flat.numel()
        return torch.cat([flat, flat.new_zeros(missing)]) if missing else flat

    def gathered(self) -> list:
        """The whole parameters: all parts in one exchange for each dtype."""
        out: list = [None] * len(self.parameters)
        with torch.no_grad():
            by_dtype: dict = {}
            for i, p in enumerate(self.parameters):
                by_dtype.setdefault(self._dtype(p.local), []).append(i)
            for dtype, places in by_dtype.items():
                parts = [
                    self._padded(self.parameters[i], self.parameters[i].local.detach().to(dtype))
                    for i in places
                ]
                own = torch.cat(parts) if len(parts) > 1 else parts[0].clone()
                everybody = self._room(self.gathers, own.numel() * self.count, own)
                self.gathers(everybody, own, group=self.process_group)
                rows = everybody.view(self.count, -1).split([x.numel() for x in parts], 1)
                for i, row in zip(places, rows):
                    out[i] = self._assembled(self.parameters[i], row)
        return out

    @staticmethod
    def _room(exchange, count, like):
        allocate = getattr(exchange, "allocate", None)
        return like.new_empty(count) if allocate is None else allocate((count,), dtype=like.dtype, device=like.device)

    def _assembled(self, p, rows):
        """A parameter of its padded parts."""
        shape = list(p.shape)
        if p.dim:
            shape = [shape[p.dim], *shape[: p.dim], *shape[p.dim + 1 :]]
        wide = -(-shape[0] // self.count)
        whole = rows.reshape(self.count * wide, *shape[1:])[: shape[0]]
        return whole.movedim(0, p.dim).contiguous() if p.dim else whole.contiguous()

    def unshard(self) -> None:
        """Puts the whole parameters into the modules."""
        if self.whole is None:
            for p in self.parameters:
                p.adopt()
        derived = torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters)
        if self.whole is not None and (self.is_derived or not derived):
            return
        if derived:
            whole = _Gather.apply(self, *[p.local for p in self.parameters])
        else:
            whole = [w.requires_grad_(p.requires_grad) for p, w in zip(self.parameters, self.gathered())]
        self.whole, self.is_derived, self.regathered = list(whole), derived, None
        self._keys = {id(w._ftorch_storage): i for i, w in enumerate(self.whole)}
        for p, w in zip(self.parameters, self.whole):
            p.put(self._shown(p, w))

    def _shown(self, p, w):
        if p.spmd is None:
            w.__class__ = torch.nn.Parameter
            return w
        mesh, placements, shape, *terms = p.spmd
        made = DTensor._made(w, mesh, placements, shape)
        made._is_param, made._terms = True, tuple(terms)
        return made

    def reshard(self) -> None:
        """Puts the parts back."""
        self.whole, self.regathered, self._keys = None, None, {}
        for p in self.parameters:
            p.put(p.sharded)

    # --- what backward needs ---

    def pack(self, t):
        """What is kept instead of a saved tensor: the place of a view of a whole parameter."""
        i = self._keys.get(id(t._ftorch_storage)) if isinstance(t, torch.Tensor) else None
        if i is None or not self.reshard_after_forward:
            return t
        return _View(self, i, tuple(t.shape), t.stride(), t.storage_offset())

    def again(self, i):
        """A whole parameter, for backward."""
        if self.whole is not None:
            return self.whole[i]
        if self.regathered is None:
            self.regathered = self.gathered()
        return self.regathered[i]

    # --- gradients ---

    def reduced(self, grads) -> list:
        """The own parts of averaged gradients."""
        self.whole, self.regathered, self._keys = None, None, {}
        with torch.no_grad():
            if self.waiting is not None:
                grads = [
                    w if g is None else g if w is None else w + g for g, w in zip(grads, self.waiting)
                ]
                self.waiting = None
            if not self.syncs:
                self.waiting = list(grads)
                return [None] * len(grads)
            return self._reduce(grads)

    def _reduce(self, grads):
        out: list = [None] * len(grads)
        by_dtype: dict = {}
        for i, g in enumerate(grads):
            if self.parameters[i].requires_grad and (g is not None or self.reduces_unused):
                g = torch.zeros(self.parameters[i].shape, dtype=self._dtype(self.parameters[i].local)) if (
                    g is None
                ) else g
                by_dtype.setdefault(self.policy.reduce_dtype or g.dtype, []).append((i, g))
        factor = self.divide_factor or self.count * (self.replicas.size() if self.replicas else 1)
        for dtype, found in by_dtype.items():
            columns = []
            for i, g in found:
                p = self.parameters[i]
                g = (g.movedim(p.dim, 0) if p.dim else g).to(dtype)
                wide = -(-g.shape[0] // self.count)
                missing = wide * self.count - g.shape[0]
                if missing:
                    g = torch.cat([g, g.new_zeros((missing, *g.shape[1:]))])
                columns.append(g.reshape(self.count, -1))
            joined = torch.cat(columns, 1) if len(columns) > 1 else columns[0].contiguous()
            own = self._room(self.reduces, joined.shape[1], joined)
            self.reduces(own, joined.reshape(-1).div(factor), op=dist.ReduceOp.SUM, group=self.process_group)
            if self.replicas is not None and self.all_reduces:
                dist.all_reduce(own, group=self.replicas)
            if self.hook is not None:
                self.hook(own)
            for (i, _), piece in zip(found, own.split([c.shape[1] for c in columns])):
                out[i] = self._own_part(self.parameters[i], piece)
        return out

    def _own_part(self, p, piece):
        shape = list(p.shape)
        if p.dim:
            shape = [shape[p.dim], *shape[: p.dim], *shape[p.dim + 1 :]]
        rows, _ = part(shape[0], self.count, self.rank)
        width = _rest(p)
        own = piece[: rows * width].view(rows, *shape[1:])
        own = own.movedim(0, p.dim) if p.dim else own
        return own.to(p.local.dtype).contiguous()


def _rest(p):
    n = 1
    for d, size in enumerate(p.shape):
        n *= size if d != p.dim else 1
    return n


class _View:
    """A view of a whole parameter that is gathered when it is needed."""

    def __init__(self, group, i, size, stride, offset):
        self.group, self.i, self.geometry = group, i, (size, stride, offset)

    def tensor(self):
        """The view."""
        return self.group.again(self.i).detach().as_strided(*self.geometry)
