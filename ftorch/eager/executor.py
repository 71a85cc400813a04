"""The executor: records steps and decides when they run.

In *deferred* execution (the default) `record` appends plans to the calling thread's `Trace` and
returns at once; the trace runs when somebody looks at a value, at ``optimizer.step()``, or when it is
long: as one program (`ftorch.eager.program`), with only the results that are still referenced as
outputs and dead inputs donated. With ``FTORCH_EXECUTOR=op`` every step runs at once.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Any

from . import device as _device
from . import program
from . import storage as storage_module
from .errors import OutOfMemoryError, translate_error
from .geometry import Geometry
from .program import COMPLEX, FLOAT, INT, Plan, stats, weak
from .references import LISTED
from .storage import Storage

__all__ = [
    "COMPLEX", "FLOAT", "INT", "OutOfMemoryError", "Plan", "stats", "translate_error", "weak",
]  # fmt: skip

DEFERRED = os.environ.get("FTORCH_EXECUTOR", "deferred") != "op"
MAX_STEPS = 1024  # a trace never grows longer
_LAST_STEP = MAX_STEPS - 1


# --- traces --------------------------------------------------------------------------


class Trace:
    """The steps that one thread has recorded for one device and that have not run.

    ``code`` is the flat list [plan, operand, ...]: an operand that is not negative is the slot of an
    earlier result, a negative one the input ``-1 - operand``. ``owners[slot]`` is the storage whose
    value a slot is, unless the storage has moved on (its own ``slot`` says). ``replaced`` says which
    input was the value of a storage (by its id) that has been written to.
    """

    __slots__ = ("lock", "code", "owners", "inputs", "input_of", "ints", "floats", "steps", "device",
                 "birth", "replaced", "__weakref__")  # fmt: skip
    captures = False

    def __init__(self, device):
        self.lock = threading.RLock()
        self.device = device
        self.birth = 0
        self.replaced: dict[int, int | None] = {}
        self.ints: list[int] = []
        self.floats: list[float] = []
        self._clear()

    def _clear(self):
        self.code: list = []
        self.owners: list[Storage] = []
        self.inputs: list = []
        self.input_of: dict[int, int] = {}
        if self.replaced:  # these are mostly empty
            self.replaced = {}
        if self.ints:
            self.ints = []
        if self.floats:
            self.floats = []
        self.steps = 0

    def flush(self, again=False):
        """Runs everything recorded. Storages get their arrays, or the error that they raise."""
        with self.lock:
            if self.steps:
                self._run(again)

    def _run(self, again):
        code, owners, inputs = self.code, self.owners, self.inputs
        ints, floats, steps, replaced = self.ints, self.floats, self.steps, self.replaced
        self._clear()
        live, keep = [], []
        for slot in range(len(owners)):  # enumerate would hold a reference of its own
            storage = owners[slot]
            if storage.slot == slot and storage.trace is self and sys.getrefcount(storage) > LISTED:
                live.append(slot)
                keep.append(storage)
        storage = None
        del owners
        try:
            results = program.execute(
                self.device, code, inputs, ints, floats, steps, live, keep, replaced, again
            )
        except BaseException as error:
            failure = translate_error(error, code[0].name if steps == 1 else "")
            for storage in keep:
                storage.error, storage.array, storage.trace = failure, None, None
            raise failure from None
        for storage, array in zip(keep, results):
            storage.array = array
            storage.trace = None


# --- recording -----------------------------------------------------------------------


class _Threads(threading.local):
    """The calling thread's traces; ``cpu`` is kept apart because it is asked for every op."""

    def __init__(self):
        self.cpu = Trace(_device.CPU)
        self.others: dict = {}
        self.birth = 0
        _all_traces.append(self.cpu)

    def of(self, device):
        trace = self.others.get(device)
        if trace is None:
            trace = self.others[device] = Trace(device)
            trace.birth = self.birth
            _all_traces.append(trace)
        return trace


_all_traces: list[Trace] = []
_threads = _Threads()


class _Immediate:
    """The trace of storages that hold JAX tracers: there is nothing to flush."""

    def flush(self, again=False):
        pass


IMMEDIATE = _Immediate()
_OVERWRITTEN: Any = Storage(None)  # type: ignore[arg-type]
_new = object.__new__


def record(plan: Plan, storages, scalars=(), into: Storage | None = None, onto=None) -> Any:
    """Appends a step; gives the result's storage, or a tuple of them.

    Args:
        storages: the operands, each read as a whole (its root).
        scalars: Python numbers, as ``plan.scalars`` says.
        into: the storage that takes the (single) result as its new value; a write is counted.
        onto: the same for several results: a list of storages that share no memory with the user.
            They are not written to where the step runs at once: the results are others then.
    """
    device = plan.device
    if device is _device.CPU:
        trace = _threads.cpu
    elif device is _device.META:
        return _record_meta(plan, into)
    else:
        trace = _threads.of(device)
    for s in storages:
        other = s.trace
        if other is not trace and (other is not None or s.array is None):
            if other is IMMEDIATE:
                return _run_now(plan, storages, scalars, into)
            if other is not None:
                other.flush()
    if into is not None and into.host is not None and trace.captures:
        trace.flush()  # the user sees such writes at once
    if not DEFERRED or (into is not None and into.host is not None):
        return _run_now(plan, storages, scalars, into)
    lock = trace.lock
    lock.acquire()
    try:
        code = trace.code
        code.append(plan)
        for s in storages:
            if s.trace is trace:
                code.append(s.slot)
            else:
                array = s.array
                if array is None:
                    array = s.load()
                # What shares an array now may have arrays of its own when the program runs again.
                key = id(s) if trace.captures else id(array)
                index = trace.input_of.get(key)
                if index is None:
                    index = -1 - len(trace.inputs)
                    trace.inputs.append(array)
                    trace.input_of[key] = index
                    if trace.captures:
                        trace.cells.append(s)
                code.append(index)
        if scalars:
            for kind, number in zip(plan.scalars, scalars):
                if kind == INT:
                    trace.ints.append(number)
                elif kind == FLOAT:
                    trace.floats.append(number)
                else:
                    trace.floats.append(number.real)
                    trace.floats.append(number.imag)
        owners = trace.owners
        trace.steps = steps = trace.steps + 1
        stats.ops += 1
        if into is not None:
            if into.trace is trace:
                owners[into.slot] = _OVERWRITTEN  # nobody needs the value that it had
            else:
                trace.replaced[id(into)] = trace.input_of.get(id(into.array))
                if trace.captures:
                    trace.overwritten(into)
            into.trace, into.slot, into.array = trace, len(owners), None
            into.version += 1
            owners.append(into)
            result = into
        elif plan.is_single:
            result = _new(Storage)
            result.array = result.host = result.error = result.extra = None
            result.trace = trace
            result.slot = len(owners)
            result.root = plan.geometry
            result.version = trace.birth
            owners.append(result)
            if trace.captures:
                trace.born.add(id(result))
        elif onto is not None:
            result, slot = onto, len(owners)
            for s in onto:
                if s.trace is trace:
                    owners[s.slot] = _OVERWRITTEN
                else:
                    trace.replaced[id(s)] = trace.input_of.get(id(s.array))
                    if trace.captures:
                        trace.overwritten(s)
                s.trace, s.slot, s.array = trace, slot, None
                s.version += 1
                slot += 1
            owners += onto
        else:
            result = []
            for g in plan.geometries:
                s = Storage(g)
                s.trace, s.slot = trace, len(owners)
                owners.append(s)
                result.append(s)
                if trace.captures:
                    trace.born.add(id(s))
            result = tuple(result)
        if steps >= MAX_STEPS and not trace.captures:
            trace.flush()
        return result
    finally:
        lock.release()


def record_binary(plan: Plan, a: Storage, b: Storage) -> Storage:
    """`record` for the commonest step: two operands on the CPU, no scalars, one new result."""
    trace = _threads.cpu
    lock = trace.lock
    lock.acquire()
    try:
        if a.trace is trace:
            i = a.slot
        elif a.trace is None and a.array is not None:
            i = trace.input_of.get(id(a.array))
        else:
            i = None
        if b.trace is trace:
            j = b.slot
        elif b.trace is None and b.array is not None:
            j = trace.input_of.get(id(b.array))
        else:
            j = None
        if i is None or j is None or trace.steps >= _LAST_STEP or not DEFERRED or trace.captures:
            return record(plan, (a, b))
        trace.code += (plan, i, j)
        trace.steps += 1
        stats.ops += 1
        owners = trace.owners
        result = _new(Storage)
        result.array = result.host = result.error = result.extra = None
        result.trace = trace
        result.slot = len(owners)
        result.root = plan.geometry
        result.version = trace.birth
        owners.append(result)
        return result
    finally:
        lock.release()


def move(source: Storage, target: Storage) -> None:
    """Gives ``source``'s value to ``target`` (same root shape) as a write; ``source`` is spent."""
    trace = source.trace
    if trace is None or trace is IMMEDIATE:
        target.array, target.trace = source.array, trace
    else:
        with trace.lock:
            if source.trace is None:
                target.array, target.trace = source.array, None
            else:
                if target.trace is trace:
                    trace.owners[target.slot] = _OVERWRITTEN
                else:
                    trace.replaced[id(target)] = trace.input_of.get(id(target.array))
                    if trace.captures:
                        trace.overwritten(target)
                trace.owners[source.slot] = target
                target.trace, target.slot, target.array = trace, source.slot, None
                if trace.captures:
                    trace.born.discard(id(source))
    target.version += 1


def duplicate(source: Storage) -> Storage:
    """A second storage with the same value, free of the first one's later writes."""
    copy = Storage(source.root)
    trace = source.trace
    if trace is None or trace is IMMEDIATE:
        copy.array, copy.trace = source.array, trace
        if copy.array is None and source.host is not None:
            copy.array = source.load()
        return copy
    plan = _copies.get(source.root)
    if plan is None:
        plan = _copies[source.root] = Plan(
            lambda x: x, (source.root,), "", "clone", source.root.device
        )
    return record(plan, (source,))


_copies: dict = {}


def relabel(storage: Storage, root: Geometry) -> None:
    """Declares a fresh storage to be laid out as another dense geometry of the same shape."""
    storage.root = root


def _record_meta(plan, into):
    if into is not None:
        into.version += 1
        return into
    results = tuple(Storage(g) for g in plan.geometries)
    return results[0] if plan.is_single else results


def _run_now(plan, storages, scalars, into):
    """Runs a step at once: tier 0, kernels on the host, and operands that are JAX tracers."""
    arrays = [s.value() for s in storages]
    traced = any(s.trace is IMMEDIATE for s in storages)
    stats.ops += 1
    try:
        if traced:
            results = plan.fn(*arrays, *map(weak, scalars, plan.scalars))
        else:
            results = plan.run(arrays, scalars)
    except Exception as error:
        raise translate_error(error, plan.name) from None
    if not isinstance(results, (tuple, list)):
        results = (results,)
    if into is not None:
        into.set(results[0])
        into.trace = IMMEDIATE if traced else None
        return into
    out = []
    for i, array in enumerate(results):
        storage = Storage(plan.geometries[i], array)
        storage.trace = IMMEDIATE if traced else None
        out.append(storage)
    return out[0] if plan.is_single else tuple(out)


def flush(again: bool = False) -> None:
    """Runs what the calling thread has recorded; while a program is captured, it goes on instead.

    Args:
        again: whether the same steps are going to come again: they are compiled at once.
    """
    if not _threads.cpu.captures:
        _threads.cpu.flush(again)
    for trace in _threads.others.values():
        if not trace.captures:
            trace.flush(again)


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
        watch: what notes which Python state is read and changed (`ftorch._dynamo.watch`).
    """

    captures = True

    def __init__(self, device, on_break=None):
        self.cells: list[Storage] = []
        self.born: set[int] = set()
        self.actions: list[tuple] = []
        self.grads: dict[int, tuple] = {}
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
        super().__init__(device)

    def flush(self, again=False):
        """Somebody looks at a value: the capture is over, and the trace an ordinary one."""
        self.end(self.broken or "a value was needed")
        super().flush(again)

    def end(self, reason: str) -> None:
        """Gives up: what is recorded runs like an ordinary trace, and is not kept."""
        if self.captures:
            self.captures = False
            self.broken = self.broken or reason
            if self.on_break is not None:
                self.on_break(self.broken)

    def overwritten(self, storage: Storage) -> None:
        """Somebody writes to a storage that has its value at hand."""

    def draw(self, storage: Storage, redraw) -> None:
        """Registers random numbers: ``redraw()`` gives the storage's array for another run."""
        self.made.setdefault(id(storage), (storage, storage.array))
        self.actions.append(("draw", id(storage), redraw))

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


def set_birth(version: int) -> None:
    """Sets the version that the calling thread's new storages begin with."""
    _threads.birth = version
    for trace in (_threads.cpu, *_threads.others.values()):
        trace.birth = version


def swap_trace(trace: Trace | None) -> Trace:
    """Makes another trace the calling thread's (None: a fresh one); gives the old one, flushed.

    A `CaptureTrace` is told when somebody looks at a value.
    """
    old = _threads.cpu
    if not old.captures:
        old.flush()
    _threads.cpu = Trace(_device.CPU) if trace is None else trace
    _threads.cpu.birth = _threads.birth
    _set_watch(_threads.cpu)
    return old


def restore_trace(old: Trace) -> None:
    """Makes an earlier trace the calling thread's again."""
    _threads.cpu = old
    _set_watch(old)


def _set_watch(trace):
    storage_module.on_look[0] = _looked if trace.captures else None
    storage_module.on_new[0] = _made if trace.captures else None


def _looked(storage):
    trace = _threads.cpu
    if trace.captures and (id(storage) not in trace.made or trace.is_drawn(storage)):
        trace.flush()


def _made(storage):
    trace = _threads.cpu
    if trace.captures:
        trace.made[id(storage)] = (storage, storage.array)


def capturing() -> CaptureTrace | None:
    """The capture in progress in this thread, or None."""
    trace = _threads.cpu
    return trace if trace.captures else None  # type: ignore[return-value]


@contextlib.contextmanager
def outside_capture():
    """Within, work is not part of the program that is being captured: it is done once, now."""
    capture = capturing()
    if capture is None:
        yield
        return
    swap_trace(None)
    try:
        yield
        _threads.cpu.flush()
    finally:
        restore_trace(capture)


@contextlib.contextmanager
def unwatched():
    """Within, Python does not tell the watch of a capture (`ftorch._dynamo.watch`) which functions are entered:
    where only kernels are traced there is nothing to see, but nine tenths of all calls."""
    watch = sys.getprofile() if _threads.cpu.captures else None
    if not callable(watch):
        yield
        return
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(watch)


def pending_steps() -> int:
    """How many steps the calling thread has recorded that have not run."""
    return _threads.cpu.steps + sum(trace.steps for trace in _threads.others.values())
