"""The older profiler (``torch.autograd.profiler``); see `ftorch.profiler`."""

from __future__ import annotations

import contextlib
import importlib

_NAMES = {
    "DeviceType": "_events", "EventList": "_events", "FunctionEvent": "_events",
    "FunctionEventAvg": "_events", "record_function": "_collector",
}  # fmt: skip

__all__ = ["emit_itt", "emit_nvtx", "kineto_available", "load_nvprof", "profile", *_NAMES]


def __getattr__(name):
    # The profiler stands above the engine's graphs: it is imported when it is used.
    if name in _NAMES:
        module = importlib.import_module(f"ftorch.profiler.{_NAMES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


class profile:
    """Collects calls, programs and compilations in a ``with`` block.

    Args:
        enabled: False does nothing.
        record_shapes, profile_memory, with_stack: as in `ftorch.profiler.profile`.
        logdir: where JAX's own trace goes, for TensorBoard or Perfetto.

    Attributes:
        self_cpu_time_total: microseconds of the events.

    >>> import ftorch as torch
    >>> with torch.autograd.profiler.profile() as p:
    ...     y = torch.ones(2).exp()
    >>> "aten::exp" in {e.key for e in p.key_averages()}
    True
    """

    def __init__(self, enabled: bool = True, *, record_shapes=False, profile_memory=False,
                 with_stack=False, logdir: str | None = None, synchronous=False, **_):  # fmt: skip
        self.enabled = enabled
        self._options = {"record_shapes": record_shapes, "profile_memory": profile_memory,
                         "with_stack": with_stack, "logdir": logdir,
                         "synchronous": synchronous}  # fmt: skip
        self._profile = None

    def __enter__(self):
        if self._profile is not None:
            raise RuntimeError("Profiler context manager is not reentrant")
        if self.enabled:
            from ..profiler import profile as inner

            self._profile = inner(**self._options)
            self._profile.start()
        return self

    def __exit__(self, *_):
        if self._profile is not None:
            self._profile.stop()

    def _inner(self):
        if self._profile is None:
            raise RuntimeError("Profiler didn't finish running")
        return self._profile

    def _events(self):
        from ..profiler import EventList

        return EventList() if self._profile is None else self._profile.events()

    @property
    def function_events(self):
        """The events."""
        return self._inner().events()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the events."""
        return 0.0 if self._profile is None else self._profile.events().self_cpu_time_total

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0,
                     group_by_overload_name=False):  # fmt: skip
        """The averages by name."""
        return self._events().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self):
        """All events as one."""
        return self._events().total_average()

    def table(self, *args, **kwargs) -> str:
        """The events as a table."""
        return self._events().table(*args, **kwargs)

    def export_chrome_trace(self, path) -> None:
        """Writes the events for ``chrome://tracing``."""
        self._inner().export_chrome_trace(path)

    def __repr__(self):
        if self._profile is None:
            return "<unfinished torch.autograd.profile>" if self.enabled else "None"
        return repr(self._events())

    def __str__(self):
        return repr(self) if self._profile is None else self.table()


@contextlib.contextmanager
def emit_nvtx(enabled: bool = True, record_shapes: bool = False):
    """Does nothing: JAX emits ranges for NVIDIA's profiler by itself."""
    yield


@contextlib.contextmanager
def emit_itt(enabled: bool = True, record_shapes: bool = False):
    """Does nothing: Intel's profiler sees JAX's ranges."""
    yield


def load_nvprof(path):
    """Reads a database of nvprof's.

    Raises:
        NotImplementedError: always; nvprof knows nothing of JAX's programs.
    """
    raise NotImplementedError("nvprof's databases are not read; see logdir of torch.profiler.profile")


def kineto_available() -> bool:
    """Whether profiles can be made."""
    return True
