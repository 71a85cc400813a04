"""`ShardedGradScaler`: infinities in any process' gradients skip the step of all."""

from __future__ import annotations

import ftorch as torch

from ...amp import GradScaler
from .. import distributed_c10d as dist
from ..tensor import DTensor

__all__ = ["ShardedGradScaler"]


class _Local:
    """A parameter's own part, as `GradScaler` looks at it."""

    def __init__(self, grad):
        self.grad = grad


class _Locals:
    def __init__(self, optimizer):
        self.param_groups = [
            {"params": [_Local(g._local_tensor if isinstance(g, DTensor) else g) for g in _grads(group)]}
            for group in optimizer.param_groups
        ]


def _grads(group):
    return [p.grad for p in group["params"] if p.grad is not None]


class ShardedGradScaler(GradScaler):
    """`GradScaler` for divided parameters (``torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler``).

    Args:
        process_group: the processes that share the parameters; the default group by default.
    """

    def __init__(self, device: str = "cuda", init_scale: float = 2.0**16, backoff_factor: float = 0.5,
                 growth_factor: float = 2.0, growth_interval: int = 2000, enabled: bool = True,
                 process_group=None):
        super().__init__(
            device, init_scale=init_scale, growth_factor=growth_factor, backoff_factor=backoff_factor,
            growth_interval=growth_interval, enabled=enabled,
        )
        self.process_group = process_group

    def _unscale(self, optimizer, inverse):
        found = super()._unscale(_Locals(optimizer), inverse)
        if not dist.is_initialized():
            return found
        found = torch.zeros(()) if found is None else found.reshape(())
        dist.all_reduce(found, dist.ReduceOp.MAX, self.process_group)
        return found
