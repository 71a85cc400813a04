"""``torch.backends.mkldnn``: XLA brings its own convolutions for the CPU."""

from __future__ import annotations

from . import make_flags


def is_available() -> bool:
    """False."""
    return False


make_flags(__name__, enabled=True, deterministic=False, allow_tf32=True, fp32_precision="none")
