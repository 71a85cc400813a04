"""``torch.accelerator.graphs``: captured work of an accelerator. XLA's programs are what is replayed here."""

from __future__ import annotations

from . import is_available

__all__ = ["Graph"]


class Graph:
    """Raises RuntimeError: use ``torch.compile``, whose programs are launched as a whole."""

    def __init__(self, keep_graph: bool = False, *, pool=None, capture_error_mode="default"):
        if not is_available():
            raise RuntimeError("Cannot access accelerator device when none is available.")
        raise RuntimeError(
            "Capture of a stream is not supported on XLA: torch.compile a function, whose program is "
            "launched as a whole."
        )
