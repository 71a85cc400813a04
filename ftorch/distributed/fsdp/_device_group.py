"""The parameters of one module that `fully_shard` divides over the devices of this process.

Whole parameters are the divided ones with another layout: XLA gathers them where the module uses them, and reduces and scatters
their gradients. The batch is divided along its first dimension.
"""

from __future__ import annotations

import ftorch as torch

from ...utils._pytree import tree_map
from ..tensor import Replicate
from ..tensor._redistribute import Redistribute, move
from ._group import ParameterGroup


class DeviceGroup(ParameterGroup):
    """A `ParameterGroup` on a mesh over the devices of one process."""

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
