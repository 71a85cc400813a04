"""Cross entropy of logits whose classes are divided."""

from __future__ import annotations

import contextlib

from ... import distributed_c10d as dist
from ...nn.functional import _AllReduce
from .._api import DTensor
from ..placement_types import Replicate

__all__ = ["loss_parallel"]

enabled = [0]


@contextlib.contextmanager
def loss_parallel():
    """Within, ``cross_entropy`` of logits that are divided along the classes keeps them divided: what is
    exchanged is a maximum and two sums for each example."""
    enabled[0] += 1
    try:
        yield
    finally:
        enabled[0] -= 1


def cross_entropy(x, target, weight=None, ignore_index=-100, reduction="mean"):
    """The loss of logits of shape (N, C), divided along C; the result is replicated."""
    mesh = x.device_mesh
    (m,) = [i for i, p in enumerate(x.placements) if p.is_shard(1)]
    group = mesh.get_group(m)
    local = x._local_tensor
    labels = target._local_tensor if isinstance(target, DTensor) else target
    width = -(-x.shape[1] // mesh.size(m))
    start = width * mesh.get_local_rank(m)

    def summed(x):
        return _AllReduce.apply(dist.ReduceOp.SUM, group, x)

    top = local.detach().amax(1)
    dist.all_reduce(top, dist.ReduceOp.MAX, group=group)
    shifted = local - top[:, None]
    total = summed(shifted.exp().sum(1))
    own = (labels >= start) & (labels < start + local.shape[1])
    place = (labels - start).clamp(0, local.shape[1] - 1)
    picked = shifted.gather(1, place[:, None])[:, 0] * own
    chosen = summed(picked)
    # The gradient of an all_reduce is a sum over processes that all have the same loss: taken once.
    count = group.size()
    losses = (total.log() - chosen) / count + ((total.log() - chosen) * (1 - 1 / count)).detach()
    counted = labels != ignore_index
    losses = losses * counted
    if reduction == "none":
        out = losses
    elif reduction == "sum":
        out = losses.sum()
    else:
        out = losses.sum() / counted.sum()
    return DTensor._made(out, mesh, [Replicate()] * mesh.ndim, tuple(out.shape))
