"""Profiles of what a process is asked to do by others (``torch.distributed.rpc``)."""

from __future__ import annotations

from itertools import chain

from ...autograd.profiler import profile
from ...eager.native.contexts import repeatable

__all__: list[str] = []
_open: list[_server_process_global_profile] = []


class _server_process_global_profile(profile):  # noqa: N801
    """A profile of all threads that answer remote calls. Several can be on at once: each has what came while it was."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.entered, self._elsewhere = False, {}

    def __enter__(self):
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("autograd profiler traces are not reentrant")
        self.entered = True
        super().__enter__()
        _open.append(self)
        return self

    @repeatable
    def __exit__(self, *exception):
        if not self.enabled:
            return None
        super().__exit__(*exception)
        others = [other for other in _open if other is not self]
        for other in others:  # what was noted here was not noted there
            other._elsewhere[id(self)] = list(self._profile.events())
        _open[:] = others
        return False

    def _events(self):
        from ...profiler._events import EventList

        return EventList([*chain.from_iterable(self._elsewhere.values()), *super()._events()])

    @property
    def function_events(self):
        """All events."""
        return self._events()

    @property
    def process_global_function_events(self):
        """The events, a list for each thread."""
        threads: dict = {}
        for event in self._events():
            threads.setdefault(event.thread, []).append(event)
        return list(threads.values())

    def __getstate__(self):  # what another process sees of it
        return {**self.__dict__, "_profile": None, "_elsewhere": {0: list(self._events())}}
