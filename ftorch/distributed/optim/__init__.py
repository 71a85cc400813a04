"""Optimizers over processes (``torch.distributed.optim``)."""

from .apply_optimizer_in_backward import (
    _apply_optimizer_in_backward as _apply_optimizer_in_backward,
)
from .apply_optimizer_in_backward import _get_in_backward_optimizers as _get_in_backward_optimizers
from .named_optimizer import _NamedOptimizer as _NamedOptimizer
from .optimizer import DistributedOptimizer
from .post_localSGD_optimizer import PostLocalSGDOptimizer
from .utils import as_functional_optim
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer", "as_functional_optim"]
