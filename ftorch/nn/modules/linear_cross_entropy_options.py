"""How `LinearCrossEntropyLoss` is computed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ...eager.core import dtype as dtypes

__all__ = ["LinearCrossEntropyOptions"]

_POLICIES = ("auto", "accurate", "balanced", "compact")
_METHOD = re.compile(r"aspect_ratio(:0*[1-9]\d*)?")


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How PyTorch divides the computation into parts.

    Here it is not divided: the options are checked, and do not change the result.

    Raises:
        ValueError: a value that PyTorch does not take.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self):
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        method, size = self.chunking_method, self.batch_chunk_size
        if method is not None and method != "auto" and not _METHOD.fullmatch(method):
            raise ValueError(f"invalid chunking_method: {method!r}")
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        allowed = (None, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
        if self.acc_dtype not in allowed:
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, "
                f"torch.float64}}, got {self.acc_dtype!r}. Pass acc_dtype=None to let the op pick "
                "automatically."
            )
