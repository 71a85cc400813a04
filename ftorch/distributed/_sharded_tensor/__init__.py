"""`torch.distributed._shard.sharded_tensor` under its earlier name."""

import sys
import warnings

from .._shard import sharded_tensor
from .._shard.sharded_tensor import *  # noqa: F403

warnings.warn(
    "`torch.distributed._sharded_tensor` will be deprecated, use `torch.distributed._shard.sharded_tensor` instead",
    DeprecationWarning,
    stacklevel=2,
)
sys.modules[__name__] = sharded_tensor
