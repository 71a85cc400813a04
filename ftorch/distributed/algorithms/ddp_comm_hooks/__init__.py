"""Communication hooks of `DistributedDataParallel` (``torch.distributed.algorithms.ddp_comm_hooks``)."""
# ruff: noqa: F401

from __future__ import annotations

from enum import Enum

from . import (
    debugging_hooks,
    default_hooks,
    optimizer_overlap_hooks,
    post_localSGD_hook,
    powerSGD_hook,
    quantization_hooks,
)

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class _Kind:
    """What `register_ddp_comm_hook` does for a kind of hook."""

    def __init__(self, hook, rank=None):
        self.hook, self.rank = hook, rank

    def __call__(self, model, state, start_powerSGD_iter=1_000):
        if self.rank is not None:
            state = powerSGD_hook.PowerSGDState(state, self.rank, start_powerSGD_iter)
        model.register_comm_hook(state, self.hook)


class DDPCommHookType(Enum):
    """The hooks by name."""

    ALLREDUCE = _Kind(default_hooks.allreduce_hook)
    FP16_COMPRESS = _Kind(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = _Kind(default_hooks.bf16_compress_hook)
    QUANTIZE_PER_TENSOR = _Kind(quantization_hooks.quantization_pertensor_hook)
    QUANTIZE_PER_CHANNEL = _Kind(quantization_hooks.quantization_perchannel_hook)
    POWER_SGD = _Kind(powerSGD_hook.powerSGD_hook, 1)
    POWER_SGD_RANK2 = _Kind(powerSGD_hook.powerSGD_hook, 2)
    BATCHED_POWER_SGD = _Kind(powerSGD_hook.batched_powerSGD_hook, 1)
    BATCHED_POWER_SGD_RANK2 = _Kind(powerSGD_hook.batched_powerSGD_hook, 2)
    NOOP = _Kind(debugging_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model, state=None) -> None:
    """Gives a `DistributedDataParallel` a hook by its name; ``state``: the group, None for all processes."""
    comm_hook_type.value(model=model, state=state)
