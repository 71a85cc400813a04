"""Tracing a kernel once more says nothing: what it warns of was said when the call was planned."""

from __future__ import annotations

import contextlib
import warnings


@contextlib.contextmanager
def quiet():
    """Without warnings.

    The filter is put there by hand: `warnings.catch_warnings` makes Python forget, everywhere, what it has said once.
    """
    ignored = tuple(["ignore", None, Warning, None, 0])  # one of its own, by which it is found again
    filters: list = warnings.filters  # type: ignore[assignment]
    filters.insert(0, ignored)
    try:
        yield
    finally:
        for i, entry in enumerate(filters):
            if entry is ignored:
                del filters[i]
                break
