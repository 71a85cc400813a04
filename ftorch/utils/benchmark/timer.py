"""``Timer``: how long a statement takes, its computations included."""

from __future__ import annotations

import dataclasses
import statistics
import textwrap
import time
import timeit

from ...eager import executor

__all__ = ["Measurement", "Timer", "timer"]


def timer() -> float:
    """Seconds, after everything recorded so far has run."""
    from ...accelerator import is_available, synchronize

    if is_available():
        synchronize()
    executor.flush()
    return time.perf_counter()


_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def _text(seconds):
    scale, unit = next((u for u in _UNITS if seconds >= u[0]), _UNITS[-1])
    return f"{seconds / scale:.2f} {unit}"


@dataclasses.dataclass
class Measurement:
    """Several timings of a statement.

    Attributes:
        number_per_run: how often it ran in each; raw_times: seconds of each.
        times: seconds per execution.
    """

    number_per_run: int
    raw_times: list[float]
    stmt: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def times(self) -> list[float]:
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        return statistics.mean(self.times)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def title(self) -> str:
        return self.label or self.stmt

    def __repr__(self):
        runs = f"{len(self.times)} measurement{'s' if len(self.times) > 1 else ''}, "
        return (
            f"<{__name__}.Measurement>\n{self.title}\n  Median: {_text(self.median)}\n  IQR:    "
            f"{_text(self.iqr)}\n  {runs}{self.number_per_run} runs per measurement"
        )


class Timer:
    """Times a statement given as text, as `timeit.Timer` does.

    Args:
        stmt, setup: Python code.
        globals: names that the code may use.
        label, sub_label, description, env: for reports.
        num_threads: noted; XLA's thread pool has a fixed size.

    >>> import ftorch as torch
    >>> t = torch.utils.benchmark.Timer("x + 1", globals={"x": torch.ones(3)})
    >>> t.timeit(10).mean > 0
    True
    """

    def __init__(self, stmt="pass", setup="pass", global_setup="", timer=timer, globals=None,
                 label=None, sub_label=None, description=None, env=None, num_threads=1,
                 language="python"):  # fmt: skip
        if str(language).lower() not in ("python", "py", "language.python"):
            raise ValueError(f"only Python can be timed, not {language}")
        from ... import __name__ as package

        scope = {"torch": __import__(package), **(globals or {})}
        self._about = {
            "stmt": stmt, "label": label, "sub_label": sub_label, "description": description,
            "env": env, "num_threads": num_threads,
        }  # fmt: skip
        self._timer = timeit.Timer(
            textwrap.dedent(stmt), textwrap.dedent(setup), timer=timer, globals=scope
        )

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Times ``number`` executions, after a few that do not count."""
        self._timer.timeit(max(number // 100, 2))
        return Measurement(number, [self._timer.timeit(number)], **self._about)

    def _block_size(self, min_run_time):
        number = 1
        while True:
            elapsed = self._timer.timeit(number)
            if elapsed >= min(1e-3, min_run_time / 10) or number >= 10**9:
                return number
            number *= 10

    def blocked_autorange(self, callback=None, min_run_time: float = 0.2) -> Measurement:
        """Times blocks of executions for at least ``min_run_time`` seconds."""
        self._timer.timeit(2)
        number, times = self._block_size(min_run_time), []
        while sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, **self._about)

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01,
                           max_run_time: float = 10.0, callback=None) -> Measurement:  # fmt: skip
        """Times until the spread is below ``threshold`` times the median, or time is up."""
        self._timer.timeit(2)
        number, times = self._block_size(min_run_time), []
        while True:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
            found = Measurement(number, times, **self._about)
            is_steady = len(times) > 3 and found.iqr <= threshold * found.median
            if sum(times) >= max_run_time or (sum(times) >= min_run_time and is_steady):
                return found
