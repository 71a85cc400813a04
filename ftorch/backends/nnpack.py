"""``torch.backends.nnpack``: XLA brings its own convolutions."""

from __future__ import annotations

from ..eager.native.contexts import contextmanager, putting_back

__all__ = ["flags", "is_available", "set_flags"]

_enabled = [True]


def is_available() -> bool:
    """False."""
    return False


def set_flags(_enabled_now: bool) -> tuple[bool]:
    """Remembers the switch, and gives what it was."""
    before = (_enabled[0],)
    _enabled[0] = bool(_enabled_now)
    return before


@contextmanager
def flags(enabled: bool = False):
    """Sets the switch for a block."""
    with putting_back(set_flags, *_enabled):
        set_flags(enabled)
        yield
