"""Captures: traces that become programs, which trace a thread records into, and whether one is a capture."""

from __future__ import annotations

import sys
from typing import Any

from ..core import device as _device
from ..memory import storage as storage_module
from ..memory.storage import Storage
from ..native.contexts import contextmanager, repeatable
from .trace import Trace, threads


class CaptureTrace(Trace):
    """A trace that is not run but kept, to become a program (`ftorch._dynamo`).

    Attributes:
        cells: the storage that each input was read from.
        born: ids of the storages made while capturing.
        actions: what each run of the program does in Python, in order: ("draw", id of a storage,
            function that draws its array anew), ("numbers", position among the float operands, how
            many, function giving their current values), ("do", function).
        grads: {id of a leaf: (leaf, its gradient before, whether that made a difference)}.
        made: {id of a storage made meanwhile with a value at hand: (it, the value)}.
        states: {id of a storage with a random generator's state: [the state]}.
        replays_draw: whether numbers being drawn are registered in ``actions``.
        only_once: why the program must not run again, though it can be captured anew.
        broken: why capturing ended early: somebody needed a value.
        on_break: called with the reason when that happens.
        on_truth: called with a tensor whose truth value is asked for: whether it is taken to be true.
        between: what is done from time to time while the captured call is compiled, or None.
        asks_place: whether somebody asked where in memory a tensor lies: what programs else do not depend on.
        order: what the last step that others must not overtake gives, and the next one takes (collectives).
        watch: what notes which Python state is read and changed (`ftorch.jit.capture.state_watch`).
    """

    captures = True

    def __init__(self, device, on_break=None):
        self.cells: list[Storage] = []
        self.born: set[int] = set()
        self.actions: list[tuple] = []
        self.grads: dict[int, tuple] = {}
        self.leaves: dict[int, Any] = {}  # {id: a leaf that a backward in the capture reaches}
        self.flags: dict[int, tuple] = {}  # {id: (a tensor, whether it required grad before that was set)}
        self.made: dict[int, tuple] = {}
        self.states: dict[int, list] = {}
        self.replays_draw = False
        self.only_once: str | None = None
        self.broken: str | None = None
        self.on_break = on_break
        self.on_truth: Any = None
        self.breaks_raise = False  # see `torch._dynamo.error_on_graph_break`
        self.assertions: list[tuple] = []  # (flag, message) that each run has to check
        self.watch: Any = None
        self.order: Any = None
        self.between: Any = None
        self.asks_place = False
        super().__init__(device)

    def flush(self, again=False):
        """Somebody looks at a value: the capture is over, and the trace an ordinary one."""
        self.end(self.broken or "a value was needed")
        super().flush(again)

    def start_over(self):
        """See `Trace.start_over`."""
        self.cells = list(self.cells)
        super().start_over()

    def cut(self):
        """See `Trace.cut`."""
        super().cut()
        del self.cells[len(self.inputs) :]

    def end(self, reason: str) -> None:
        """Gives up: what is recorded runs like an ordinary trace, and is not kept."""
        if self.captures:
            self.captures = False
            self.broken = self.broken or reason
            if self.on_break is not None:
                self.on_break(self.broken)

    def leave(self, reason: str) -> None:
        """Gives up this call only: it goes on in Python, also where nothing else may, and the next is captured."""
        self.only_once = reason
        self.end(reason)

    def overwritten(self, storage: Storage) -> None:
        """Somebody writes to a storage that has its value at hand."""

    def draw(self, storage: Storage, redraw) -> None:
        """Registers random numbers: ``redraw()`` gives the storage's array for another run."""
        self.made.setdefault(id(storage), (storage, storage.array))
        self.actions.append(("draw", id(storage), redraw))

    def has_made(self, storage: Storage) -> bool:
        """Whether a storage is of this capture: nobody has a tensor of it who had one before. (One of before that it writes
        to has its trace, too.)"""
        return id(storage) in self.born or id(storage) in self.made

    def is_drawn(self, storage) -> bool:
        """Whether a storage holds random numbers that are drawn anew for each run."""
        return any(a[0] == "draw" and a[1] == id(storage) for a in self.actions)

    def numbers(self, count: int, source, fixed=()) -> None:
        """The next ``count`` float operands are ``source()`` in another run.

        Args:
            fixed: the positions among them that hardly ever change: programs have them as constants.
        """
        self.actions.append(("numbers", len(self.floats), count, source, tuple(fixed)))

    def touch_grad(self, variable, reads: bool) -> None:
        """Somebody asks for (or sets) the ``.grad`` of a tensor."""
        if id(variable) not in self.grads:
            self.grads[id(variable)] = (variable, variable._grad, reads)


def swap_trace(trace: Trace | None, device=_device.CPU) -> Trace:
    """Makes another trace the calling thread's for a device (None: a fresh one); gives the old one, flushed.

    A `CaptureTrace` for the CPU is told when somebody looks at a value.
    """
    if device is not _device.CPU:
        old = threads.of(device)
        old.flush()
        threads.others[device] = Trace(device) if trace is None else trace
        threads.others[device].birth = threads.birth
        threads.capture = trace if trace is not None and trace.captures else None
        return old
    old = threads.cpu
    if not old.captures:
        old.flush()
    threads.cpu = Trace(_device.CPU) if trace is None else trace
    threads.cpu.birth = threads.birth
    _set_watch(threads.cpu)
    return old


def restore_trace(old: Trace, device=_device.CPU) -> None:
    """Makes an earlier trace the calling thread's for a device again."""
    if device is not _device.CPU:
        threads.others[device], threads.capture = old, None
        return
    threads.cpu = old
    _set_watch(old)


class swapped:  # noqa: N801
    """Within, another trace is the calling thread's, as `swap_trace` makes it; whatever comes, the old one is afterwards."""

    def __init__(self, trace: Trace | None):
        self._trace, self._old = trace, None

    def __enter__(self):
        self._old = threads.cpu
        try:
            swap_trace(self._trace)
        except BaseException:
            self.__exit__()
            raise

    @repeatable
    def __exit__(self, *_):
        restore_trace(self._old)


def _set_watch(trace):
    storage_module.on_look[0] = _looked if trace.captures else None
    storage_module.on_new[0] = _made if trace.captures else None


def _looked(storage):
    trace = threads.cpu
    if trace.captures and (id(storage) not in trace.made or trace.is_drawn(storage)):
        trace.flush()


def _made(storage):
    trace = threads.cpu
    if trace.captures:
        trace.made[id(storage)] = (storage, storage.array)


def capturing() -> CaptureTrace | None:
    """The capture in progress in this thread, or None."""
    trace = threads.cpu
    return trace if trace.captures else threads.capture  # type: ignore[return-value]


def asks_place() -> None:
    """Notes that somebody asks where in its storage a tensor lies, or for the storage."""
    trace = threads.cpu
    if trace.captures:
        trace.asks_place = True


@contextmanager
def outside_capture():
    """Within, work is not part of the program that is being captured: it is done once, now."""
    capture = capturing()
    if capture is None:
        yield
        return
    with swapped(None):
        yield
        threads.cpu.flush()


@contextmanager
def unwatched():
    """Within, Python does not tell the watch of a capture (`ftorch.jit.capture.state_watch`) which functions are entered:
    where only kernels are traced there is nothing to see, but nine tenths of all calls."""
    watch = sys.getprofile() if threads.cpu.captures else None
    if not callable(watch):
        yield
        return
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(watch)
