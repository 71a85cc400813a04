"""What profiles are made of (``torch.autograd.profiler_util``); see `ftorch.profiler`."""

from __future__ import annotations

from collections import namedtuple

from ..eager.call.op import hooks

_NAMES = {
    "DeviceType": "DeviceType", "EventList": "EventList", "FormattedTimesMixin": "FormattedTimesMixin",
    "FunctionEvent": "FunctionEvent", "FunctionEventAvg": "FunctionEventAvg", "Interval": "Interval",
    "_format_memory": "format_memory", "_format_time": "format_time",
    "_format_time_share": "format_time_share",
}

__all__ = [*_NAMES, "Kernel"]

Kernel = namedtuple("Kernel", ["name", "device", "duration"])  # what ran on an accelerator


def __getattr__(name):
    # The profiler stands above the engine's graphs: it is imported when it is used.
    if name in _NAMES:
        return getattr(hooks.profiler()._events, _NAMES[name])
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
