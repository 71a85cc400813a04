"""Settings of distributed programs (``torch.distributed.config``), which scripts read: here compiled programs hold no
coordinates of a rank, and there is one transport.
"""

from __future__ import annotations

import os

from ..utils._config_module import install

compile_on_one_rank: bool
use_torchcomms: bool

install(__name__, plain={
    "compile_on_one_rank": bool(os.environ.get("TORCH_DISTRIBUTED_COMPILE_ON_ONE_RANK")),
    "use_torchcomms": os.environ.get("TORCH_DISTRIBUTED_USE_TORCHCOMMS") == "1",
})

__all__ = ["compile_on_one_rank", "use_torchcomms"]
