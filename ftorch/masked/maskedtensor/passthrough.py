"""The functions that move elements of masked tensors, and of their masks in the same way."""

from __future__ import annotations

from ._packets import packets

__getattr__ = packets(globals(), PASSTHROUGH_FNS=(
    "select transpose split t slice slice_backward select_backward index expand view _unsafe_view _reshape_alias cat "
    "unsqueeze unfold unfold_backward im2col col2im stack".split()
))
