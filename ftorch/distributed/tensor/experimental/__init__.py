"""Functions on local parts, context parallelism, rules of one's own (``torch.distributed.tensor.experimental``)."""

from .._dispatch import implicit_replication
from ._context_parallel import context_parallel
from ._func_map import local_map
from ._register_sharding import register_sharding

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]
