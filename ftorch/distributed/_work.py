"""Handles of collectives, the thread that runs those that nobody waits for at once, and their place in profiles: `recorded`."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta

from ..eager.native.contexts import contextmanager
from ..futures import Future
from ._store import seconds

_SOURCE = (
    "sourceRank() may only be called on work objects that correspond to a recv or recv-from-any call."
)
_COLLECTOR = f"{__package__.rpartition('.')[0]}.profiler._collector"


class Work:
    """The handle of a collective (``torch.distributed.Work``).

    What others sent is put into the tensors when somebody waits for it or for a later collective of the group, or asks whether
    it is complete; with a future (`get_future`) at once.
    """

    _over: Callable | None = None  # told when the exchange is over
    _line: Line | None = None  # that it stands in, behind others

    def __init__(self, result=None, finish: Callable | None = None, source: int | None = None):
        self._result = list(result or [])
        self._finish, self._source = finish, source
        self._arrived = threading.Event()
        self._lock = threading.RLock()
        self._error: BaseException | None = None
        self._future: Future | None = None
        self._began = time.perf_counter()
        self._took = 0.0

    # --- the group's side ---

    def _run(self, compute) -> None:
        """Makes the exchange; what fails is kept for who waits."""
        try:
            data = compute()
            finish = self._finish
            self._finish = (lambda: finish(data)) if finish is not None else None
        except BaseException as error:
            self._error, self._finish = error, None
        self._took = time.perf_counter() - self._began
        if self._over is not None:
            self._over()
        self._arrived.set()
        with self._lock:
            waits = self._future is not None
        if waits:
            self._settle()

    def _settle(self):
        with self._lock:
            finish, self._finish = self._finish, None
            if finish is not None:
                try:
                    finish()
                except BaseException as error:
                    self._error = error
            future = self._future
        if future is not None and not future.done():
            if self._error is not None:
                future.set_exception(self._error)
            else:
                future.set_result(self._result)

    def _settle_in_order(self):
        if self._line is not None:
            self._line.settle()
        self._settle()

    # --- the user's side ---

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Waits for the collective. Raises what made it fail."""
        limit = None if not timeout else seconds(timeout)
        if not self._arrived.wait(limit or None):
            raise RuntimeError(f"Operation timed out! waited {int((limit or 0) * 1000)}ms")
        self._settle_in_order()
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Whether it is done, or has failed."""
        if not self._arrived.is_set():
            return False
        self._settle_in_order()
        return True

    def is_success(self) -> bool:
        """Whether it is done and has not failed."""
        return self.is_completed() and self._error is None

    def exception(self):
        """What made it fail, or None."""
        return self._error

    def source_rank(self) -> int:
        """Whose message a receive got.

        Raises:
            RuntimeError: for other collectives.
        """
        if self._source is None:
            raise RuntimeError(_SOURCE)
        return self._source

    _source_rank = source_rank

    def result(self):
        """The tensors that the collective wrote."""
        return self._result

    def synchronize(self) -> None:
        """`wait`."""
        self.wait()

    block_current_stream = synchronize

    def get_future(self) -> Future:
        """A future of the tensors that the collective writes."""
        with self._lock:
            if self._future is None:
                self._future = Future()
        if self._arrived.is_set():
            self._settle()
        return self._future

    get_future_result = get_future

    def _get_duration(self) -> float:
        return self._took * 1000

    def boxed(self) -> Work:
        """Itself."""
        return self

    unbox = boxed


class Joint(Work):
    """Several handles as one."""

    def __init__(self, works, result=None):
        super().__init__(result)
        self._works = list(works)

    def wait(self, timeout=None) -> bool:
        for work in self._works:
            work.wait(timeout)
        return True

    def is_completed(self) -> bool:
        return all(w.is_completed() for w in self._works)

    def is_success(self) -> bool:
        return all(w.is_success() for w in self._works)

    def get_future(self) -> Future:
        from ..futures import collect_all

        return collect_all([w.get_future() for w in self._works]).then(lambda _: self._result)


class FromFuture(Work):
    """A handle that is over when a future is."""

    def __init__(self, future: Future):
        super().__init__()
        self._future = future
        future.add_done_callback(lambda _: self._arrived.set())

    def wait(self, timeout=None) -> bool:
        """Waits for the future. Raises what made it fail."""
        self._future.wait()
        return True

    def result(self):
        """The future's tensors."""
        value = self._future.value()
        return list(value) if isinstance(value, (list, tuple)) else [value]

    def exception(self):
        """What made the future fail, or None."""
        if self._future.done():
            try:
                self._future.value()
            except Exception as error:
                return error
        return None

    def is_success(self) -> bool:
        """Whether the future is done and has not failed."""
        return self._future.done() and self.exception() is None


class Line:
    """The order of a group's collectives: each begins when the one before it has ended."""

    def __init__(self):
        self._tasks: queue.SimpleQueue = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._running = threading.Lock()
        self._last: Work | None = None
        self._unsettled: deque[Work] = deque()  # that the thread runs or has run, and nobody has waited for

    def settle(self) -> None:
        """Puts into tensors what has arrived, also of handles that nobody keeps."""
        while self._unsettled and self._unsettled[0]._arrived.is_set():
            try:
                work = self._unsettled.popleft()
            except IndexError:  # another thread was faster
                return
            work._settle()

    def run(self, work: Work, compute) -> Work:
        """Runs a collective in the calling thread, behind those that are under way."""
        last = self._last
        if last is not None:
            last._arrived.wait()
            self._last = None
            self.settle()
        with self._running:
            work._run(compute)
        return work

    def start(self, work: Work, compute) -> Work:
        """Lets the group's thread run it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="collectives", daemon=True)
            self._thread.start()
        self.settle()
        self._last, work._line = work, self
        self._unsettled.append(work)
        self._tasks.put((work, compute))
        return work

    def _serve(self):
        while True:
            work, compute = self._tasks.get()
            if work is None:
                return
            with self._running:
                work._run(compute)
            del work, compute

    def close(self) -> None:
        """Ends the thread when it has done everything."""
        if self._thread is not None:
            self._tasks.put((None, None))
            self._thread = None
        self.settle()


named = (
    threading.local()
)  # `title`: what profiles call this thread's collectives instead of their own names


@contextmanager
def record_comm(name: str):
    """Within, profiles show this thread's collectives under a name (``torch.distributed.record_comm``)."""
    before, named.title = getattr(named, "title", None), name
    try:
        yield
    finally:
        named.title = before


def recorded(work, title: str, inputs):
    """A handle whose time a profile shows, if one is taken.

    Args:
        inputs: tensors or arrays whose shapes it shows.
    """
    profiler = sys.modules.get(_COLLECTOR)  # nobody takes a profile who has not loaded it
    collector = None if profiler is None else profiler.active()
    if collector is not None:
        shapes = [_shape(t) for t in inputs] if collector.record_shapes else ()
        event = collector.open(getattr(named, "title", None) or f"gloo:{title}", "op", shapes)
        collector.close(event)
        event.is_async = True
        work._over = lambda: setattr(event, "end", collector.now())
    return work


def _shape(t):
    """A shape; complex numbers travel as pairs."""
    pairs = t.is_complex() if hasattr(t, "is_complex") else t.dtype.kind == "c"
    return [*t.shape, *([2] if pairs else [])]
