"""``torch.cpu.amp.autocast``."""

from __future__ import annotations

from typing import Any

from typing_extensions import deprecated

from ...amp import autocast as _autocast
from ...eager.core.dtype import bfloat16

__all__ = ["autocast"]


class autocast(_autocast):
    """``torch.amp.autocast("cpu", ...)`` under its older name."""

    @deprecated(
        "`torch.cpu.amp.autocast(args...)` is deprecated. "
        "Please use `torch.amp.autocast('cpu', args...)` instead.",
        category=FutureWarning,
    )
    def __init__(self, enabled: bool = True, dtype: Any = bfloat16, cache_enabled: bool = True):
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)
