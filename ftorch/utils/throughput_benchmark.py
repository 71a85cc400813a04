"""`ThroughputBenchmark`: a module under the load of several threads."""

from __future__ import annotations

import itertools
import random
import threading
import time
import warnings
from dataclasses import dataclass

from ..eager.runtime import executor

__all__ = ["ExecutionStats", "ThroughputBenchmark", "format_time"]


def format_time(time_us=None, time_ms=None, time_s=None) -> str:
    """A time as text, of just one of the arguments.

    >>> format_time(time_ms=1500)
    '1.500s'
    """
    given = [
        t * scale for t, scale in ((time_us, 1), (time_ms, 1e3), (time_s, 1e6)) if t is not None
    ]
    if len(given) != 1:
        raise AssertionError("Expected only one of time_us, time_ms, time_s is given.")
    (us,) = given
    unit, scale = ("s", 1e6) if us >= 1e6 else ("ms", 1e3) if us >= 1e3 else ("us", 1)
    return f"{us / scale:.3f}{unit}"


@dataclass(frozen=True)
class ExecutionStats:
    """What a benchmark has measured.

    Attributes:
        latency_avg_ms: the mean duration of a call.
        num_iters: how many calls there were.
        num_calling_threads: in how many threads.
    """

    latency_avg_ms: float
    num_iters: int
    num_calling_threads: int

    @property
    def iters_per_second(self):
        """Calls per second in all threads together."""
        return self.num_iters / self.total_time_seconds

    @property
    def total_time_seconds(self):
        """How long it took, from the calls' durations."""
        return self.num_iters * (self.latency_avg_ms / 1000.0) / self.num_calling_threads

    def __str__(self) -> str:
        return "\n".join([
            f"Average latency per example: {format_time(time_ms=self.latency_avg_ms)}",
            f"Total number of iterations: {self.num_iters}",
            "Total number of iterations per second (across all threads): "
            f"{self.iters_per_second:.2f}",
            f"Total time: {format_time(time_s=self.total_time_seconds)}",
        ])


class ThroughputBenchmark:
    """Calls a module from several threads, with inputs chosen at random, like a server
    (``torch.utils.ThroughputBenchmark``).

    Args:
        module: anything that can be called.

    >>> import ftorch as torch
    >>> bench = torch.utils.ThroughputBenchmark(torch.nn.Linear(2, 2))
    >>> bench.add_input(torch.ones(2))
    >>> bench.benchmark(num_calling_threads=2, num_iters=10).num_iters
    10
    """

    def __init__(self, module) -> None:
        self._module = module
        self._inputs: list[tuple[tuple, dict]] = []

    def run_once(self, *args, **kwargs):
        """What the module returns."""
        return self._module(*args, **kwargs)

    def add_input(self, *args, **kwargs) -> None:
        """Adds arguments for the benchmark to choose from."""
        self._inputs.append((args, kwargs))

    def benchmark(
        self, num_calling_threads=1, num_warmup_iters=10, num_iters=100, profiler_output_path=""
    ) -> ExecutionStats:
        """Calls the module, each time until its computations are done.

        Args:
            num_warmup_iters: calls of each thread before all start together to be timed.
            num_iters: timed calls of all threads together.
            profiler_output_path: a file for a profile of the timed calls.

        Raises:
            RuntimeError: without inputs. What the module raises is raised.
        """
        if not self._inputs:
            raise RuntimeError(
                "Please provide benchmark inputs.Did you forget to call add_input()? "
            )
        if not profiler_output_path:
            return self._run(num_calling_threads, num_warmup_iters, num_iters)
        from ..profiler import profile

        with profile() as profiled:
            stats = self._run(num_calling_threads, num_warmup_iters, num_iters)
        profiled.export_chrome_trace(profiler_output_path)
        return stats

    def _run(self, num_threads, num_warmup_iters, num_iters):
        tickets = itertools.count()
        barrier = threading.Barrier(num_threads)
        seconds: list[float] = []
        failures: list[BaseException] = []

        def call(chosen):
            args, kwargs = chosen
            start = time.perf_counter()
            self._module(*args, **kwargs)
            executor.flush()
            return time.perf_counter() - start

        def work(rng):
            try:
                for _ in range(num_warmup_iters):
                    call(rng.choice(self._inputs))
                barrier.wait()
                while next(tickets) < num_iters:
                    seconds.append(call(rng.choice(self._inputs)))
            except threading.BrokenBarrierError:
                pass
            except BaseException as e:  # noqa: BLE001  (raised where the threads are joined)
                failures.append(e)
                barrier.abort()

        threads = [
            threading.Thread(target=work, args=(random.Random(i),)) for i in range(num_threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        if not seconds:
            warnings.warn("num_iters is 0: nothing was timed", stacklevel=3)
        mean = sum(seconds) / max(len(seconds), 1)
        return ExecutionStats(mean * 1000, len(seconds), num_threads)
