"""The parameters of one module that `fully_shard` gathers and divides together.

Each process keeps its part of each parameter, along dimension 0. Before the module's forward all
parts are gathered, in one exchange, and again before its backward; what backward needs of the whole parameters is
not kept between: saved tensors that are views of them are remembered as views. Whole parameters are leaves of
the graph. When the module's backward is through, their gradients are reduced to parts in one exchange.
"""

from __future__ import annotations

import math

import ftorch as torch

from .. import distributed_c10d as dist
from ..device_mesh import DeviceMesh
from ..tensor import DTensor, Replicate, Shard
from ..tensor._api import distribute_tensor
from ..tensor._redistribute import move, part
from ..tensor.placement_types import _StridedShard, divides
from ._gather_extensions import GatherExtension, is_extended


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
        self.leaf: torch.Tensor | None = None  # the whole parameter: the same tensor each time, empty between
        self.shown: torch.Tensor | None = None  # what modules see of it
        self.waiting: torch.Tensor | None = None  # gradients that are not reduced yet, in the dtype of reductions
        self._extension: GatherExtension | None = None
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

    @property
    def extension(self) -> GatherExtension | None:
        """What is gathered, if the part says so itself."""
        if not is_extended(self.local):
            return None
        if self._extension is None:
            self._extension, self.leaf = GatherExtension(), None
        return self._extension

    def fill(self, value):
        """Gives the whole parameter its value, and the modules the whole parameter."""
        if self._extension is not None:
            if value is not self.leaf:
                self.leaf = torch.nn.Parameter(value, self.requires_grad)
                self.shown = self.leaf if self.spmd is None else self.over_mesh(self.leaf)
            self.leaf.requires_grad_(self.requires_grad)
        elif self.leaf is None or self.leaf.dtype != value.dtype or self.leaf.device != value.device:
            if self.leaf is not None:
                self.keep_waiting(self.leaf.dtype)
            self.leaf = torch.nn.Parameter(value, self.requires_grad)
            self.shown = self.leaf if self.spmd is None else self.over_mesh(self.leaf)
        else:
            self.leaf.data = value
            self.leaf.requires_grad_(self.requires_grad)
        self.put(self.shown)

    def over_mesh(self, whole):
        """What modules see of a parameter that tensor parallelism has divided before."""
        mesh, placements, shape, *terms = self.spmd
        made = DTensor._made(whole, mesh, placements, shape)
        made._is_param, made._terms = True, tuple(terms)
        return made

    def empty(self):
        """Gives up the whole parameter's memory, and the modules their parts."""
        self.put(self.sharded)  # first: who is interrupted between sees values
        if self._extension is not None:
            self._extension.free()
        elif self.leaf is not None:
            self.leaf.data = self.leaf.new_empty(1).expand(self.shape)

    def keep_waiting(self, dtype):
        """Lets the whole parameter's gradient wait for later ones: where it is, or added up in the dtype of reductions."""
        if self.leaf.grad is not None and self.leaf.grad.dtype != dtype:
            self.waiting = self.take_gradient().to(dtype)

    def take_gradient(self):
        """The whole parameter's gradient, with what waited; it has none any more."""
        if self.leaf is None:
            return None
        g, self.leaf.grad = self.leaf.grad, None
        waiting, self.waiting = self.waiting, None
        return g if waiting is None else waiting if g is None else waiting + g

    @property
    def waits(self):
        """Whether there is a gradient of the whole parameter."""
        return self.waiting is not None or (self.leaf is not None and self.leaf.grad is not None)

    def add_gradient(self, own):
        """Adds to the part's gradient, and calls those who wait for it."""
        local = self.local
        if local.grad is None:
            local.grad = own
        else:
            local.grad += own
        for hook in [*(local._post_accumulate_grad_hooks or {}).values()]:
            hook(local)


class ParameterGroup:
    """The parameters of one call of `fully_shard`."""

    def __init__(self, parameters, mesh, reshard_after_forward, policy, offload=False):
        self.parameters, self.mesh, self.policy = parameters, mesh, policy
        self.reshard_after_forward = reshard_after_forward
        self._exchange_over(mesh)
        self.syncs = self.all_reduces = self.reshard_after_backward = True
        self.partial: dict = {}  # by dtype and parameters: sums that wait for those of the replicas
        self.divide_factor = None
        self.reduces_unused = False  # whether parameters that had no gradient get zeros
        self.hook = None  # called with reduced gradients
        self.gathers, self.reduces = dist.all_gather_single, dist.reduce_scatter_single
        self.whole: list | None = None  # while they are gathered
        self.is_filling = False  # from when the first of them is a module's until the last one is not any more
        self.regathered: list | None = None  # for a backward that asks when they are given up
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
        with torch.no_grad():
            given, by_dtype = [self._given(p) for p in self.parameters], {}
            for i, parts in enumerate(given):
                for k, t in enumerate(parts):
                    by_dtype.setdefault(t.dtype, []).append((i, k))
            found = [[None] * len(parts) for parts in given]
            for places in by_dtype.values():
                parts = [given[i][k] for i, k in places]
                own = torch.cat(parts) if len(parts) > 1 else parts[0].clone()
                everybody = self._room(self.gathers, own.numel() * self.count, own)
                self.gathers(everybody, own, group=self.process_group)
                rows = everybody.view(self.count, -1).split([x.numel() for x in parts], 1)
                for (i, k), row in zip(places, rows):
                    found[i][k] = row
            return [self._whole(p, rows) for p, rows in zip(self.parameters, found)]

    def _given(self, p):
        """What this process gives of a parameter: flat tensors."""
        if p.extension is None:
            return [self._padded(p, p.local.detach().to(self._dtype(p.local)))]
        mesh = self.mesh if self.mesh.ndim == 1 else self.mesh[self.mesh.mesh_dim_names[-1]]
        return p.extension.inputs(p, mesh, self.policy)

    def _whole(self, p, rows):
        if p.extension is None:
            return self._assembled(p, rows[0])
        return p.extension.whole(p, rows, self.policy.param_dtype or p.local.dtype, p.leaf)

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
        if self.whole is not None:
            return
        for p in self.parameters:
            p.adopt()
        self.regathered = None
        with torch.no_grad():
            values = self.gathered()
            self.is_filling = True
            for p, value in zip(self.parameters, values):
                p.fill(value)
        self.whole = [p.leaf for p in self.parameters]
        self._keys = {id(w._ftorch_storage): i for i, w in enumerate(self.whole)}

    def reshard(self) -> None:
        """Puts the parts back."""
        self.regathered = None
        if self.whole is None and not self.is_filling:
            return
        self.whole, self._keys = None, {}
        with torch.no_grad():
            for p in self.parameters:
                p.empty()
        self.is_filling = False

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

    def post_backward(self) -> None:
        """Reduces what gradients the whole parameters have to the parts' ones, or lets them wait."""
        with torch.no_grad():
            if not self.syncs:
                if self.reshard_after_backward:
                    self.reshard()
                for p in self.parameters:
                    if p.leaf is not None and p.leaf.grad is not None:
                        p.keep_waiting(self.policy.reduce_dtype or p.leaf.grad.dtype)
                return
            grads = [p.take_gradient() for p in self.parameters]
            if self.reshard_after_backward:
                self.reshard()
            for p, own in zip(self.parameters, self._reduce(grads)):
                if own is not None:
                    p.add_gradient(own)

    def _reduce(self, grads):
        out: list = [None] * len(grads)
        by_dtype: dict = {}
        for i, g in enumerate(grads):
            p = self.parameters[i]
            if p.requires_grad and (g is not None or (self.reduces_unused and p.leaf is not None)):
                g = torch.zeros(self.parameters[i].shape, dtype=self._dtype(self.parameters[i].local)) if (
                    g is None
                ) else g
                by_dtype.setdefault(self.policy.reduce_dtype or g.dtype, []).append((i, g))
        factor = self.divide_factor or self.count * (self.replicas.size() if self.replicas else 1)
        for dtype, found in by_dtype.items():
            columns = []
            for i, g in found:
                p = self.parameters[i]
                if p.extension is not None:  # of whatever class: numbers are reduced
                    g = torch.empty(p.shape, dtype=dtype).copy_(g)
                g = (g.movedim(p.dim, 0) if p.dim else g).to(dtype)
                wide = -(-g.shape[0] // self.count)
                missing = wide * self.count - g.shape[0]
                if missing:
                    g = torch.cat([g, g.new_zeros((missing, *g.shape[1:]))])
                columns.append(g.reshape(self.count, -1))
            joined = torch.cat(columns, 1) if len(columns) > 1 else columns[0].contiguous()
            own = self._room(self.reduces, joined.shape[1], joined)
            self.reduces(own, joined.reshape(-1).div(factor), op=dist.ReduceOp.SUM, group=self.process_group)
            if self.replicas is not None:
                key = dtype, *[i for i, _ in found]
                if (before := self.partial.pop(key, None)) is not None:
                    own += before
                if not self.all_reduces:
                    self.partial[key] = own
                    continue
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
