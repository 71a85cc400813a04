"""Modules over several processes and devices (``torch.nn.parallel``)."""

from ..._submodules import on_demand as _on_demand
from .data_parallel import DataParallel, data_parallel
from .distributed import DistributedDataParallel
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter

__getattr__ = _on_demand(globals(), "_functions")

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate",
    "scatter",
]
