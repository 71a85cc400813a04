"""The names of ``torch.profiler.profiler``; see `ftorch.profiler`."""

from __future__ import annotations

from . import (
    DeviceType,
    ProfilerAction,
    ProfilerActivity,
    _default_schedule_fn,  # noqa: F401
    kineto_available,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

PROFILER_STEP_NAME = "ProfilerStep"

__all__ = [
    "DeviceType", "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "schedule",
    "supported_activities", "tensorboard_trace_handler",
]
