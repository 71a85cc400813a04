"""`torch.distributed._shard.sharding_spec` under its earlier name."""

import sys
import warnings

from .._shard import sharding_spec
from .._shard.sharding_spec import *  # noqa: F403

warnings.warn(
    "`torch.distributed._sharding_spec` will be deprecated, use `torch.distributed._shard.sharding_spec` instead",
    DeprecationWarning,
    stacklevel=2,
)
sys.modules[__name__] = sharding_spec
