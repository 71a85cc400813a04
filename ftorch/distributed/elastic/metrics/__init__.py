"""Numbers that programs report (``torch.distributed.elastic.metrics``)."""

from .api import (
    ConsoleMetricHandler,
    MetricData,
    MetricHandler,
    MetricsConfig,
    MetricStream,
    NullMetricHandler,
    configure,
    get_elapsed_time_ms,
    getStream,
    prof,
    profile,
    publish_metric,
    put_metric,
)

__all__ = [
    "ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricStream", "MetricsConfig",
    "NullMetricHandler", "configure", "getStream", "get_elapsed_time_ms", "initialize_metrics", "prof",
    "profile", "publish_metric", "put_metric",
]


def initialize_metrics(cfg: MetricsConfig | None = None) -> None:
    """Nothing: a place for a program's own handlers."""
