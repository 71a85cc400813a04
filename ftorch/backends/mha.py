"""``torch.backends.mha``: whether encoder layers may take their fast path in evaluation."""

from __future__ import annotations

_fastpath = [True]


def get_fastpath_enabled() -> bool:
    """What was set; XLA fuses a layer either way."""
    return _fastpath[0]


def set_fastpath_enabled(value: bool) -> None:
    """Remembers the switch."""
    _fastpath[0] = bool(value)
