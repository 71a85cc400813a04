"""What is logged of ``torch.compile`` (``torch._logging``): also by the variable ``TORCH_LOGS``."""

from .._submodules import on_demand as _on_demand
from ..jit.graphs.logs import set_logs
from . import _internal, _registrations  # noqa: F401  (the latter names the loggers)
from ._internal import (
    LazyString,
    dtrace_structured,
    get_structured_logging_overhead,
    getArtifactLogger,
    hide_warnings,
    trace_structured,
    trace_structured_artifact,
    warning_once,
)

__getattr__ = _on_demand(globals(), "structured")

__all__ = [
    "LazyString", "dtrace_structured", "getArtifactLogger", "get_structured_logging_overhead", "hide_warnings", "set_logs",
    "trace_structured", "trace_structured_artifact", "warning_once",
]
