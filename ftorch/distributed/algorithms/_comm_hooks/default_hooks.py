"""Gradients averaged over the processes of `FullyShardedDataParallel`, whole or in a narrower dtype.

The division is made in two steps, about the square root of the number of processes before and after
the sum: neither overflows nor loses small numbers in narrow dtypes.
"""

from __future__ import annotations

import ftorch as torch
from ftorch import distributed as dist

__all__ = [
    "DefaultState", "LowPrecisionState", "allreduce_hook", "bf16_compress_hook", "fp16_compress_hook",
    "reduce_scatter_hook",
]


class DefaultState:
    """The group, and the two divisors.

    Raises:
        ValueError: without a group.
    """

    def __init__(self, process_group):
        if process_group is None:
            raise ValueError(f"Expected to pass in an explicit ProcessGroup to {self}.")
        self.process_group = process_group
        self.world_size = dist.get_world_size(process_group)
        self.gradient_predivide_factor = self._get_gradient_predivide_factor(self.world_size)
        self.gradient_postdivide_factor = self.world_size / self.gradient_predivide_factor

    @staticmethod
    def _get_gradient_predivide_factor(world_size: int) -> float:
        factor = 1
        while world_size % factor == 0 and world_size / factor > factor:
            factor *= 2
        return float(factor)


class LowPrecisionState(DefaultState):
    """`DefaultState`, and the dtype of parameters."""

    def __init__(self, process_group, parameter_type=torch.float32):
        super().__init__(process_group)
        self.parameter_type = parameter_type


def allreduce_hook(state: DefaultState, grad) -> None:
    """The average, in place."""
    grad.div_(state.gradient_predivide_factor)
    dist.all_reduce(grad, group=state.process_group)
    grad.div_(state.gradient_postdivide_factor)


def reduce_scatter_hook(state: DefaultState, grad, output) -> None:
    """The own part of the average, into ``output``."""
    grad.div_(state.gradient_predivide_factor)
    dist.reduce_scatter_single(output, grad, group=state.process_group)
    output.div_(state.gradient_postdivide_factor)


def _low_precision_hook(dtype, state, grad, output):
    grad.data = grad.data.to(dtype)
    if output is None:
        allreduce_hook(state, grad)
        output = grad
    else:
        output.data = output.data.to(dtype)
        reduce_scatter_hook(state, grad, output)
    output.data = output.data.to(state.parameter_type)


def fp16_compress_hook(state: LowPrecisionState, grad, output=None) -> None:
    """The average (of ``grad`` in place, or its own part into ``output``), exchanged as float16."""
    _low_precision_hook(torch.float16, state, grad, output)


def bf16_compress_hook(state: LowPrecisionState, grad, output=None) -> None:
    """The average (of ``grad`` in place, or its own part into ``output``), exchanged as bfloat16."""
    _low_precision_hook(torch.bfloat16, state, grad, output)
