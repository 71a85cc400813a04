"""Collectives whose tensors travel in a narrower dtype."""

from __future__ import annotations

import functools
from enum import Enum

import ftorch as torch
from ftorch import distributed as dist

__all__ = ["DQuantType", "auto_quantize"]


class DQuantType(Enum):
    """How tensors travel."""

    FP16 = ("fp16",)
    BFP16 = ("bfp16",)

    def __str__(self):
        return self.value


_DTYPES = {DQuantType.FP16: torch.float16, DQuantType.BFP16: torch.bfloat16}


def auto_quantize(func, qtype: DQuantType, quant_loss=None):
    """`all_gather` or `all_to_all_single` of float32 tensors that travel as 16 bits.

    Raises:
        RuntimeError: for other collectives, or ``async_op=True``.
    """
    dtype = _DTYPES[qtype]

    @functools.wraps(func)
    def narrow(*args, **kwargs):
        if kwargs.get("async_op"):
            raise RuntimeError("The async_op=True mode is not supported yet.")
        if func is dist.all_gather:
            outputs, given = args[0], args[1]
            received = [torch.empty_like(t, dtype=dtype) for t in outputs]
            func(received, given.to(dtype), group=kwargs.get("group"))
            for t, got in zip(outputs, received):
                t.copy_(got)
        elif func is dist.all_to_all_single:
            output, given = args[0], args[1]
            received = torch.empty_like(output, dtype=dtype)
            func(received, given.to(dtype), *args[2:4], group=kwargs.get("group"))
            output.copy_(received)
        else:
            raise RuntimeError(f"The collective op {func} is not supported yet")

    return narrow
