"""Meshes over the devices of one process: a tensor is one array with a sharding, and XLA makes the collectives.

Without other processes a `DeviceMesh` of more than one place lies over JAX's devices, as many as it has places (on the
CPU as many as ``XLA_FLAGS=--xla_force_host_platform_device_count=8`` says). What a process holds is the whole then, so the
local tensor of a `DTensor` is all of it, on a device of its own (`ftorch.eager.core.device.over`), and a redistribution says
where its elements lie.
"""

from __future__ import annotations

import functools
import math
import os
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..eager.call.op import read
from ..eager.core import device as _device
from ..eager.core.geometry import Size, geometry
from ..eager.memory.storage import Storage
from ..eager.runtime import executor
from ..eager.tensor import wrap
from . import distributed_c10d as dist

_ANY = jax.sharding.PartitionSpec.UNCONSTRAINED


@dataclass(frozen=True)
class Places:
    """Where a mesh lies.

    Attributes:
        jax_mesh: the devices of the outermost mesh that it is a part of.
        axes: for each dimension of the mesh those of ``jax_mesh`` that it goes along.
    """

    jax_mesh: Any
    axes: tuple[tuple[str, ...], ...]

    @property
    def device(self):
        """The device of tensors on the mesh."""
        return _device.over(self.jax_mesh)

    def alone(self, place: int):
        """The device of tensors that lie on one of the places."""
        return _device.over(jax.sharding.Mesh(self.jax_mesh.devices.reshape(-1)[place : place + 1], ("place",)))

    def of(self, dims) -> Places:
        """The places of some dimensions."""
        return Places(self.jax_mesh, tuple(self.axes[d] for d in dims))

    def flat(self) -> Places:
        """The places as one dimension."""
        return Places(self.jax_mesh, (tuple(name for axes in self.axes for name in axes),))

    def sharding(self, shape, placements, now=()):
        """How an array of a shape lies. What does not divide a dimension evenly leaves it whole.

        Args:
            now: how it lies on this part of a larger mesh. Dimensions that neither divides may lie on other parts of it
                as they do.
        """
        from .tensor.placement_types import _StridedShard, divides

        axes: list = [() for _ in shape]
        divided = [(names, p) for names, p in zip(self.axes, placements) if divides(p)]
        # Strided parts are parts of those that later dimensions of the mesh make.
        for names, p in sorted(divided, key=lambda found: isinstance(found[1], _StridedShard)):
            wanted = axes[p.dim] + names
            if shape[p.dim] % math.prod(self.jax_mesh.shape[name] for name in wanted) == 0:
                axes[p.dim] = wanted
        if sum(map(len, self.axes)) < len(self.jax_mesh.axis_names):
            said = {p.dim for p in (*placements, *now) if divides(p)}
            axes = [names if d in said else _ANY for d, names in enumerate(axes)]
        return jax.sharding.NamedSharding(
            self.jax_mesh, jax.sharding.PartitionSpec(*[names if names is _ANY else names or None for names in axes])
        )


def found(device_type: str, shape, names) -> Places | None:
    """The devices of this process for a mesh; None where its places are processes."""
    count = math.prod(shape)
    alone = dist.get_world_size() == 1 if dist.is_initialized() else "RANK" not in os.environ
    if count < 2 or not alone or device_type not in ("cpu", "cuda", "tpu"):
        return None
    devices = _device.jax_devices(device_type)
    if len(devices) < count:
        return None
    names = tuple(names) if names else tuple(f"dim_{d}" for d in range(len(shape)))
    mesh = jax.sharding.Mesh(np.array(devices[:count]).reshape(tuple(shape)), names)
    return Places(mesh, tuple((name,) for name in names))


def placed(t, places: Places, placements, now=()):
    """A tensor on the devices of a mesh, laid out as placements say; without derivatives. A sum of terms is a whole.

    Args:
        now: how it lies, where that is known.
    """
    g = t._ftorch_geometry
    device = places.device
    dense = t.detach().contiguous()
    if g.device is not device:
        array = read(dense).as_jax()
        if not isinstance(array, jax.core.Tracer):
            target = geometry(Size(g.shape), g.dtype, device)
            return wrap(Storage(target, jax.device_put(array, _known(places.sharding(g.shape, placements)))))
        dense = dense.to(device)
    sharding = places.sharding(g.shape, placements, now)
    if all(names is _ANY for names in sharding.spec) and g.shape:
        return dense
    return wrap(executor.record(_constraint(dense._ftorch_geometry, sharding), (read(dense),)))


def _known(sharding):
    """A sharding for a transfer, where nothing can be left open."""
    spec = [None if names is _ANY else names for names in sharding.spec]
    return jax.sharding.NamedSharding(sharding.mesh, jax.sharding.PartitionSpec(*spec))


@functools.lru_cache(4096)
def _constraint(g, sharding):
    def constrain(x):
        return jax.lax.with_sharding_constraint(x, sharding)

    return executor.Plan(constrain, (g,), "", "sharding_constraint", g.device)
