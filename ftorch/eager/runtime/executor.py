"""The executor: records steps and decides when they run.

In *deferred* execution (the default) `record` appends plans to the calling thread's `Trace` and
returns at once; the trace runs when somebody looks at a value, at ``optimizer.step()``, or when it is
long: as one program (`ftorch.eager.runtime.program`), with only the results that are still referenced as
outputs and dead inputs donated. With ``FTORCH_EXECUTOR=op`` every step runs at once.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from typing import Any

from numpy import ndarray

from .. import native
from ..core import device as _device
from ..core import forking
from ..core.errors import OutOfMemoryError, translate_error
from ..core.geometry import Geometry
from ..core.jax_internals import outside_traces
from ..core.refcount import LISTED, RELIABLE
from ..memory import storage as storage_module
from ..memory.storage import Storage, newest_level
from ..native.contexts import repeatable
from . import program, short_traces, strided_steps
from .program import COMPLEX, FLOAT, INT, Plan, Stats, stats, weak

__all__ = [
    "COMPLEX", "FLOAT", "INT", "OutOfMemoryError", "Plan", "Stats", "stats", "translate_error", "weak",
]

DEFERRED = os.environ.get("FTORCH_EXECUTOR", "deferred") != "op"
MAX_STEPS = 1024  # a trace never grows longer


# --- traces --------------------------------------------------------------------------


class Trace:
    """The steps that one thread has recorded for one device and that have not run.

    ``code`` is the flat list [plan, operand, ...]: an operand that is not negative is the slot of an
    earlier result, a negative one the input ``-1 - operand``. ``owners[slot]`` is the storage whose
    value a slot is, unless the storage has moved on (its own ``slot`` says). ``replaced`` says what
    a storage (by its id) that has been written to was before: an input's operand, a small array, or
    None; and of a slot, by which slot's value it followed.

    ``steps`` is committed last: what the lists hold beyond that many steps is not recorded, and `cut`
    takes it away. So an exception between any two instructions (Ctrl-C) leaves a step whole or not begun.

    A signal's handler and a finalizer come between instructions, too, and may compute. Where one finds a step half
    recorded (``recording``) it gives the trace other lists (`start_over`), by which the step that it interrupted knows that
    it has to begin again; where it needs a value that is being computed (``running``, the innermost last) it takes that
    run over (`take_over`).
    """

    __slots__ = ("lock", "code", "owners", "inputs", "input_of", "ints", "floats", "steps", "device",
                 "birth", "replaced", "recording", "running", "__weakref__")
    captures = False

    def __init__(self, device):
        self.lock = forking.rlock()
        self.device = device
        self.birth = 0
        self.recording: Any = False  # or True; or (first slot, storages) of a step that is recorded and writes to these
        self.running: tuple[_Run, ...] = ()
        self.clear()

    def clear(self):
        """Forgets what is recorded."""
        self.code: list = []
        self.owners: list[Storage] = []
        self.inputs: list = []
        self.input_of: dict[int, int] = {}
        self.ints: list[int] = []
        self.floats: list[float] = []
        self.steps = 0
        self.replaced: dict[int, Any] = {}

    def flush(self, again=False):
        """Runs everything recorded. Storages get their arrays, or the error that they raise."""
        with self.lock:
            if self.recording:
                self.start_over()
            if self.steps:
                if self.running:
                    self._run_inside()
                else:
                    self._run(again)

    def _run_inside(self):
        """`_run` where this thread has been interrupted while it runs something: JAX may be compiling that, and a function
        that is being compiled can't be called."""
        with outside_traces():
            self._run(False, program.execute_by_steps)

    def _run(self, again, execute=short_traces.execute):
        run = _Run()
        finished = run.finished
        try:
            self._take(run)
            code, owners, inputs, _, ints, floats, steps, replaced = run.content
            run.live, run.keep = _live(self, owners)
            execute(
                self.device, code, inputs, ints, floats, steps, run.live, run.keep, replaced, again, finished
            )
            self._commit(run)
        except Exception as error:
            if not run.is_over:
                self._take_apart(run, error)
        except BaseException:
            if len(finished) == 2:
                self._commit(run)
            elif not run.is_over:
                self._put_aside(run.content)
            raise
        finally:
            if run.content is not None:
                self.running = run.around
            run.is_over = True

    def _take(self, run):
        """Moves what is recorded into a run; the trace is empty then."""
        while run.is_over:
            content, around = self.content(), self.running
            running = (*around, run)
            code, owners, inputs, input_of, ints, floats, replaced = [], [], [], {}, [], [], {}
            if self.code is content[0] and self.steps == content[6] and self.running is around:
                # In here nothing is called or made, so Python does not look for signals, whose handlers may compute.
                self.code, self.owners, self.inputs, self.input_of = code, owners, inputs, input_of
                self.ints, self.floats, self.replaced, self.steps = ints, floats, replaced, 0
                run.content, run.around, self.running, run.is_over = content, around, running, False

    def content(self):
        """What is recorded, in the order of `adopt`'s arguments."""
        return (self.code, self.owners, self.inputs, self.input_of, self.ints, self.floats, self.steps,
                self.replaced)

    def _commit(self, run):
        """Gives storages their values. What was interrupted can be done again."""
        order, arrays = run.finished
        live, keep = run.live, run.keep
        for place, array in zip(range(len(live)) if order is None else order, arrays):
            storage = keep[place]
            if array.__class__ is ndarray and array.base is not None:
                array = _own(array)
            if storage.trace is self and storage.slot == live[place] and not run.is_over:
                storage.array = array
                storage.trace = None

    def _put_aside(self, content):
        """Makes what was recorded and did not run a trace of its own: it runs when it is needed."""
        aside = Trace(self.device)
        (aside.code, aside.owners, aside.inputs, aside.input_of, aside.ints, aside.floats, aside.steps,
         aside.replaced) = content
        for slot, storage in enumerate(aside.owners):
            if storage.slot == slot and storage.trace is self:
                storage.trace = aside
        return aside

    def take_over(self, storage):
        """Gives a storage its value though this thread is about to compute it: in a signal's handler or a finalizer, which
        have interrupted that.

        Returns:
            Whether it is so.
        """
        with self.lock:
            return any([self._take_run_over(run, storage) for run in self.running])

    def _take_run_over(self, run, storage):
        code, owners, inputs, *rest = run.content
        if storage.slot >= len(owners) or owners[storage.slot] is not storage or run.is_over:
            return False
        if len(run.finished) == 2:
            self._commit(run)
            run.is_over = True
        else:
            run.is_over = True
            # With a list of its own, since inputs that somebody else holds are not given away.
            aside = self._put_aside((code, owners, list(inputs), *rest))
            aside._run_inside()
        return True

    def start_over(self):
        """Takes away, in a signal's handler or a finalizer, what the step that they interrupted has recorded so far; it
        finds that the lists are others and begins again."""
        self.code, self.owners, self.inputs, self.input_of, self.ints, self.floats = (
            list(self.code), list(self.owners), list(self.inputs), dict(self.input_of), list(self.ints), list(self.floats)
        )
        self.cut()
        if self.recording is not True:
            first, written = self.recording
            for slot, storage in enumerate(written, first):
                _written(self, storage, slot, self.code)
        self.recording = False

    def _take_apart(self, run, error):
        """Runs by steps what could not run as a whole: what does not depend on a step that fails gets its value.

        What existed before such a step and was to be written to by one that depends on it stays as it was.

        Raises:
            Exception: the first step's that failed, if somebody waits for what it should have given.
        """
        try:
            self._run_by_steps(run, error)
        except BaseException:
            if not run.is_over:
                self._put_aside(run.content)
            raise

    def _run_by_steps(self, run, error):
        code, _, inputs, _, ints, floats, steps, replaced = run.content
        live, keep = run.live, run.keep
        earlier = [_versions(slot, replaced) for slot in live]
        values, failed = program.run_by_steps(
            code, inputs, ints, floats, {slot for slots in earlier for slot in slots}, error
        )
        outside, first = failed.pop(None, None), None
        for storage, slots in zip(keep, earlier):
            if storage.trace is not self or storage.slot != slots[0] or run.is_over:
                continue
            array = next((values[slot] for slot in slots if slot in values), None)
            if slots[0] in failed:
                first = first or failed[slots[0]]
                if array is None:
                    array = _before(storage, inputs, replaced)
            if not run.is_over:
                storage.error = failed[slots[0]] if array is None else None
                storage.array = array
                storage.trace = None
        if first is not None and not run.is_over:
            raise first from None
        if outside is not None:
            raise outside

    def cut(self):
        """Takes away what a step left that was not recorded to its end."""
        at, slots, inputs, ints, floats = 0, 0, 0, 0, 0
        for _ in range(self.steps):
            plan, at = self.code[at], at + 1
            while at < len(self.code) and self.code[at].__class__ is int:
                inputs, at = max(inputs, -self.code[at]), at + 1
            slots += len(plan.geometries)
            for kind in plan.scalars:
                if kind == INT:
                    ints += 1
                else:
                    floats += 1 if kind == FLOAT else 2
        del self.code[at:], self.owners[slots:], self.inputs[inputs:]
        del self.ints[ints:], self.floats[floats:]
        self.input_of = {key: index for key, index in self.input_of.items() if -index <= inputs}


class _Run:
    """A trace's content while it runs.

    Attributes:
        live, keep, finished: see `program.execute`.
        around: what was running when it began, and was interrupted.
        is_over: whether storages have their values, or another run gives them; or it has not begun.
    """

    __slots__ = ("content", "live", "keep", "finished", "around", "is_over")

    def __init__(self):
        self.content: Any = None
        self.live, self.keep, self.finished, self.around, self.is_over = [], [], [], (), True


def _own(array):
    """A result of the host tier, copied where it is a view of something larger: that could neither be freed nor written to."""
    base = array.base
    return array.copy() if base.__class__ is ndarray and 2 * array.nbytes <= base.nbytes else array


def _versions(slot, replaced):
    """The slots of a storage's values in a trace, the latest first."""
    slots = [slot]
    while slots[-1] in replaced:
        slots.append(replaced[slots[-1]])
    return slots


def _before(storage, inputs, replaced):
    """The array that a storage had before the trace, or None."""
    found = replaced.get(id(storage))
    if found.__class__ is int:
        found = inputs[-1 - found]
    return None if found is None or program.is_given_away(found) else found


def _live_slots(trace, owners):
    """The slots of a trace whose values somebody can still ask for, and their storages."""
    live, keep = [], []
    for slot in range(len(owners)):  # enumerate would hold a reference of its own
        storage = owners[slot]
        if storage.slot == slot and storage.trace is trace and sys.getrefcount(storage) > LISTED:
            live.append(slot)
            keep.append(storage)
    return live, keep


_live: Any = native.module.live if native.module is not None and DEFERRED and RELIABLE else _live_slots  # the same in C


# --- recording -----------------------------------------------------------------------


class _Threads(threading.local):
    """The calling thread's traces; ``cpu`` is kept apart because it is asked for every op."""

    def __init__(self):
        self.cpu = Trace(_device.CPU)
        self.others: dict = {}
        self.capture: Any = None  # a `CaptureTrace` among the others
        self.birth = 0
        _all_traces.add(self.cpu)

    def of(self, device):
        trace = self.others.get(device)
        if trace is None:
            trace = self.others[device] = Trace(device)
            trace.birth = self.birth
            _all_traces.add(trace)
        return trace


_all_traces: weakref.WeakSet[Trace] = weakref.WeakSet()


def _in_child():
    """What other threads, which stayed with the parent, were recording or running is whole, and pending."""
    for trace in list(_all_traces):
        if not trace.lock._is_owned():
            trace.cut()
            for run in trace.running:
                if not run.is_over:
                    trace._put_aside(run.content)
            trace.recording, trace.running = False, ()


forking.after.append(_in_child)
_threads = _Threads()


class _Immediate:
    """The trace of storages that hold JAX tracers: there is nothing to flush."""

    def flush(self, again=False):
        pass

    def take_over(self, storage):
        return False


IMMEDIATE = _Immediate()
OVERWRITTEN: Any = Storage(None)  # type: ignore[arg-type]
_new = object.__new__


def _record(plan: Plan, storages, scalars=(), into: Storage | None = None, onto=None) -> Any:
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
                s.settle()
    if into is not None and into.host is not None and trace.captures:
        trace.flush()  # the user sees such writes at once
    if not DEFERRED or (into is not None and into.host is not None):
        return _run_now(plan, storages, scalars, into)
    lock, steps, code = trace.lock, -1, None
    try:
        lock.acquire()
        if trace.recording:
            trace.start_over()
        if trace.running:  # see `Trace.take_over`
            for s in (*storages, *((into,) if into is not None else onto or ())):
                if s.trace is trace:
                    trace.take_over(s)
        owners, inputs, input_of, ints, floats = trace.owners, trace.inputs, trace.input_of, trace.ints, trace.floats
        cells = trace.cells if trace.captures else None
        code, steps = trace.code, trace.steps + 1
        trace.recording = True
        first = len(owners)
        code.append(plan)
        for s in storages:
            if s.trace is trace:
                code.append(s.slot)
            else:
                array = s.array
                if array is None:
                    if s.trace is not None:
                        raise _Moved
                    array = s.load()
                # What shares an array now may have arrays of its own when the program runs again.
                key = id(s) if trace.captures else id(array)
                index = input_of.get(key)
                if index is None:
                    index = -1 - len(inputs)
                    inputs.append(array)
                    if cells is not None:
                        cells.append(s)
                    input_of[key] = index
                code.append(index)
        if scalars:
            for kind, number in zip(plan.scalars, scalars):
                if kind == INT:
                    ints.append(number)
                elif kind == FLOAT:
                    floats.append(number)
                else:
                    floats.append(number.real)
                    floats.append(number.imag)
        # In each branch nothing is called between the look at the trace's list and the last change: Python looks for no
        # signal there, whose handler may compute.
        if into is not None:
            result, array = into, into.array
            owners.append(into)
            earlier = _earlier(trace, into, first)
            if trace.code is not code:
                raise _Moved
            trace.steps = steps
            if earlier is not None:
                trace.replaced[earlier[0]] = earlier[1]
            if into.trace is trace:
                owners[into.slot] = OVERWRITTEN  # nobody needs the value that it had
            into.version += 1
            into.slot = first
            into.trace = trace
            into.array = None  # ``array`` still holds it: to let go may run Python code
        elif plan.is_single:
            result = _new(Storage)
            result.array = result.host = result.error = result.extra = None
            result.trace = trace
            result.slot = first
            result.root = plan.geometry
            result.version = trace.birth
            result.level = newest_level[0]
            owners.append(result)
            if trace.code is not code:
                raise _Moved
            trace.steps = steps
            if trace.captures:
                trace.born.add(id(result))
        elif onto is not None:
            result = onto
            owners += onto
            if trace.code is not code:
                raise _Moved
            trace.steps = steps
            trace.recording = first, onto
            for slot, s in enumerate(onto, first):
                _written(trace, s, slot, code)
        else:
            result = []
            for slot, g in enumerate(plan.geometries, first):
                s = Storage(g)
                s.trace, s.slot, s.version = trace, slot, trace.birth
                result.append(s)
            owners += result
            if trace.code is not code:
                raise _Moved
            trace.steps = steps
            if trace.captures:
                trace.born.update(map(id, result))
            result = tuple(result)
        trace.recording = False
        stats.ops += 1
    except BaseException as error:
        if not lock._is_owned():  # waiting for it was interrupted
            raise
        try:
            if code is not None:
                if trace.code is not code or trace.steps != steps:
                    trace.cut()
                elif onto is not None:
                    for slot, s in enumerate(onto, first):
                        _written(trace, s, slot, code)
                trace.recording = False
        finally:
            lock.release()
        if error.__class__ is _Moved:
            return _record(plan, storages, scalars, into, onto)
        raise
    lock.release()
    if steps >= MAX_STEPS and not trace.captures:
        trace.flush()
    return result


record: Any = _record if native.module is None or not DEFERRED else native.module.record  # in C where it is simple


class _Moved(Exception):
    """An operand's value is pending elsewhere now, since another thread has written to it meanwhile; or the trace's lists
    are others, see `Trace.start_over`."""


def _earlier(trace, storage, slot):
    """What a storage was that slot ``slot`` replaces: a key and a value of `Trace.replaced`, or None."""
    if storage.trace is trace:
        return slot, storage.slot
    if trace.captures:
        trace.overwritten(storage)
    array = storage.array
    if array is None:
        return None
    found = trace.input_of.get(id(storage) if trace.captures else id(array))
    if found is None and storage.root.numel <= KEPT_ELEMENTS:
        found = array
    return id(storage), found


def _written(trace, storage, slot, code):
    """Makes a slot of a trace, whose code is still this list, the value of a storage that is written to.

    Can be done again.
    """
    if storage.trace is trace and storage.slot == slot:
        return
    earlier, array = _earlier(trace, storage, slot), storage.array
    if trace.code is not code:
        return
    # From here on nothing is called, see `_record`.
    if earlier is not None:
        trace.replaced[earlier[0]] = earlier[1]
    if storage.trace is trace:
        trace.owners[storage.slot] = OVERWRITTEN
    storage.version += 1
    storage.slot = slot
    storage.trace = trace
    storage.array = None
    del array  # to let go of it may run Python code


KEPT_ELEMENTS = 1 << 16  # of an array that is replaced unread, in case that what replaces it fails


def move(source: Storage, target: Storage) -> None:
    """Gives ``source``'s value to ``target`` (same root shape) as a write; ``source`` is spent. Can be done again."""
    while (trace := source.trace) is not None and trace is not IMMEDIATE:
        with trace.lock:
            for s in (source, target) if trace.running else ():
                if s.trace is trace:
                    trace.take_over(s)
            code, slot, array = trace.code, source.slot, target.array
            earlier = _earlier(trace, target, slot)
            owned = slot < len(trace.owners) and trace.owners[slot] is source
            if source.trace is trace and trace.code is code:
                if not owned:  # the target has it already
                    return
                # From here to the last change nothing is called, see `_record`.
                if earlier is not None:
                    trace.replaced[earlier[0]] = earlier[1]
                if target.trace is trace:
                    trace.owners[target.slot] = OVERWRITTEN
                trace.owners[slot] = target
                target.version += 1
                target.slot = slot
                target.trace = trace
                target.array = None
                del array  # to let go of it may run Python code
                if trace.captures:
                    trace.born.discard(id(source))
                return
    target.version += 1
    target.array = source.array
    target.trace = trace


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
        plan = Plan(lambda x: x, (source.root,), "", "clone", source.root.device)
        plan.host = strided_steps.IDENTITY
        program.remember(_copies, source.root, plan, 4096)
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
        watch: what notes which Python state is read and changed (`ftorch.jit.capture.state_watch`).
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


def swap_trace(trace: Trace | None, device=_device.CPU) -> Trace:
    """Makes another trace the calling thread's for a device (None: a fresh one); gives the old one, flushed.

    A `CaptureTrace` for the CPU is told when somebody looks at a value.
    """
    if device is not _device.CPU:
        old = _threads.of(device)
        old.flush()
        _threads.others[device] = Trace(device) if trace is None else trace
        _threads.others[device].birth = _threads.birth
        _threads.capture = trace if trace is not None and trace.captures else None
        return old
    old = _threads.cpu
    if not old.captures:
        old.flush()
    _threads.cpu = Trace(_device.CPU) if trace is None else trace
    _threads.cpu.birth = _threads.birth
    _set_watch(_threads.cpu)
    return old


def restore_trace(old: Trace, device=_device.CPU) -> None:
    """Makes an earlier trace the calling thread's for a device again."""
    if device is not _device.CPU:
        _threads.others[device], _threads.capture = old, None
        return
    _threads.cpu = old
    _set_watch(old)


class swapped:  # noqa: N801
    """Within, another trace is the calling thread's, as `swap_trace` makes it; whatever comes, the old one is afterwards."""

    def __init__(self, trace: Trace | None):
        self._trace, self._old = trace, None

    def __enter__(self):
        self._old = _threads.cpu
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
    return trace if trace.captures else _threads.capture  # type: ignore[return-value]


@contextlib.contextmanager
def outside_capture():
    """Within, work is not part of the program that is being captured: it is done once, now."""
    capture = capturing()
    if capture is None:
        yield
        return
    with swapped(None):
        yield
        _threads.cpu.flush()


@contextlib.contextmanager
def unwatched():
    """Within, Python does not tell the watch of a capture (`ftorch.jit.capture.state_watch`) which functions are entered:
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
