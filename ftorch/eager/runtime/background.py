"""Background compilation on a thread of its own, while the thread that computes goes on by steps on the host.

There is one such thread, as long as there is something to compile. It is no daemon: one that comes back from XLA when
the interpreter has ended would abort the process, so that Python waits for it. When the main thread has ended it takes
nothing more and leaves off tracing; what XLA is compiling then is waited for.
"""

from __future__ import annotations

import collections
import os
import threading
from typing import Any

import jax

from ..core import forking, jax_internals
from ..core.jax_scope import scoped
from ..core.lock_sharing import resting
from ..core.suppressed_warnings import quiet
from ..memory import host_memory
from ..native.contexts import Worker

ENABLED = os.environ.get("FTORCH_COMPILE_THREAD", "1") != "0"
_MOST = 16  # functions that wait


class Job:
    """A jitted function to be compiled.

    Attributes:
        is_over: whether calling it compiles nothing any more; or it could not be compiled, which calling it says.
    """

    __slots__ = ("_function", "_operands", "_context", "is_over")

    def __init__(self, function, operands):
        self._function, self._operands = function, operands
        self._context = jax_internals.trace_context()
        self.is_over = False

    def poll(self):
        """Whether it is over; starts the thread again where it ended before (its start was interrupted, or it was)."""
        if not self.is_over and not _is_working():
            _start()
        return self.is_over

    @scoped
    def run(self):
        try:
            # JAX finds what it compiled by the settings of the thread. With others it would compile again.
            if self._context == jax_internals.trace_context():
                with quiet():
                    with resting():
                        lowered = self._function.lower(*self._operands)
                    lowered.compile()
        finally:
            self._function = self._operands = None
            self.is_over = True


_waiting: collections.deque[Job] = collections.deque()
_worker: Any = None
_lock = forking.rlock()


def is_possible() -> bool:
    """Whether functions are compiled on the other thread; else by who calls them."""
    return (
        ENABLED and threading.main_thread().is_alive() and jax_internals.trace_context() is not None
        and jax_internals.is_top_level()
    )


def has_room() -> bool:
    """Whether another function can wait: to be asked before one is made."""
    return len(_waiting) < _MOST


def compile_beside(function, *operands) -> Job | None:
    """Begins to compile a function.

    Args:
        function: of `jax.jit`.
        operands: structures of what it will be called with.

    Returns:
        None if too many wait.
    """
    with _lock:
        if len(_waiting) >= _MOST:
            return None
        job = Job(function, operands)
        _waiting.append(job)
        _start()
    return job


def structure_of(array):
    """What JAX finds a compiled function by."""
    bound = getattr(array, "committed", False)
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=array.sharding if bound else None)


def wait(timeout=None) -> None:
    """Waits until everything is compiled."""
    if (worker := _worker) is not None and worker.is_alive():
        worker.join(timeout)


def _start():
    global _worker
    with _lock:
        if _is_working():
            return
        worker = _worker = Worker(target=_work, name="ftorch compiler", daemon=False)
        try:
            worker.start()
        except RuntimeError:  # the interpreter ends, or there are too many threads
            _worker = None
            _leave()


def _is_working():
    return _worker is not None and _worker.is_alive()


def _leave():
    """Whoever calls what waits compiles it."""
    while _waiting:
        _waiting.popleft().is_over = True


def _work():
    global _worker
    own = threading.current_thread()
    while True:
        with _lock:
            if not threading.main_thread().is_alive():
                _leave()
            if not _waiting:
                if _worker is own:
                    _worker = None
                return
            job = _waiting.popleft()
        try:
            job.run()
        except BaseException:  # who calls the function is told
            jax_internals.leave_traces()
        del job
        host_memory.free_memory.after_compilation()


def _in_child():
    """The thread stayed with the parent, and a child computes without XLA."""
    global _worker
    _worker = None
    _leave()


forking.after.append(_in_child)
