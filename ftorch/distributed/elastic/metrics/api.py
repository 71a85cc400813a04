"""Numbers, where they go, and functions that are measured."""

from __future__ import annotations

import functools
import time
import warnings
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

__all__ = [
    "ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricStream", "MetricsConfig",
    "NullMetricHandler", "configure", "getStream", "get_elapsed_time_ms", "prof", "profile",
    "publish_metric", "put_metric",
]


class MetricData(NamedTuple):
    """A number: when, of which group, its name, its value."""

    timestamp: float
    group_name: str
    name: str
    value: Any


class MetricsConfig:
    """Options of `initialize_metrics`."""

    def __init__(self, params: dict[str, str] | None = None):
        self.params = params or {}


class MetricHandler(ABC):
    """Where numbers go."""

    @abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Takes a number."""
        ...


class ConsoleMetricHandler(MetricHandler):
    """Prints them."""

    def emit(self, metric_data):
        print(f"[{metric_data.timestamp}][{metric_data.group_name}]: {metric_data.name}={metric_data.value}")


class NullMetricHandler(MetricHandler):
    """Forgets them."""

    def emit(self, metric_data):
        pass


class MetricStream:
    """The numbers of a group."""

    def __init__(self, group_name: str, handler: MetricHandler):
        self.group_name, self.handler = group_name, handler

    def add_value(self, metric_name: str, metric_value) -> None:
        """Reports a number."""
        self.handler.emit(MetricData(time.time(), self.group_name, metric_name, metric_value))


_metrics_map: dict[str, MetricHandler] = {}  # by group
_default_metrics_handler: MetricHandler = NullMetricHandler()


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Says where a group's numbers go, or those of all that have no handler of their own."""
    global _default_metrics_handler
    if group is None:
        _default_metrics_handler = handler
    else:
        _metrics_map[group] = handler


def getStream(group: str) -> MetricStream:  # noqa: N802
    """The stream of a group."""
    return MetricStream(group, _metrics_map.get(group, _default_metrics_handler))


def put_metric(metric_name: str, metric_value, metric_group: str = "torchelastic") -> None:
    """Reports a number."""
    getStream(metric_group).add_value(metric_name, metric_value)


def get_elapsed_time_ms(start_time_in_seconds: float) -> int:
    """Milliseconds since a time."""
    return int((time.time() - start_time_in_seconds) * 1000)


def _get_metric_name(fn):
    if "." in fn.__qualname__ or not fn.__module__:
        return fn.__qualname__
    return f"{fn.__module__.rpartition('.')[2]}.{fn.__qualname__}"


def _measured(fn, name, group):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        start = time.time()
        try:
            result = fn(*args, **kwargs)
            put_metric(f"{name}.success", 1, group)
            return result
        except Exception:
            put_metric(f"{name}.failure", 1, group)
            raise
        finally:
            put_metric(f"{name}.duration.ms", get_elapsed_time_ms(start), group)

    return wrapper


def prof(fn=None, group: str = "torchelastic"):
    """A decorator that reports a function's calls: success or failure, and how long they took.

    >>> from ftorch.distributed.elastic import metrics
    >>> @metrics.prof
    ... def work():
    ...     return 1
    >>> work()
    1
    """
    if fn is not None:
        return _measured(fn, _get_metric_name(fn), group)
    return lambda f: _measured(f, _get_metric_name(f), group)


def profile(group=None):
    """The older `prof`."""
    warnings.warn("Deprecated, use `@prof` instead", FutureWarning, stacklevel=2)
    return lambda f: _measured(f, f.__name__, group)


def publish_metric(metric_group: str, metric_name: str, metric_value) -> None:
    """The older `put_metric`."""
    warnings.warn(
        "Deprecated, use `put_metric(metric_group)(metric_name, metric_value)` instead", FutureWarning, stacklevel=2
    )
    put_metric(metric_name, metric_value, metric_group)
