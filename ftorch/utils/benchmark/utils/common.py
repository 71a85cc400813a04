"""What was timed and how long it took."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ....eager.surface.settings import get_num_threads, set_num_threads

__all__ = [
    "Measurement", "TaskSpec", "ordered_unique", "select_unit", "set_torch_threads",
    "trim_sigfig", "unit_to_english",
]

_SPREAD, _GROSS_SPREAD = 0.1, 0.25  # of the quartiles to the median, from which on to warn
_UNITS = {
    "ns": (1e-9, "nanosecond"), "us": (1e-6, "microsecond"), "ms": (1e-3, "millisecond"),
    "s": (1, "second"),
}


@dataclasses.dataclass(repr=False, frozen=True)
class TaskSpec:
    """What a `Timer` was given, without its globals (``torch.utils.benchmark.TaskSpec``)."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label or statement, and the second label."""
        if self.label is None and "\n" in self.stmt:
            name = f" ({self.sub_label})" if self.sub_label else ""
            return f"stmt:{name}\n{textwrap.indent(self.stmt, '  ')}"
        title = self.stmt if self.label is None else self.label
        return f"{title}: {self.sub_label}" if self.sub_label else title

    def setup_str(self) -> str:
        """The setup, if there is any."""
        if self.setup in ("pass", ""):
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}"
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup, as a measurement shows them."""
        parts = [self.title, self.description or "", self.setup_str()]
        return "\n".join(f"{part}\n" if "\n" in part else part for part in parts if part)


@dataclasses.dataclass(repr=False)
class Measurement:
    """Several timings of a statement (``torch.utils.benchmark.Measurement``).

    Attributes:
        number_per_run: how often it ran in each.
        raw_times: seconds of each.
        task_spec: what was timed; its attributes are the measurement's, too.
        metadata: the user's.

    >>> import ftorch as torch
    >>> from ftorch.utils.benchmark import Measurement, TaskSpec
    >>> m = Measurement(10, [1e-5, 2e-5, 6e-5], TaskSpec("x + 1", "pass", label="add"))
    >>> m.title, round(m.median * 1e6, 3), m.has_warnings
    ('add', 2.0, True)
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in TaskSpec.__dataclass_fields__:
            return getattr(self.task_spec, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def times(self) -> list[float]:
        """Seconds per execution."""
        return [t / self.number_per_run for t in self.raw_times]

    @functools.cached_property
    def _sorted_times(self) -> tuple[float, ...]:
        return tuple(sorted(self.times))

    @functools.cached_property
    def _quartiles(self) -> tuple[float, float, float]:
        if not self._sorted_times:
            return -1.0, -1.0, -1.0
        return tuple(float(q) for q in np.quantile(self._sorted_times, (0.25, 0.5, 0.75)))  # type: ignore[return-value]

    @property
    def median(self) -> float:
        """Of `times`."""
        return self._quartiles[1]

    @property
    def mean(self) -> float:
        """Of `times`."""
        return float(np.mean(self._sorted_times)) if self._sorted_times else -1.0

    @property
    def iqr(self) -> float:
        """The distance between the quartiles of `times`."""
        return self._quartiles[2] - self._quartiles[0]

    @property
    def significant_figures(self) -> int:
        """How many digits of the median mean something, 1 to 4: from the spread of its middle half,
        taken for normal."""
        n = len(self._sorted_times)
        middle = np.array(self._sorted_times[n // 4 : math.ceil(3 * n / 4)])
        interval = max(1.645 * float(middle.std()) / math.sqrt(len(middle)), 25e-9)
        return min(max(math.floor(math.log10(self.median / interval)), 1), 4)

    @property
    def _warnings(self) -> tuple[str, ...]:
        if not self._sorted_times or self.meets_confidence(_SPREAD):
            return ()
        if self.meets_confidence(_GROSS_SPREAD):
            meaning = "This could indicate system fluctuation."
        else:
            meaning = "This suggests significant environmental influence."
        return (
            f"  WARNING: Interquartile range is {self.iqr / self.median * 100:.1f}% "
            f"of the median measurement.\n           {meaning}",
        )

    @property
    def has_warnings(self) -> bool:
        """Whether the times are far apart."""
        return bool(self._warnings)

    def meets_confidence(self, threshold: float = _SPREAD) -> bool:
        """Whether the quartiles are nearer to each other than ``threshold`` times the median."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """The task's."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """What a table calls it."""
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        n = len(self._sorted_times)
        unit, scale = select_unit(self.median)
        low, median, high = (f"{q / scale:.2f}" for q in self._quartiles)
        several = "s" if n > 1 else ""
        runs = "per measurement," if n > 1 else ","
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        lines = [
            object.__repr__(self),
            self.task_spec.summarize(),
            f"  {'Median: ' if n > 1 else ''}{median} {unit}",
            f"  {n} measurement{several}, {self.number_per_run} runs {runs} {threads}",
            *self._warnings,
        ]
        if n >= 4:
            lines.insert(3, f"  IQR:    {self.iqr / scale:.2f} {unit} ({low} to {high})")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, of the times per execution and without metadata."""
        times: dict[TaskSpec, list[float]] = {}
        for m in measurements:
            times.setdefault(m.task_spec, []).extend(m.times)
        return [Measurement(1, of_task, task) for task, of_task in times.items()]


def _log10(value) -> float:
    """Of a number in single precision, to single precision, as PyTorch's."""
    value = float(np.float32(value))
    return float(np.float32(math.log10(value))) if value else -math.inf


def select_unit(t: float) -> tuple[str, float]:
    """The unit for a time in seconds, and what it is in seconds.

    >>> select_unit(2e-4)
    ('us', 1e-06)
    """
    unit = {-3: "ns", -2: "us", -1: "ms"}.get(int(_log10(t) // 3), "s")
    return unit, _UNITS[unit][0]


def unit_to_english(u: str) -> str:
    """A unit's name.

    >>> unit_to_english("ms")
    'millisecond'
    """
    return _UNITS[u][1]


def trim_sigfig(x: float, n: int) -> float:
    """Rounds to ``n`` significant digits, in single precision.

    >>> trim_sigfig(314.159, 2)
    310.0
    """
    if n != int(n):
        raise AssertionError("Number of significant figures must be an integer")
    scale = 10 ** (math.ceil(_log10(abs(x))) - n)
    return float(np.float32(x / scale).round() * np.float32(scale))


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """The elements without repetitions.

    >>> ordered_unique([2, 1, 2])
    [2, 1]
    """
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Inside, ``torch.get_num_threads()`` is ``n``. XLA's pool keeps the size it started with."""
    before = get_num_threads()
    try:
        set_num_threads(n)
        yield
    finally:
        set_num_threads(before)
