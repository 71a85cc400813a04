"""Hooks that let `ZeroRedundancyOptimizer` take its step within backward."""

from __future__ import annotations

import weakref

import ftorch as torch

__all__ = ["hook_with_zero_step", "hook_with_zero_step_interleaved"]


def hook_with_zero_step(hook, ddp, zero, shard_buckets: bool = False):
    """A hook that calls another one, and with the last bucket, when all are reduced, the optimizer's step.

    Raises:
        ValueError: if the optimizer was made without ``overlap_with_ddp``. RuntimeError: with gloo (as in PyTorch).
    """
    return _stepping(hook, ddp, zero)


def hook_with_zero_step_interleaved(hook, ddp, zero, shard_buckets: bool = False):
    """`hook_with_zero_step`: steps of parts of the parameters do not begin before all buckets are reduced here."""
    return _stepping(hook, ddp, zero)


def _stepping(hook, ddp, zero):
    if not getattr(zero, "_overlap_with_ddp", False):
        raise ValueError(
            "ZeroRedundancyOptimizer must be constructed with `overlap_with_ddp=True` to use this hook properly"
        )
    if torch.distributed.get_backend(ddp.process_group) == "gloo":
        raise RuntimeError("Gloo backend using Overlapping DDP with ZeRO may meet hangs")
    owner, under_way = weakref.ref(ddp), []

    def reduce_and_step(state, bucket):
        future = hook(state, bucket)
        under_way.append((bucket, future))
        if bucket.index() == len(owner().reducer.buckets) - 1:
            with torch.no_grad():
                for each, reduced in under_way:
                    value = reduced.wait()
                    each.set_buffer(value[0] if isinstance(value, (list, tuple)) else value)
                    for p, gradient in zip(each.parameters(), each.gradients()):
                        p.grad = gradient
            under_way.clear()
            zero._step()
        return future

    return reduce_and_step
