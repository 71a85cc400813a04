"""``torch.backends.kleidiai``: Arm's kernels, which XLA does not use."""

from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False
