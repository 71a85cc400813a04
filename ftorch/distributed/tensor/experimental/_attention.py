"""Context parallelism under PyTorch's older name of the module."""

from ._context_parallel import context_parallel, context_parallel_unshard, set_rotate_method

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]
