"""Values that stand for a jagged tensor's structure (``torch.nested._internal.ops``)."""

from __future__ import annotations


def extract_kwargs(arg) -> dict:
    """What a jagged tensor is made of beside its values: offsets, lengths, and which dimension is ragged."""
    return {
        "offsets": arg.offsets(), "lengths": arg.lengths(),
        "_ragged_idx": getattr(arg, "_ragged_idx", 1),
    }
