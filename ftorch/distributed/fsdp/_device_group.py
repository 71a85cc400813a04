"""The parameters of one module that `fully_shard` divides over the devices of this process.

Whole parameters are the divided ones with another layout: XLA gathers them where the module uses them, and reduces and scatters
their gradients. So they are computed from the parts, within the program: no leaves. The batch is divided along its first
dimension.
"""

from __future__ import annotations

import ftorch as torch

from ...autograd import Function
from ...utils._pytree import tree_map
from ..tensor import Replicate
from ..tensor._redistribute import Redistribute, move
from ._group import ParameterGroup


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


class DeviceGroup(ParameterGroup):
    """A `ParameterGroup` on a mesh over the devices of one process."""

    is_derived = False  # whether gradients of whole parameters go to the parts
    waiting: list | None = None  # gradients that are not reduced yet

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
            if p.spmd is None:
                w.__class__ = torch.nn.Parameter
            p.put(w if p.spmd is None else p.over_mesh(w))

    def reshard(self) -> None:
        """Puts the parts back."""
        if self.whole is not None:
            for p in self.parameters:
                p.put(p.sharded)
        self.whole, self.regathered, self._keys = None, None, {}

    def post_backward(self) -> None:
        """Nothing: gradients of what is computed from parts reach the parts."""

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

    def _exchange_over(self, mesh):
        self.count = mesh.size()

    def _laid(self, p, t, is_divided):
        """A parameter's value, or its gradient, divided or whole; parallel along other dimensions of the mesh as it is."""
        mesh, placements = p.sharded.device_mesh, p.sharded.placements
        if not is_divided:
            placements = [*[Replicate()] * self.mesh.ndim, *placements[self.mesh.ndim :]]
        return move(t, mesh, p.shape, None, placements)

    def gathered(self) -> list:
        """The whole parameters."""
        with torch.no_grad():
            return [self._laid(p, p.local.detach().to(self._dtype(p.local)), False) for p in self.parameters]

    def _reduce(self, grads):
        # The loss is that of the whole batch: what processes divide by is divided by already.
        factor = 1 if self.divide_factor is None else self.count / self.divide_factor
        out: list = []
        for p, g in zip(self.parameters, grads):
            if g is not None:
                g = g if factor == 1 else g * factor
                g = self._laid(p, g.to(self.policy.reduce_dtype or g.dtype), True).to(p.local.dtype)
            elif p.requires_grad and self.reduces_unused:
                g = torch.zeros_like(p.local)
            out.append(g)
        return out

    def spread(self, args):
        """Arguments whose tensors of the CPU are divided along their first dimension."""
        return tree_map(self._spread, args)

    def _spread(self, x):
        if not isinstance(x, torch.Tensor) or hasattr(x, "_spec") or x.device is self.mesh._places.device or not x.dim():
            return x
        from ..tensor import Shard

        moved, whole = x.to(self.mesh._places.device), (Replicate(),) * self.mesh.ndim
        return Redistribute.apply(moved, self.mesh, tuple(x.shape), whole, (Shard(0),) * self.mesh.ndim)
