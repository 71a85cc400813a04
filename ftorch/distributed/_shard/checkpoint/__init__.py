"""`torch.distributed.checkpoint` under its earlier name."""

import sys
import warnings

from ... import checkpoint
from ...checkpoint import *  # noqa: F403

warnings.warn(
    "`torch.distributed._shard.checkpoint` will be deprecated, use `torch.distributed.checkpoint` instead",
    DeprecationWarning,
    stacklevel=2,
)
sys.modules[__name__] = checkpoint
