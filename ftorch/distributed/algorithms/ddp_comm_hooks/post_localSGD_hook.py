"""Averages over all processes at first, then within small groups."""

from __future__ import annotations

from ... import distributed_c10d as dist
from .default_hooks import _average

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """The groups, and from which step on gradients stay within the smaller ones.

    Args:
        process_group: all processes. ``subgroup``: those of the later steps.
        start_localSGD_iter: the step. ``post_local_gradient_allreduce``: whether they average at all then.
    """

    def __init__(self, process_group, subgroup, start_localSGD_iter, post_local_gradient_allreduce=True):
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket) -> None:
        """Counts a step with its last bucket."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket):
    """The average over all processes, from some step on over the subgroup."""
    before = state.iter < state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if before:
        return _average(state.process_group or dist.group.WORLD, bucket.buffer())
    if not state.post_local_gradient_allreduce:
        from .debugging_hooks import noop_hook

        return noop_hook(None, bucket)
    return _average(state.subgroup, bucket.buffer())
