"""Attention over sequences that are divided over processes."""
# ruff: noqa: F401

from ._attention import (
    _context_parallel_shard,
    _disable_context_parallel_dispatcher,
    _enable_context_parallel_dispatcher,
    context_parallel,
    context_parallel_unshard,
    set_rotate_method,
)
from ._load_balancer import _create_default_load_balancer, _HeadTailLoadBalancer, _LoadBalancer

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]
