"""The parameters of one `FullyShardedDataParallel`: laid end to end in one flat tensor, of which each process keeps a part.

Whole parameters are leaves of the graph as `fully_shard`'s are, and come and go with it; what differs is what is
exchanged, and what a process shows between: one `FlatParameter`, or (``use_orig_params``) of each parameter the elements
that the process has.
"""

from __future__ import annotations

import itertools

import ftorch as torch

from ...eager.native.contexts import contextmanager
from .. import distributed_c10d as dist
from ..algorithms._checkpoint.checkpoint_wrapper import (
    _CHECKPOINT_WRAPPED_MODULE,
    ActivationWrapper,
)
from ..tensor import DTensor
from ._common_utils import FSDP_FLATTENED, clean_tensor_name
from ._flat_param import FlatParameter
from ._group import ParameterGroup, ShardedParameter

FLAT_PARAM = "_flat_param"
_ALIGNED = 16  # bytes: what whole parameters begin at, in the flat tensor, where each is a parameter of its own


class Piece(ShardedParameter):
    """One parameter: where it is used, and where it lies in the flat tensor."""

    def __init__(self, owners, names, parameter, keeps):
        self.owners, self.names = owners, names
        full = parameter.detach()
        self.spmd = None
        if isinstance(full, DTensor):
            self.spmd = full.device_mesh, full.placements, tuple(full.shape)
            full = full.to_local().detach()
        self.shape, self.numel, self.first = tuple(full.shape), full.numel(), full
        self.trains = parameter.requires_grad
        self.start = self.low = self.high = 0  # in the flat tensor; which of the elements are this process'
        self.flat: torch.Tensor | None = None
        self.own: torch.nn.Parameter | None = None  # this process' elements, if they are a parameter
        if keeps:
            self.own = parameter if self.spmd is None else torch.nn.Parameter(full, parameter.requires_grad)
        self.leaf = self.shown = self.waiting = None

    @property
    def sharded(self):
        """What has the part's gradient."""
        return self.flat if self.own is None else self.own

    local = sharded
    extension = None
    _extension = None

    @property
    def requires_grad(self):
        """Whether it is trained, at present."""
        return self.sharded.requires_grad

    def adopt(self):
        """Takes what ``load_state_dict(assign=True)``, say, has put in its place."""
        if self.own is None:
            return
        module, name = self.owners[0]
        now = module._parameters.get(name)
        if now is not None and now is not self.own and now is not self.shown:
            self.own = now
            setattr(now, FSDP_FLATTENED, True)

    def put(self, value):
        """What modules see: parameters where they are kept, else tensors that are none."""
        for module, name in self.owners:
            if self.own is None:
                module._parameters.pop(name, None)
                module.__dict__[name] = self.shown if value is self.flat else value
            else:
                module._parameters[name] = value

    def register(self, value):
        """Makes a whole value the modules' parameter."""
        for module, name in self.owners:
            module.__dict__.pop(name, None)
            module._parameters[name] = value

    def registered(self):
        """The modules' parameter, at present."""
        module, name = self.owners[0]
        return module._parameters.get(name)

    def of(self, flat):
        """Its elements of a flat tensor, in its shape."""
        return flat[self.start : self.start + self.numel].view(self.shape)


def _pieces(module, taken, keeps):
    """The parameters of a module and those within that nobody has yet."""
    found: dict[int, Piece] = {}
    for path, inner in module.named_modules(remove_duplicate=False):
        for name, p in inner._parameters.items():
            if p is None or id(p) in taken or getattr(p, FSDP_FLATTENED, False) or isinstance(p, FlatParameter):
                continue
            full = clean_tensor_name(f"{path}.{name}" if path else name)
            if id(p) not in found:
                found[id(p)] = Piece([], [], p, keeps)
            piece = found[id(p)]
            if (inner, name) not in piece.owners:
                piece.owners.append((inner, name))
                piece.names.append(full)
    return [*found.values()]


def _check(pieces, keeps):
    first = pieces[0].first.dtype
    for p in pieces:
        if not p.shape:
            raise ValueError(
                f"FSDP doesn't support scalar parameters. Change {p.names[0]} to a 1D tensor with numel equal to 1."
            )
    for p in pieces:
        if not p.first.is_floating_point() and p is pieces[0]:
            raise ValueError("Cannot flatten integer dtype tensors")
        if p.first.dtype != first:
            raise ValueError(f"Must flatten tensors with uniform dtype but got {first} and {p.first.dtype}")
        if not keeps and p.trains != pieces[0].trains:
            raise ValueError("Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`")


class FlatGroup(ParameterGroup):
    """The parameters of one `FullyShardedDataParallel`.

    Args:
        divides: whether processes keep parts; else everything, and only gradients are exchanged.
        keeps: whether the parameters stay parameters.
        replicas: the group of those that have the same parts.

    Raises:
        ValueError: for parameters that cannot be in one tensor.
    """

    def __init__(self, module, taken, process_group, replicas, divides, keeps, policy, reshard_after_forward):
        inner = getattr(module, _CHECKPOINT_WRAPPED_MODULE) if isinstance(module, ActivationWrapper) else module
        self.module, self.keeps, self.divides = inner, keeps, divides
        self.process_group, self.replicas = process_group, replicas
        self.count = process_group.size() if divides else 1
        self.rank = process_group.rank() if divides else 0
        self.world = process_group.size() * (replicas.size() if replicas is not None else 1)
        self.is_summoned, self.flat, self.hook_of_gradients = False, None, None
        self.waiting: dict = {}  # by place: (whole gradients that are not reduced yet, the part's one of before)
        self.is_flat = False
        pieces = _pieces(module, taken, keeps)
        super().__init__(pieces, None, reshard_after_forward, policy)
        self.has_own_hook = False
        if not pieces:
            return
        _check(pieces, keeps)
        self.dtype = pieces[0].first.dtype
        self.reduce_dtype = policy.reduce_dtype or policy.param_dtype or self.dtype
        self._lay_out(process_group.size())
        with torch.no_grad():
            self._divide()

    def _exchange_over(self, mesh):
        """Groups are given."""

    def _lay_out(self, size):
        aligned = _ALIGNED // (self.policy.param_dtype or self.dtype).itemsize if self.keeps else 1
        end = 0
        for p in self.parameters:
            p.start = -(-end // aligned) * aligned
            end = p.start + p.numel
        self.total = -(-end // size) * size if self.keeps else end
        self.part = -(-self.total // self.count)
        begin = self.part * self.rank
        for p in self.parameters:
            p.low = min(max(begin - p.start, 0), p.numel)
            p.high = max(min(begin + self.part - p.start, p.numel), p.low)

    def _joined(self, values, dtype, like):
        """Values of all parameters (None for zeros) as the padded flat tensor."""
        out, end = [], 0
        for p, v in zip(self.parameters, values):
            if p.start > end:
                out.append(like.new_zeros(p.start - end, dtype=dtype))
            out.append(like.new_zeros(p.numel, dtype=dtype) if v is None else v.reshape(-1).to(dtype))
            end = p.start + p.numel
        if (missing := self.part * self.count - end) > 0:
            out.append(like.new_zeros(missing, dtype=dtype))
        return torch.cat(out) if len(out) > 1 else out[0].clone()

    def own_elements(self, flat):
        """This process' part of a padded flat tensor."""
        return flat[self.part * self.rank : self.part * (self.rank + 1)].clone() if self.divides else flat

    def own_of(self, p, whole):
        """This process' elements of a whole parameter, as `Piece.own` shows them."""
        return whole.reshape(-1)[p.low : p.high].clone() if self.divides else whole.clone()

    def _divide(self):
        first = [p.first for p in self.parameters]
        if not self.keeps:
            part = self.own_elements(self._joined(first, self.dtype, first[0]))
            self.flat = FlatParameter(part, any(p.trains for p in self.parameters))
            setattr(self.flat, FSDP_FLATTENED, True)
        for p, whole in zip(self.parameters, first):
            if self.keeps:
                if self.divides:
                    p.own.data = self.own_of(p, whole)
                setattr(p.own, FSDP_FLATTENED, True)
            p.flat, p.first = self.flat, None
            p.fill(whole if self.keeps else whole.detach())
            p.empty()
        self.describe()
        self.show_flat()

    def describe(self):
        """What programs read of a flat parameter."""
        flat = self.flat if self.flat is not None else FlatParameter(self.shard())
        flat._fqns = tuple(p.names[0] for p in self.parameters)
        flat._shapes = tuple(torch.Size(p.shape) for p in self.parameters)
        flat._numels = tuple(p.numel for p in self.parameters)
        flat._num_params = len(self.parameters)
        flat._unpadded_unsharded_size = torch.Size([self.total])
        flat._sharded_size = torch.Size([self.part])
        return flat

    def show_flat(self):
        """Registers the flat parameter in the module."""
        if self.flat is not None:
            self.module._parameters[FLAT_PARAM] = self.flat

    def hide_flat(self):
        """The reverse of `show_flat`."""
        self.module._parameters.pop(FLAT_PARAM, None)

    # --- gathering ---

    def shard(self):
        """This process' part of the flat tensor."""
        if self.flat is not None:
            return self.flat.detach()
        out, end = [], self.part * self.rank
        for p in self.parameters:
            if p.high > p.low or not self.divides:
                if p.start + p.low > end:
                    out.append(p.own.new_zeros(p.start + p.low - end))
                out.append(p.own.detach().reshape(-1))
                end = p.start + p.high
        like = self.parameters[0].own
        if (missing := self.part * (self.rank + 1) - end) > 0:
            out.append(like.new_zeros(missing))
        return torch.cat(out) if len(out) > 1 else out[0]

    def everybody(self, part):
        """The padded flat tensor of all processes' parts."""
        if not self.divides:
            return part
        whole = self._room(self.gathers, self.part * self.count, part)
        self.gathers(whole, part, group=self.process_group)
        return whole

    def gathered(self) -> list:
        """The whole parameters: all parts in one exchange."""
        if not self.parameters:
            return []
        with torch.no_grad():
            part = self.shard()
            flat = self.everybody(part.to(self._dtype(part)))
            return [p.of(flat).clone() for p in self.parameters]

    def unshard(self) -> None:
        """Puts the whole parameters into the modules, unless they are there."""
        if not self.is_summoned:
            super().unshard()

    def reshard(self) -> None:
        """Puts the parts back, unless somebody has asked for whole parameters."""
        if not self.is_summoned:
            super().reshard()

    # --- gradients ---

    def post_backward(self) -> None:
        """Reduces the whole parameters' gradients to the part's one, or lets them wait."""
        if not self.parameters:
            return
        with torch.no_grad():
            grads = [p.take_gradient() for p in self.parameters]
            if self.reshard_after_backward:
                self.reshard()
            if not self.syncs:
                self._wait(grads)
                return
            grads = self._with_waiting(grads)
            if all(g is None for g in grads):
                return
            own = self._averaged(grads)
            if self.flat is not None:
                self.parameters[0].add_gradient(own)
                return
            for p in self.parameters:
                if p.own.requires_grad and (p.high > p.low or not self.divides):
                    at = p.start + p.low - self.part * self.rank
                    p.add_gradient(own[at : at + p.high - p.low].view(p.own.shape).clone())

    def _shown(self):
        return [self.flat] if self.flat is not None else [p.own for p in self.parameters]

    def _wait(self, grads):
        """Shows whole gradients as the parts' ones, as PyTorch does: who drops those drops what waits."""
        like = next((g for g in grads if g is not None), None)
        if like is None:
            return
        dtype = self.policy.reduce_dtype or like.dtype
        whole = [None if g is None else g.to(dtype) for g in grads]
        if self.flat is not None:
            whole = [self._joined(grads, dtype, like)]
        for i, (p, g) in enumerate(zip(self._shown(), whole)):
            if g is None:
                continue
            before, part = self.waiting.get(i, (None, None))
            if before is None or p._grad is not before:
                part = p._grad
            else:
                g = before + g
            self.waiting[i] = g, part
            p._grad = g  # of another shape than its parameter: no assignment to `grad`

    def _with_waiting(self, grads):
        for i, p in enumerate(self._shown()):
            whole, part = self.waiting.pop(i, (None, None))
            if whole is None or p._grad is not whole:
                continue
            p._grad = part
            places = [i] if self.flat is None else range(len(grads))
            for k in places:
                w = whole if self.flat is None else self.parameters[k].of(whole)
                grads[k] = w if grads[k] is None else grads[k].to(w.dtype) + w
        return grads

    def _averaged(self, grads):
        like = next(g for g in grads if g is not None)
        flat = self._joined(grads, self.reduce_dtype, like)
        if self.has_own_hook:
            own = self._by_hook(flat)
        else:
            before = 1
            while self.world % before == 0 and self.world / before > before:
                before *= 2  # a half before and a half behind the sum: neither overflows nor vanishes
            flat.div_(before)
            own = flat
            if self.divides:
                own = self._room(self.reduces, self.part, flat)
                self.reduces(own, flat, op=dist.ReduceOp.SUM, group=self.process_group)
                if self.replicas is not None:
                    dist.all_reduce(own, group=self.replicas)
            else:
                dist.all_reduce(own, group=self.process_group)
            own.div_(self.world / before)
        return own.to(self.dtype)

    def _by_hook(self, flat):
        state, hook = self.hook_of_gradients
        if not self.divides:
            hook(state, flat)
            return flat
        own = flat.new_zeros(self.part)
        hook(state, flat, own)
        return own

    # --- whole parameters ---

    @contextmanager
    def summoned(self, writeback=True, shows=True, with_grads=False):
        """Within, the modules' parameters are whole, as they are kept. What is written to them is kept with ``writeback``.

        Args:
            shows: whether this process sees them. ``with_grads``: their gradients, too.
        """
        if not self.parameters or self.is_summoned:
            yield
            return
        self.reshard()
        self.full_precision = True
        try:
            values = self.gathered()
        finally:
            self.full_precision = False
        grads = self._whole_gradients() if with_grads else None
        if not shows or (self.keeps and not self.divides):
            yield
            return
        kept = [p.own.data if self.keeps else None for p in self.parameters]
        own_grads = [p.sharded.grad for p in self.parameters]
        for i, (p, value) in enumerate(zip(self.parameters, values)):
            if self.keeps:
                p.own.grad = None
                p.own.data = value
                if with_grads:
                    p.own.grad = grads[i]
                p.register(p.own if p.spmd is None else p.over_mesh(p.own))
            else:
                whole = torch.nn.Parameter(value, self.flat.requires_grad)
                p.register(whole if p.spmd is None else p.over_mesh(whole))
        self.hide_flat()
        self.is_summoned = True
        try:
            yield
        finally:
            self.is_summoned = False
            with torch.no_grad():
                self._put_back(values, kept, own_grads, writeback, with_grads)

    def _put_back(self, values, kept, own_grads, writeback, with_grads):
        now = [p.registered() for p in self.parameters]
        now = [v if x is None else x._local_tensor if isinstance(x, DTensor) else x for x, v in zip(now, values)]
        if self.keeps:
            for p, x, part, grad in zip(self.parameters, now, kept, own_grads):
                whole_grad = p.own.grad
                p.own.grad = None
                if writeback:
                    part.copy_(self.own_of(p, x.detach()))
                p.own.data = part
                p.own.grad = grad
                if writeback and with_grads and grad is not None and whole_grad is not None:
                    grad.copy_(self.own_of(p, whole_grad))
                p.put(p.own)
            return
        if writeback:
            self.flat.data.copy_(self.own_elements(self._joined([x.detach() for x in now], self.dtype, values[0])))
        for p in self.parameters:
            p.put(self.flat)
        self.show_flat()

    def _whole_gradients(self):
        """The whole gradients (zeros where no process has one)."""
        like = self.parameters[0].own
        part = like.new_zeros(self.part)
        for p in self.parameters:
            if p.own.grad is not None and p.high > p.low:
                at = p.start + p.low - self.part * self.rank
                part[at : at + p.high - p.low] = p.own.grad.reshape(-1)
        flat = self.everybody(part)
        return [p.of(flat).clone() if p.requires_grad else None for p in self.parameters]

    @contextmanager
    def only_flat(self):
        """Within, the module has the flat tensor in place of parameters: what is done to all of them is done to it."""
        self.reshard()
        if not self.keeps or not self.parameters or self.is_flat:
            yield
            return
        flat = FlatParameter(self.shard(), any(p.own.requires_grad for p in self.parameters))
        grads = [p.own.grad for p in self.parameters]
        for module, name in itertools.chain.from_iterable(p.owners for p in self.parameters):
            module._parameters.pop(name, None)
        self.module._parameters[FLAT_PARAM] = flat
        self.is_flat = True
        try:
            yield
        finally:
            self.is_flat = False
            flat = self.module._parameters.pop(FLAT_PARAM)
            self.dtype = flat.dtype
            for p, grad in zip(self.parameters, grads):
                at = p.start + p.low - self.part * self.rank
                p.own.grad = None
                if p.high > p.low or not self.divides:
                    p.own.data = flat.detach()[at : at + p.high - p.low].view(p.own.shape).clone()
                else:
                    p.own.data = flat.detach().new_empty(p.own.shape)
                p.own.grad = None if grad is None else grad.to(flat.device, flat.dtype)
                p.put(p.own)
