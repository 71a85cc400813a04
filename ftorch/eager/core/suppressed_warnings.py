"""Warning filters: tracing a kernel once more says nothing, what it warns of was said when the call was planned."""

from __future__ import annotations

import contextlib
import threading
import warnings


class _Own(threading.local):
    depth = 0


_own = _Own()


class _OfQuietThreads(type):
    def __subclasscheck__(cls, subclass):
        return _own.depth > 0


class _InQuietThreads(Warning, metaclass=_OfQuietThreads):
    """Every category of warnings, as far as the threads that are quiet go: other threads are warned as always, even where
    they copy the filters meanwhile."""


_IGNORED = ("ignore", None, _InQuietThreads, None, 0)


@contextlib.contextmanager
def quiet():
    """Without warnings in the calling thread.

    The filter is put there by hand: `warnings.catch_warnings` makes Python forget, everywhere, what it has said once.
    """
    filters: list = warnings.filters  # type: ignore[assignment]
    filters.insert(0, _IGNORED)
    _own.depth += 1
    try:
        yield
    finally:
        _own.depth -= 1
        with contextlib.suppress(ValueError):
            filters.remove(_IGNORED)  # one of them, in one instruction: other threads change the list, too
