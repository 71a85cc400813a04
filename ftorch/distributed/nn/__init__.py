"""Collectives with derivatives (``torch.distributed.nn``)."""

from .._reductions import ReduceOp
from ..distributed_c10d import group
from . import functional
from .api.remote_module import RemoteModule
from .functional import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)

__all__ = [
    "ReduceOp",
    "RemoteModule",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "functional",
    "gather",
    "group",
    "reduce",
    "reduce_scatter",
    "scatter",
]
