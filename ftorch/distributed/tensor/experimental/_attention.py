"""Context parallelism under PyTorch's older name of the module."""

from ._context_parallel import (  # noqa: F401
    _context_parallel_shard,
    _create_default_load_balancer,
    _disable_context_parallel_dispatcher,
    _enable_context_parallel_dispatcher,
    _HeadTailLoadBalancer,
    _LoadBalancer,
    context_parallel,
    context_parallel_unshard,
    set_rotate_method,
)
from ._context_parallel._attention import _cp_options  # noqa: F401

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]
