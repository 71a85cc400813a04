"""``Timer``: how long a statement takes, its computations included."""

from __future__ import annotations

import enum
import statistics
import textwrap
import time
import timeit

from ....eager.runtime import executor
from .common import Measurement, TaskSpec, set_torch_threads

__all__ = ["Language", "Timer", "timer"]


def timer() -> float:
    """Seconds, after everything recorded so far has run."""
    from ....accelerator import is_available, synchronize

    if is_available():
        synchronize()
    executor.flush()
    return time.perf_counter()


class Language(enum.Enum):
    """Of statements (``torch.utils.benchmark.Language``); only Python can be timed here."""

    PYTHON = 0
    CPP = 1


def _code(text):
    return textwrap.dedent(text).removeprefix("\n").rstrip()


class Timer:
    """Times a statement given as text, as `timeit.Timer` does (``torch.utils.benchmark.Timer``).

    Args:
        stmt, setup: Python code.
        timer: gives seconds; the default one waits for computations.
        globals: names that the code may use.
        label, sub_label, description, env: for `Compare`.
        num_threads: what ``torch.get_num_threads()`` is meanwhile; XLA's pool has a fixed size.
        language: Python.

    Raises:
        ValueError: for a statement that is no text, another language, or a ``global_setup``, which
            is for C++.

    >>> import ftorch as torch
    >>> t = torch.utils.benchmark.Timer("x + 1", globals={"x": torch.ones(3)})
    >>> t.timeit(10).mean > 0
    True
    """

    def __init__(self, stmt="pass", setup="pass", global_setup="", timer=timer, globals=None,
                 label=None, sub_label=None, description=None, env=None, num_threads=1,
                 language=Language.PYTHON):
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")  # noqa: TRY004
        if language in (Language.CPP, "cpp", "c++"):
            raise ValueError("C++ cannot be timed: ftorch has no C++ interface. Time Python code.")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Invalid language `{language}`.")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most "
                "likely this code can simply be moved to `setup`."
            )
        from .... import __name__ as package

        stmt, setup = _code(stmt), _code(setup)
        scope = {"torch": __import__(package), **(globals or {})}
        self._timer = timeit.Timer(stmt, setup, timer=timer, globals=scope)
        self._task_spec = TaskSpec(
            stmt, setup, global_setup, label, sub_label, description, env, num_threads
        )

    def _timeit(self, number):
        return max(self._timer.timeit(number), 1e-9)

    def _measurement(self, number, times):
        return Measurement(number, times, self._task_spec)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Times ``number`` executions, after a few that do not count."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return self._measurement(number, [self._timeit(number)])

    def _block_size(self, min_run_time):
        """How many executions to time at once, so that the timer itself does not matter."""
        overhead = statistics.median(self._timeit(0) for _ in range(5))
        number = 1
        while True:
            elapsed = self._timeit(number)
            is_long = overhead <= 1e-4 * elapsed and elapsed >= min_run_time / 1000
            if is_long or elapsed > min_run_time or number * 10 > 2**31 - 1:
                return number
            number *= 10

    def _blocks(self, number, is_steady, min_run_time, max_run_time, callback):
        times: list[float] = []
        while sum(times) < min_run_time or not is_steady(times):
            times.append(self._timeit(number))
            if callback:
                callback(number, times[-1])
            if sum(times) > max_run_time:
                break
        return self._measurement(number, times)

    def blocked_autorange(self, callback=None, min_run_time: float = 0.2) -> Measurement:
        """Times blocks of executions for at least ``min_run_time`` seconds.

        Args:
            callback: called with the size of a block and its seconds.
        """
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            return self._blocks(number, bool, min_run_time, float("inf"), callback)

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01,
                           max_run_time: float = 10.0, callback=None) -> Measurement:
        """Times until the spread is below ``threshold`` times the median, or time is up."""

        def is_steady(times):
            return len(times) > 3 and self._measurement(number, times).meets_confidence(threshold)

        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(0.05)
            return self._blocks(number, is_steady, min_run_time, max_run_time, callback)
