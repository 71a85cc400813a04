"""What a program spends its time and memory on (``torch.profiler``).

>>> import ftorch as torch
>>> from ftorch.profiler import ProfilerActivity, profile
>>> with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as p:
...     y = torch.ones(3, 4) @ torch.ones(4, 5)
>>> [(e.key, e.count) for e in p.key_averages() if "matmul" in e.key]
[('aten::matmul', 1)]
"""

from __future__ import annotations

import enum
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import jax

from .._old_names import place_in
from .._submodules import on_demand as _on_demand
from . import itt
from ._collector import Collector, record_function
from ._events import DeviceType, EventList, FunctionEvent, FunctionEventAvg, write_chrome_trace


class ProfilerActivity(enum.Enum):
    """What is collected: calls and programs; devices' own traces come from JAX (``logdir``)."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a profile does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def _default_schedule_fn(step: int) -> ProfilerAction:
    """Everything is recorded."""
    return ProfilerAction.RECORD


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: int = 0) -> Callable[[int], ProfilerAction]:
    """What to do in each step: skips, then cycles of waiting, warming up and recording.

    Args:
        repeat: the number of cycles; 0 is without end.
        skip_first_wait: 1 leaves the first cycle's waiting out.

    Raises:
        AssertionError: negative numbers, or nothing to record.

    >>> from ftorch.profiler import schedule
    >>> action = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [action(i).name for i in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} "
            f"(need >= 0), active={active} (need > 0), repeat={repeat} (need >= 0), "
            f"skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        if repeat > 0 and step // length >= repeat:
            return ProfilerAction.NONE
        step %= length
        if step < wait:
            return ProfilerAction.NONE
        if step < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if step < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False):
    """Writes each trace to a folder, under the names that TensorBoard's plugin looks for."""

    def handler(prof) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        suffix = ".pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}{suffix}"))

    return handler


class _ExperimentalConfig:
    """PyTorch's settings of its collector; they have no effect."""

    def __init__(self, profiler_metrics=(), profiler_measure_per_kernel=False, verbose=False, **options):
        self.profiler_metrics = list(profiler_metrics)
        self.profiler_measure_per_kernel, self.verbose = profiler_measure_per_kernel, verbose
        self.options = options


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:
    """Collects calls, programs and compilations in a ``with`` block.

    Args:
        activities: `ProfilerActivity`; the default is CPU.
        schedule: what to do in each step (`schedule`); without one everything is recorded.
        on_trace_ready: called with the profile when a cycle is complete.
        record_shapes: takes down the shapes of inputs.
        profile_memory: counts the bytes of results.
        with_stack: takes down the source lines.
        acc_events: keeps the events of earlier cycles.
        synchronous: runs every op at once, so that its own time is seen; else calls record, and
            programs (``ftorch::program``) compute.
        logdir: where JAX's own trace goes, with what devices do (TensorBoard, Perfetto).

    Attributes:
        step_num, current_action: where the schedule is.
    """

    def __init__(self, *, activities: Iterable[ProfilerActivity] | None = None,
                 schedule: Callable[[int], ProfilerAction] | None = None,
                 on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False,
                 profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
                 with_modules: bool = False, experimental_config=None,
                 execution_trace_observer=None, acc_events: bool = False, use_cuda=None,
                 custom_trace_id_callback=None, synchronous: bool = False,
                 logdir: str | None = None):
        self.activities = supported_activities() if activities is None else set(activities)
        if use_cuda:
            self.activities.add(ProfilerActivity.CUDA)
        if ProfilerActivity.CUDA in self.activities - supported_activities():
            warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        self.schedule = schedule or _default_schedule_fn
        self._has_schedule = schedule is not None
        self.on_trace_ready = on_trace_ready
        self._options = {"record_shapes": record_shapes, "profile_memory": profile_memory,
                         "with_stack": with_stack, "synchronous": synchronous,
                         "with_flops": with_flops}
        self._is_initialized = self._is_saved = False
        self.acc_events, self.logdir = acc_events, logdir
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._collector: Collector | None = None
        self._events: list[FunctionEvent] = []
        self._metadata: dict[str, Any] = {}
        self._began = 0.0
        self._step: FunctionEvent | None = None

    # --- phases

    def _begin(self):
        self._collector = Collector(**self._options)
        if self.logdir is not None:
            jax.profiler.start_trace(self.logdir)
        self._collector.start()
        self._is_initialized, self._is_saved = True, False
        if self._has_schedule:
            self._step = self._collector.open("ProfilerStep*", "user", step=self.step_num)

    def _finish(self):
        collector = self._collector
        if collector is None:
            return
        if self._step is not None:
            collector.close(self._step)
            self._step = None
        collector.stop()
        if self.logdir is not None:
            jax.profiler.stop_trace()
        self._events = (self._events if self.acc_events else []) + collector.events
        self._began = collector.began
        self._collector = None

    def start(self) -> None:
        """Begins the first step."""
        if self.current_action in _RECORDING:
            self._begin()

    def stop(self) -> None:
        """Ends; a cycle that is under way is complete."""
        recording = self._collector is not None
        self._finish()
        if recording and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """The next step of the schedule begins."""
        previous = self.current_action
        if self._collector is not None and self._step is not None:
            self._collector.close(self._step)
            self._step = None
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        if previous is ProfilerAction.RECORD_AND_SAVE or (
            previous is ProfilerAction.RECORD and self.current_action not in _RECORDING
        ):
            self._finish()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        if self.current_action is ProfilerAction.WARMUP and self._events and not self.acc_events:
            warnings.warn(
                "Warning: Profiler clears events at the end of each cycle. Only events from the current "
                "cycle will be reported. To keep events across cycles, set acc_events=True",
                stacklevel=2,
            )
        if self.current_action in _RECORDING:
            if self._collector is None:
                self._begin()
            elif self._has_schedule:
                self._step = self._collector.open("ProfilerStep*", "user", step=self.step_num)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    # --- results

    def _check(self, what):
        if not self._is_initialized:
            raise AssertionError(f"Profiler must be initialized before {what}")

    def events(self) -> EventList:
        """The events of the last cycle."""
        self._check("accessing events")
        events = self._events if self._collector is None else self._collector.events
        return EventList(events, self._options["profile_memory"], self._options["record_shapes"])

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> EventList:
        """The averages by name."""
        self._check("getting key averages")
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str) -> None:
        """Writes the events for ``chrome://tracing`` or Perfetto; ``.gz`` is compressed."""
        self._check("exporting chrome trace")
        if self._is_saved:
            raise RuntimeError("Trace is already saved.")
        self._is_saved = True
        write_chrome_trace(self.events(), path, self._metadata, self._began)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes stacks with their times, for flame graphs. Needs ``with_stack``.

        Raises:
            AssertionError: there are no stacks.
            ValueError: another metric.
        """
        self._check("exporting stacks")
        if not self._options["with_stack"]:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.events().export_stacks(path, metric)

    def toggle_collection_dynamic(self, enable: bool, activities) -> None:
        """Stops and goes on collecting, within a cycle."""
        if self._collector is not None and ProfilerActivity.CPU in activities:
            (self._collector.resume if enable else self._collector.suspend)()

    def add_metadata(self, key: str, value: str) -> None:
        """Text to keep in the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """JSON to keep in the trace."""
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def compilations(self) -> list[FunctionEvent]:
        """The compilations, longest first (`ftorch.utils.bottleneck` sums them up)."""
        return sorted(
            (e for e in self.events() if e.category == "compile"), key=lambda e: -e.cpu_time_total
        )


def supported_activities() -> set[ProfilerActivity]:
    """What can be collected here."""
    found = {ProfilerActivity.CPU}
    if jax.default_backend() in ("gpu", "cuda"):
        found.add(ProfilerActivity.CUDA)
    return found


def kineto_available() -> bool:
    """Whether profiles can be made."""
    return True


__getattr__ = _on_demand(globals(), "profiler")

__all__ = [
    "DeviceType", "EventList", "FunctionEvent", "FunctionEventAvg", "ProfilerAction",
    "ProfilerActivity", "itt", "kineto_available", "profile", "record_function", "schedule",
    "supported_activities", "tensorboard_trace_handler",
]

place_in("profiler.profiler", ProfilerAction, profile)
