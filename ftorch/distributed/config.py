"""Settings of distributed programs (``torch.distributed.config``)."""

from __future__ import annotations

import os
import sys

from ..utils._config_module import Config, install_config_module

__all__ = ["compile_on_one_rank", "use_torchcomms"]

# Read by scripts: here compiled programs hold no coordinates of a rank, and there is one transport.
compile_on_one_rank: bool = bool(os.environ.get("TORCH_DISTRIBUTED_COMPILE_ON_ONE_RANK", False))
use_torchcomms: bool = Config(default=False, env_name_default="TORCH_DISTRIBUTED_USE_TORCHCOMMS")

install_config_module(sys.modules[__name__])
