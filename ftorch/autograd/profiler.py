"""The older profiler (``torch.autograd.profiler``); see `ftorch.profiler`."""

from __future__ import annotations

import collections

from ..eager.call.op import hooks
from ..eager.native.contexts import contextmanager

_NAMES = ("DeviceType", "EventList", "FunctionEvent", "FunctionEventAvg", "record_function")

__all__ = [
    "EnforceUnique", "KinetoStepTracker", "MemRecordsAcc", "emit_itt", "emit_nvtx", "kineto_available",
    "load_nvprof", "parse_nvprof_trace", "profile", *_NAMES,
]


def __getattr__(name):
    # The profiler stands above the engine's graphs: it is imported when it is used.
    if name in _NAMES:
        return getattr(hooks.profiler(), name)
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
                 with_stack=False, logdir: str | None = None, synchronous=False, **_):
        self.enabled = enabled
        self._options = {"record_shapes": record_shapes, "profile_memory": profile_memory,
                         "with_stack": with_stack, "logdir": logdir,
                         "synchronous": synchronous}
        self._profile = None

    def __enter__(self):
        if self._profile is not None:
            raise RuntimeError("Profiler context manager is not reentrant")
        if self.enabled:
            self._profile = hooks.profiler().profile(**self._options)
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
        return hooks.profiler().EventList() if self._profile is None else self._profile.events()

    @property
    def function_events(self):
        """The events."""
        return self._inner().events()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the events."""
        return 0.0 if self._profile is None else self._profile.events().self_cpu_time_total

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0,
                     group_by_overload_name=False):
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


@contextmanager
def emit_nvtx(enabled: bool = True, record_shapes: bool = False):
    """Does nothing: JAX emits ranges for NVIDIA's profiler by itself."""
    yield


@contextmanager
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


def parse_nvprof_trace(path):
    """Reads a database of nvprof's.

    Raises:
        NotImplementedError: always; nvprof knows nothing of JAX's programs.
    """
    return load_nvprof(path)


class EnforceUnique:
    """Keys that may come once.

    >>> keys = EnforceUnique()
    >>> keys.see("a")
    """

    def __init__(self):
        self.seen = set()

    def see(self, *key):
        """Raises RuntimeError for a key that came before."""
        if key in self.seen:
            raise RuntimeError(f"duplicate key: {key}")
        self.seen.add(key)


class MemRecordsAcc:
    """Records of memory in the order of time, to be asked by intervals.

    Args:
        mem_records: (record, ...) pairs, whose first has ``start_ns()``.
    """

    def __init__(self, mem_records):
        self._mem_records = sorted(mem_records, key=lambda record: record[0].start_ns())

    def in_interval(self, start_ns, end_ns):
        """Those between two times, both included."""
        for record in self._mem_records:
            if start_ns <= record[0].start_ns() <= end_ns:
                yield record


class KinetoStepTracker:
    """Counts a program's steps where several things call ``step``: the one that has most of them decides."""

    _current_step = 0
    _step_dict: collections.defaultdict = collections.defaultdict(int)

    @classmethod
    def init_step_count(cls, requester: str):
        """Begins a requester's count at the present step."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Forgets a requester; whether there was one."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """A requester's next step; the step that the program is at.

        A requester that is new begins at the present step.
        """
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        cls._current_step = max(cls._current_step, *cls._step_dict.values())
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """The step that the program is at."""
        return cls._current_step
