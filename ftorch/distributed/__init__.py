"""Programs of several processes (``torch.distributed``)."""

# ruff: noqa: F401
import sys
from datetime import timedelta

from .._submodules import on_demand as _on_demand
from . import distributed_c10d
from ._bucket import GradBucket
from ._reducer import compute_bucket_assignment_by_size as _compute_bucket_assignment_by_size
from .device_mesh import DeviceMesh, init_device_mesh
from .distributed_c10d import *  # noqa: F403
from .distributed_c10d import Work as _Work
from .distributed_c10d import (
    _all_gather_base,
    _coalescing_manager,
    _get_process_group_name,
    _make_nccl_premul_sum,
    _rank_not_in_group,
    _reduce_scatter_base,
)
from .remote_device import _remote_device


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: int = 3600) -> None:
    """Python's debugger in one process; the others wait."""
    import pdb

    if get_rank() == rank:  # noqa: F405
        pdb.Pdb().set_trace(sys._getframe(1))
    barrier()  # noqa: F405

__getattr__ = _on_demand(globals(), "algorithms autograd c10d_logger config logging_handlers remote_device rpc utils")
