"""Traces: what a thread has recorded and what of it is running; how it is run, taken apart and put aside."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import weakref
from typing import Any

from numpy import ndarray

from ..._arrays import aligned_copy
from .. import native
from ..core import device as _device
from ..core import forking
from ..core.errors import another
from ..core.jax_internals import outside_traces
from ..core.refcount import LISTED, RELIABLE
from ..memory.storage import Storage
from . import short_traces, stepwise
from .trace_code import counts_of_numbers, steps_of

UNITS = "backward"  # in `Trace.replaced`: `backward_units`
DEFERRED = os.environ.get("FTORCH_EXECUTOR", "deferred") != "op"


class Trace:
    """The steps that one thread has recorded for one device and that have not run.

    ``code`` is the flat list [plan, operand, ...]: an operand that is not negative is the slot of an
    earlier result, a negative one the input ``-1 - operand``. ``owners[slot]`` is the storage whose
    value a slot is, unless the storage has moved on (its own ``slot`` says). ``replaced`` says what
    a storage (by its id) that has been written to was before: an input's operand, a small array, or
    None; of a slot, by which slot's value it followed; and under `UNITS` the backward passes.

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
        self.running: tuple[Run, ...] = ()
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
        if not again and _run_short(self):
            return
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
            self._run(False, stepwise.execute_by_steps)

    def _run(self, again, execute=short_traces.execute):
        run = Run()
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

    def resume(self, run, error):
        """Does what `_run` does where computing raised, for the same in C."""
        try:
            raise error
        except Exception:
            if not run.is_over:
                self._take_apart(run, error)
        except BaseException:
            if not run.is_over:
                self._put_aside(run.content)
            raise
        finally:
            self.running = run.around
            run.is_over = True

    def fail(self, error):
        """Does what `flush` does where what is recorded has failed as a whole."""
        def raises(*given):
            raise error

        with self.lock:
            self._run(False, raises)

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
                array = _own(array, storage.root)
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
                mark_written(self, storage, slot, self.code)
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
        units = replaced.get(UNITS, ())
        values, failed, again = stepwise.run_by_steps(
            code, inputs, ints, floats, {slot for slots in earlier for slot in slots}, error, units
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
                made = next((again[slot] for slot in slots if slot in again), None)
                if array is None and made is not None and not run.is_over:
                    self._put_off(storage, *made)
                    continue
            if not run.is_over:
                storage.error = failed[slots[0]] if array is None else None
                storage.array = array
                storage.trace = None
                if array is None and storage.extra.__class__ is tuple:
                    _take_back(storage)
                if slots[0] in failed:
                    for unit in units:
                        unit.put_back(storage)
        if first is not None and not run.is_over:
            raise another(first) from None
        if outside is not None:
            raise outside

    def _put_off(self, storage, plan, ints, floats):
        """Lets a storage have the result of a step that has failed and needs nothing when somebody asks for it again: an
        optimizer's new state, for which there was no memory."""
        aside = Trace(self.device)
        aside.code, aside.owners, aside.ints, aside.floats, aside.steps = [plan], [storage], ints, floats, 1
        storage.slot, storage.trace = 0, aside

    def cut(self):
        """Takes away what a step left that was not recorded to its end."""
        at, slots, inputs, ints, floats = 0, 0, 0, 0, 0
        for plan, operands in itertools.islice(steps_of(self.code), self.steps):
            at, slots = at + 1 + len(operands), slots + len(plan.geometries)
            inputs = max(inputs, -min(operands, default=0))
            more = counts_of_numbers(plan)
            ints, floats = ints + more[0], floats + more[1]
        del self.code[at:], self.owners[slots:], self.inputs[inputs:]
        del self.ints[ints:], self.floats[floats:]
        self.input_of = {key: index for key, index in self.input_of.items() if -index <= inputs}


def _take_back(storage):
    """Leaves to which a backward that failed has given their first gradient have none, as before it."""
    entry = storage.extra
    while entry.__class__ is tuple:
        leaf, entry = entry[0](), entry[1]
        if leaf is not None and leaf._grad is not None and leaf._grad._ftorch_storage is storage:
            leaf._grad = None


class Run:
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


def _own(array, root):
    """A result of the host tier as its storage keeps it: copied where it is a view of something larger, which could neither be
    freed nor written to, and where its elements lie in another order than the storage says, which each reader would copy.
    What repeats its elements stays so."""
    base = array.base
    if base.__class__ is ndarray and 2 * array.nbytes <= base.nbytes:
        return array.copy()
    is_turned = root.is_contiguous and not array.flags.c_contiguous and 0 not in array.strides
    return aligned_copy(array) if is_turned else array


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
    return None if found is None or stepwise.is_given_away(found) else found


def _live_slots(trace, owners):
    """The slots of a trace whose values somebody can still ask for, and their storages."""
    live, keep = [], []
    for slot in range(len(owners)):  # enumerate would hold a reference of its own
        storage = owners[slot]
        if storage.slot == slot and storage.trace is trace and sys.getrefcount(storage) > LISTED:
            live.append(slot)
            keep.append(storage)
    return live, keep


def _nothing(trace):
    return False


_run_short: Any = _nothing if native.module is None or not DEFERRED else native.module.run_short  # short traces, in C
_live: Any = native.module.live if native.module is not None and DEFERRED and RELIABLE else _live_slots  # the same in C


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
threads = _Threads()


def set_birth(version: int) -> None:
    """Sets the version that the calling thread's new storages begin with."""
    threads.birth = version
    for trace in (threads.cpu, *threads.others.values()):
        trace.birth = version


class _Immediate:
    """The trace of storages that hold JAX tracers: there is nothing to flush."""

    def flush(self, again=False):
        pass

    def take_over(self, storage):
        return False


IMMEDIATE = _Immediate()
OVERWRITTEN: Any = Storage(None)  # type: ignore[arg-type]
def earlier_value(trace, storage, slot):
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


def mark_written(trace, storage, slot, code):
    """Makes a slot of a trace, whose code is still this list, the value of a storage that is written to.

    Can be done again.
    """
    if storage.trace is trace and storage.slot == slot:
        return
    earlier, array = earlier_value(trace, storage, slot), storage.array
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
