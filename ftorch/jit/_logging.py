"""Numbers that programs count (``torch.jit._logging``)."""

from __future__ import annotations

import enum
import time


class AggregationType(enum.IntEnum):
    """What a counter shows of its values."""

    SUM = 0
    AVG = 1


class NoopLogger:
    """Keeps nothing."""

    def _add(self, name: str, value: int) -> None:
        pass


class LockingLogger(NoopLogger):
    """Keeps sums or means by name.

    >>> from ftorch.jit import _logging
    >>> logger = _logging.LockingLogger()
    >>> before = _logging.set_logger(logger)
    >>> _logging.add_stat_value("steps", 2), _logging.add_stat_value("steps", 4), logger.get_counter_val("steps")
    (None, None, 6)
    >>> logger.set_aggregation_type("steps", _logging.AggregationType.AVG), logger.get_counter_val("steps")
    (None, 3)
    >>> _ = _logging.set_logger(before)
    """

    def __init__(self):
        self._values: dict[str, list[int]] = {}
        self._kinds: dict[str, AggregationType] = {}

    def _add(self, name, value):
        self._values.setdefault(name, []).append(value)

    def get_counter_val(self, name: str) -> int:
        """The sum or the mean of the values that a counter was given; 0 without any."""
        values = self._values.get(name, [])
        mean = self._kinds.get(name) is AggregationType.AVG
        return sum(values) // (len(values) if mean and values else 1)

    def set_aggregation_type(self, name: str, kind: AggregationType) -> None:
        """Says whether a counter shows the sum or the mean."""
        self._kinds[name] = kind


_current: NoopLogger = NoopLogger()


def set_logger(logger: NoopLogger) -> NoopLogger:
    """Makes a logger the one that gets values; gives the former."""
    global _current
    before, _current = _current, logger
    return before


def add_stat_value(name: str, value: int) -> None:
    """Gives a counter a value."""
    _current._add(name, value)


def time_point() -> int:
    """Nanoseconds since some moment."""
    return time.perf_counter_ns()
