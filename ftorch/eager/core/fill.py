"""Uninitialized memory: it holds zeros, or in deterministic mode what is soon noticed."""

from __future__ import annotations

import numpy as np

# Set by `use_deterministic_algorithms` and `torch.utils.deterministic.fill_uninitialized_memory`.
is_deterministic = False
is_wanted = True


def value(dtype):
    """A number that fills memory which nobody has written to; None: it stays zeros."""
    if not (is_deterministic and is_wanted):
        return None
    if dtype.is_floating_point or dtype.is_complex:
        return float("nan")
    kind = np.dtype(dtype.numpy)
    if kind.kind == "b":
        return True
    return int(np.iinfo(kind).max) if kind.kind in "iu" else None
