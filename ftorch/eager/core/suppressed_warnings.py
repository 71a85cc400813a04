"""Warning filters: tracing a kernel once more says nothing, what it warns of was said when the call was planned."""

from __future__ import annotations

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


class quiet:  # noqa: N801
    """Without warnings in the calling thread.

    The filter is put there by hand: `warnings.catch_warnings` makes Python forget, everywhere, what it has said once.
    """

    __slots__ = ("_depth", "_filters")

    def __enter__(self):
        filters: list = warnings.filters  # type: ignore[assignment]
        self._depth, self._filters = _own.depth, None
        try:
            _own.depth = self._depth + 1
            self._filters = filters  # others may have put a copy in their place when it ends
            filters.insert(0, _IGNORED)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):  # may be called once more, see `ftorch.eager.native.contexts`
        _own.depth, filters = self._depth, self._filters
        if filters is not None:
            try:
                filters.remove(_IGNORED)  # one of them, in one instruction: other threads change the list, too
            except ValueError:  # somebody has taken it away
                pass
            self._filters = None
