"""Gradients of `DistributedDataParallel` with mixed precision: summed in a narrow dtype, then widened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....futures import Future
from ... import distributed_c10d as dist


@dataclass
class _AllreduceUpcastHookState:
    """What the hook knows.

    Attributes:
        ddp_weakref: gives the wrapped module. ``upcast_stream``: where accelerators widen; computations here are ordered by
            what they need.
    """

    ddp_weakref: Any
    upcast_stream: Any = None
    wait_for_stream_enqueued: bool = False


def _reducer_allreduce_and_upcast_hook(hook_state: _AllreduceUpcastHookState, bucket) -> Future:
    """The average of a bucket, exchanged in ``reduce_dtype`` (else ``param_dtype``) and given in the gradients' own."""
    ddp = hook_state.ddp_weakref()
    settings, group, wide = ddp.mixed_precision, ddp.process_group, bucket.buffer()
    narrow = wide.to(settings.reduce_dtype or settings.param_dtype or wide.dtype)
    work = dist.all_reduce(narrow, group=group, async_op=True)
    count = group.size() if bucket.divisor is None else bucket.divisor
    return work.get_future().then(lambda f: f.value()[0].div_(count).to(wide.dtype))
