"""Counters and events of long runs (``torch.monitor``)."""

from __future__ import annotations

import datetime
import enum
import threading
import time
from collections.abc import Callable

__all__ = [
    "Aggregation", "Event", "EventHandlerHandle", "STAT_EVENT", "Stat", "TensorboardEventHandler",
    "data_value_t", "log_event", "register_event_handler", "unregister_event_handler",
]

STAT_EVENT = "torch.monitor.Stat"


class Aggregation(enum.Enum):
    """How a `Stat` sums up the values of its window."""

    NONE = 0
    VALUE = 1
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


VALUE, MEAN, COUNT = Aggregation.VALUE, Aggregation.MEAN, Aggregation.COUNT
SUM, MAX, MIN = Aggregation.SUM, Aggregation.MAX, Aggregation.MIN


class data_value_t:
    """The type of an event's values: str, int, float or bool."""


class Event:
    """What happened: a name, a time and values.

    Raises:
        TypeError: for a value that is no str, int, float or bool.
    """

    def __init__(self, name: str, timestamp: datetime.datetime, data: dict):
        for value in data.values():
            if not isinstance(value, (str, int, float, bool)):
                raise TypeError(f"an event's values are of type str, int, float or bool, not {type(value).__name__}")
        self.name, self.timestamp, self.data = name, timestamp, dict(data)


class EventHandlerHandle:
    """What `register_event_handler` gives."""

    def __init__(self, callback):
        self._callback = callback


_handlers: list[EventHandlerHandle] = []


def register_event_handler(callback: Callable[[Event], None]) -> EventHandlerHandle:
    """Calls ``callback`` with every event from now on."""
    handle = EventHandlerHandle(callback)
    _handlers.append(handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Ends that."""
    if handler in _handlers:
        _handlers.remove(handler)


def log_event(event: Event) -> None:
    """Gives an event to all handlers.

    >>> import datetime
    >>> import ftorch as torch
    >>> seen = []
    >>> handle = torch.monitor.register_event_handler(seen.append)
    >>> torch.monitor.log_event(torch.monitor.Event("step", datetime.datetime.now(), {"loss": 1.0}))
    >>> torch.monitor.unregister_event_handler(handle)
    >>> seen[0].data
    {'loss': 1.0}
    """
    for handle in list(_handlers):
        handle._callback(event)


class Stat:
    """Sums up numbers over windows of time; the end of a window is an event ``torch.monitor.Stat``.

    Args:
        aggregations: what to compute.
        window_size: how long a window is.
        max_samples: after which a window ends early.
    """

    def __init__(self, name, aggregations, window_size, max_samples=2**63 - 1):
        self.name = name
        self._aggregations = list(aggregations)
        self._window, self._most = window_size.total_seconds(), max_samples
        self._lock = threading.Lock()
        self._values: list[float] = []
        self._last: list[float] = []
        self._began = time.monotonic()

    @property
    def count(self) -> int:
        """The number of values of the window that runs."""
        return len(self._values)

    def add(self, v: float) -> None:
        """Adds a number."""
        with self._lock:
            self._close(time.monotonic())
            self._values.append(float(v))
            if len(self._values) >= self._most:
                self._close(None)

    def get(self) -> dict[Aggregation, float]:
        """{aggregation: value} of the last window that ended."""
        with self._lock:
            self._close(time.monotonic())
            return self._summed(self._last) if self._last else dict.fromkeys(self._aggregations, 0.0)

    def _close(self, now):
        if now is not None and now - self._began < self._window:
            return
        self._last, self._values, self._began = self._values, [], time.monotonic()
        if self._last:
            data = {f"{self.name}.{k.name.lower()}": v for k, v in self._summed(self._last).items()}
            log_event(Event(STAT_EVENT, datetime.datetime.now(), data))

    def _summed(self, values):
        ways = {
            VALUE: lambda: values[-1], MEAN: lambda: sum(values) / len(values), COUNT: lambda: float(len(values)),
            SUM: lambda: sum(values), MAX: lambda: max(values), MIN: lambda: min(values), Aggregation.NONE: lambda: 0.0,
        }
        return {k: ways[k]() for k in self._aggregations}


class TensorboardEventHandler:
    """Writes the values of `Stat`'s events as scalars with a ``SummaryWriter``."""

    def __init__(self, writer):
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
