"""Programs: traces that came before, found by their keys and run as one compiled function.

A known trace runs as one compiled program, a new one step by step or compiled, whichever is cheaper.
"""

from __future__ import annotations

import collections
import contextlib
import sys
import weakref
from time import perf_counter
from typing import Any

import jax
import numpy as np

from ..core import device as _device
from ..core import forking, jax_internals
from ..core.jax_scope import scoped
from ..core.refcount import ITEM
from ..core.suppressed_warnings import quiet
from ..memory import gpu_driver, host_memory
from ..memory.program_inputs import for_programs
from . import background, donation, host_tier, trace_programs
from .compilation import compile_code, places
from .counters import stats
from .plan import COMPILE_STEP
from .scalars import numbers_of
from .stepwise import interpret, last_uses
from .trace_code import steps_of

# Set by `ftorch.eager.dynamic_shapes.traces`: (what is known of the trace, device, code, inputs, ints, floats, live) -> the
# live values by a program that traces of other sizes share, or None.
shared_run: Any = None

MAX_PROGRAMS = 1024  # compiled programs kept
_MAX_VARYING = 128  # traces of new sizes whose time is counted
_DONATION_BYTES = 1 << 14  # donating less costs more than it saves

# Seconds that decide when what ran on the host is compiled: once it took as long as a compilation will.
_COMPILE_PROGRAM, _COMPILE_PROGRAM_STEP = 0.025, 0.003
_SMALL, _SMALL_STEP = 1 << 14, 64  # elements that the steps of a trace give: all, or each in the mean of a long one


class Risk:
    """Whether a program may fail when it runs: what it was given is lost then."""

    __slots__ = ("code", "live", "bytes", "calls_back", "is_none")

    def __init__(self, code, live):
        self.code, self.live, self.bytes, self.calls_back = code, live, None, False
        self.is_none = False  # known to be small, and to call nothing back

    def may_fail(self, device):
        """Whether the program calls Python back, or needs more memory than there is."""
        if self.bytes is None:
            definitions = [getattr(item.op, "definition", None) for item in self.code if item.__class__ is not int]
            self.calls_back = any(getattr(definition, "calls_back", False) for definition in definitions)
            self.bytes, self.code = _most_bytes(self.code, self.live), None
            self.is_none = not self.calls_back and self.bytes <= _LARGE
        return self.calls_back or (self.bytes > _LARGE and _MARGIN * self.bytes > _available(device))


def _available(device):
    """How many bytes a program can hope for where it runs."""
    if device is _device.CPU or _device.is_several(device):
        return host_memory.available()
    return gpu_driver.available(_device.to_jax(device))


class Program(Risk):
    """What is known of a trace key.

    Attributes:
        seen: how often it came.
        varies: whether its sizes are those of a size class that had others before.
        is_small: whether it computes so little that XLA's call costs as much as steps on the host.
        again: how often it came soon after itself.
        spent: seconds in which it ran step by step, but for the first time.
        reusable: indices of the inputs that may be donated.
        moves_much: whether its inputs are large together.
        compiled: {donated inputs: compiled function}.
        compiling: {donated inputs: (function, its `background.Job`)}.
        shared: what runs it by a program that traces of other sizes share; None: not asked yet; False: there is none.
    """

    __slots__ = (
        "seen", "varies", "is_small", "moves_much", "again", "spent", "reusable", "compiled", "compiling", "shared",
    )

    def __init__(self, varies, reusable, code, live):
        super().__init__(code, live)
        self.seen, self.varies, self.spent, self.again = 0, varies, 0.0, 0
        made = [sum(g.numel for g in item.geometries) for item in code if item.__class__ is not int]
        self.is_small = sum(made) <= max(_SMALL, _SMALL_STEP * len(made))
        self.moves_much = False
        self.reusable = reusable
        self.compiled = {}
        self.compiling = {}
        self.shared: Any = None


_LARGE = 1 << 26  # programs that need less are not expected to run out of memory
_MARGIN = 1.25  # what XLA takes, of what the steps' results take: 1.18 were seen


def _most_bytes(code, live):
    """How many bytes results take at most at one time, if the steps run one by one."""
    walk = steps_of(code)
    sizes = [g.numel * g.dtype.itemsize for plan, _ in walk for g in plan.geometries]
    if sum(sizes) <= _LARGE:
        return 0
    needed, last_use = last_uses(walk, live)
    wanted, slot, held, most = set(live), 0, 0, 0
    for index, (plan, operands) in enumerate(walk):
        slots = range(slot, slot + len(plan.geometries))
        slot = slots.stop
        if needed.isdisjoint(slots):
            continue
        held += sum(sizes[place] for place in slots)
        most = max(most, held)
        held -= sum(sizes[place] for place in slots if place not in wanted and place not in last_use)
        held -= sum(
            sizes[o] for o in set(operands) if o >= 0 and last_use[o] == index and o not in wanted
        )
    return most


latest: dict[Any, weakref.ref] = {}
"""A result of what ran last on each accelerator."""
_programs: collections.OrderedDict[tuple, Program] = collections.OrderedDict()
_recent: collections.deque[Program] = collections.deque(maxlen=16)  # traces of sizes that vary
_varying: collections.OrderedDict[tuple, Program] = collections.OrderedDict()  # of sizes that may never come again
_once: dict[int, None] = {}  # hashes of such that came once: most never come again
_MOST_ONCE = 2048
_programs_lock = forking.rlock()


def forget() -> None:
    """Lets go of all programs: something that they depend on has changed."""
    with _programs_lock:
        _programs.clear()
        _varying.clear()
        _once.clear()


def _reusable(inputs, keep):
    """Indices of the inputs whose memory a result could take, if nobody else holds them."""
    wanted = collections.Counter((s.root.shape, s.root.dtype.numpy) for s in keep)
    found = []
    for i, array in enumerate(inputs):
        key = (array.shape, array.dtype)
        if array.nbytes > _DONATION_BYTES and wanted[key] > 0:
            wanted[key] -= 1
            found.append(i)
    return found


@scoped
def execute(device, code, inputs, ints, floats, steps, live, keep, replaced, again=False, finished=None):
    """Runs a trace; gives the arrays of the live slots.

    Args:
        code, inputs, ints, floats, replaced: see `ftorch.eager.runtime.trace.Trace`; none is changed, but that
            inputs that nobody else holds may be copies of XLA's, and those of the CPU copies where the program runs.
        live: the slots wanted; ``keep`` their storages.
        again: whether the same trace is going to come again.
        finished: a list that gets the order of the arrays (None: as in ``live``) and, the moment they
            exist, the arrays, so that they are not lost to an exception that comes then.
    """
    finished = [] if finished is None else finished
    if not jax_internals.is_top_level():
        # JAX traces the function that calls ftorch. What is recorded here are values, constants of
        # that trace: they are computed at once (and a program with options cannot be nested).
        with jax.ensure_compile_time_eval():
            _execute(device, code, inputs, ints, floats, steps, live, keep, replaced, again, finished)
    else:
        try:
            _execute(device, code, inputs, ints, floats, steps, live, keep, replaced, again, finished)
        except BaseException:
            jax_internals.leave_traces()  # what was interrupted may have left another
            raise
    order, arrays = finished
    if device is not _device.CPU and arrays:
        latest[device] = weakref.ref(arrays[-1])
    return arrays if order is None else [arrays[i] for i in places(order)]


def _comes_first(mark, keep):
    """Whether a trace of a size class runs on the host with nothing kept of it but its hash; what replaces much is not such."""
    if not host_tier.ENABLED or donation.early_programs.may_want(sum([s.root.numel * s.root.dtype.itemsize for s in keep])):
        return False
    _note_once(mark)
    return True


def _note_once(mark):
    _once[mark] = None
    if len(_once) > _MOST_ONCE:
        _once.pop(next(iter(_once)))


def note_once(code, live):
    """Notes that a trace of a size class came for the first time, on the CPU."""
    with _programs_lock:
        _note_once(hash((tuple(code), tuple(live), _device.CPU)))


def _move(inputs, device):
    """Puts arrays of the CPU there, in the list itself: who else held them could not be seen with a second list."""
    for i in range(len(inputs)):
        array = _device.moved(inputs[i], device)
        if array is not inputs[i]:
            inputs[i] = array


def _execute(device, code, inputs, ints, floats, steps, live, keep, replaced, again, finished):
    if not live:
        finished += (None, [])
        return
    if device is not _device.CPU:
        _move(inputs, device)
    # Padded programs are for one device: what lies on several is divided as its own sizes are.
    shares = host_tier.PADDED if device is _device.CPU else not _device.is_several(device)
    if steps == 1 and not shares:
        plan = code[0]
        if plan.instance is not None and not plan.runs and device is _device.CPU and host_tier.ENABLED:
            trace_programs.find(code, live)  # for calls in C at the next size
        operands = [inputs[-1 - operand] for operand in code[1:]]
        scalars = numbers_of(plan.scalars, iter(ints), iter(floats)) if plan.scalars else ()
        results = plan.run(operands, scalars, True)
        finished += (None, [results[slot] for slot in live])
        return
    if _device.forked[0]:
        finished += (None, interpret(code, inputs, ints, floats, live))
        return
    key = (tuple(code), tuple(live), device)
    with _programs_lock:
        program = _programs.get(key)
        if program is not None:
            _programs.move_to_end(key)
        elif (program := _varying.get(key)) is None:
            varies, mark = _varies(code), hash(key)
            came = mark in _once
            if came or not (varies and not shares and device is _device.CPU and _comes_first(mark, keep)):
                program = Program(varies, _reusable(inputs, keep), code, live)
                known = _varying if varies else _programs
                known[key] = program
                if len(known) > (_MAX_VARYING if varies else MAX_PROGRAMS):
                    known.popitem(last=False)
                program.seen = int(came)
                host_memory.free_memory.after_new_program()
    if program is None:
        found = trace_programs.find(code, live)
        if found is None:
            finished += (None, interpret(code, inputs, ints, floats, live))
        else:
            finished += (None, found[0].run(inputs, found[1], ints, floats))
        return
    program.seen += 1
    if shares and not program.compiled:
        results = shared_run(program, device, code, inputs, ints, floats, live)
        if results is not None:
            finished += (None, results)
            stats.programs += 1
            return
    replaces_much = False  # by steps it would hold both what it replaces and what it makes
    if not program.compiled and _prefers_steps(program, code, steps, again, device):
        replaces_much = device is _device.CPU and donation.early_programs.wants(program, inputs)
        if not replaces_much:
            _run_on_host(program, device, code, inputs, ints, floats, live, finished)
            return
    # Memory that a failing program was given is lost. Where one may well fail, it gets none.
    may_fail = program.may_fail(device)
    donated = () if may_fail else tuple([i for i in program.reusable if sys.getrefcount(inputs[i]) == ITEM])
    compiled = program.compiled.get(donated)
    is_new = compiled is None
    if compiled is None:
        if all(item.__class__ is int or item.element is not None for item in code):
            finished += (None, interpret(code, inputs, ints, floats, live))
            return
        # Other threads run the program, too: what they put there or take is asked for once.
        waiting = program.compiling.get(donated)
        if waiting is None and (compiled := program.compiled.get(donated)) is None:
            beside = not replaces_much and _is_compiled_beside(program, device)
            if beside and not background.has_room():
                _run_on_host(program, device, code, inputs, ints, floats, live, finished)
                return
            before = [_replaced_input(replaced.get(id(storage))) for storage in keep]
            for item in code:
                if item.__class__ is not int:
                    item.pinned = True
            if program.varies:
                with _programs_lock:
                    _programs[key] = program
                    _varying.pop(key, None)
            compiled = compile_code(code, live, donated, device, before)
            if beside:
                waiting = compiled, _begun(compiled, donated, inputs, ints, floats)
                if waiting[1] is not None:  # else others were faster, and too many wait
                    program.compiling[donated] = waiting
        if waiting is not None:
            compiled, job = waiting
            if job is None or not job.poll():
                _run_on_host(program, device, code, inputs, ints, floats, live, finished)
                return
        program.compiled[donated] = compiled
        program.compiling.pop(donated, None)
    else:
        stats.hits += 1
        if program.seen == 2:
            donation.early_programs.came_again(program)
    stats.programs += 1
    if donated and device is _device.CPU:
        donation.hand_over(inputs, compiled.given)
    kept = [a for i, a in enumerate(inputs) if i not in donated] if donated else list(inputs)
    kept = for_programs(kept, device)
    given = [inputs[i] for i in compiled.given]
    arguments = _numbers(ints, np.int64, device) if ints else None
    numbers = _numbers(floats, np.float64, device) if floats else None
    where = _nothing if device is _device.CPU or _device.is_several(device) else jax.default_device(_device.to_jax(device))
    with where, quiet() if is_new else _nothing:  # JAX says so when memory that is offered cannot be used
        if is_new:
            program.moves_much = device is _device.CPU and sum([a.nbytes for a in inputs]) > _LARGE_INPUTS
            given = donation.prepare(compiled.function, kept, given, (arguments, numbers), device)
        if may_fail:
            results = jax_internals.call_again(compiled.function, kept, given, arguments, numbers)
            finished += (compiled.order, jax.block_until_ready(results))
            return
        operands = (kept,), (given,), (arguments,), (numbers,)
        finished.append(compiled.order)
        try:  # In one instruction of Python's the program runs and its results are in the list.
            finished.extend(map(compiled.function, *operands))
        except RecursionError as error:
            if not jax_internals.is_busy(error):
                raise
            with jax_internals.apart():
                finished.extend(map(compiled.function, *operands))
    if program.moves_much:
        host_memory.free_memory.look()


_numbers_there: collections.OrderedDict[tuple, Any] = collections.OrderedDict()
_MOST_NUMBERS = 1024  # vectors


def _numbers(values, dtype, device):
    """A program's numbers as one array. A transfer to an accelerator takes longer than a program: vectors are kept there."""
    array = np.array(values, dtype)
    if device is _device.CPU or _device.is_several(device):
        return array
    key = (device, array.dtype.char, array.tobytes())
    with _programs_lock:
        found = _numbers_there.get(key)
        if found is None:
            found = _numbers_there[key] = _device.put(array, device)
            if len(_numbers_there) > _MOST_NUMBERS:
                _numbers_there.popitem(last=False)
        else:
            _numbers_there.move_to_end(key)
    return found


def _run_on_host(program, device, code, inputs, ints, floats, live, finished):
    """Runs a trace by steps, or as one function of the host tier's."""
    start = perf_counter()
    found = trace_programs.find(code, live) if device is _device.CPU and host_tier.ENABLED else None
    if found is not None:
        results = found[0].run(inputs, found[1], ints, floats)
    else:
        results = interpret(code, inputs, ints, floats, live)
    finished += (None, results)
    if program.seen > 1:  # the first run is that in which steps are made
        program.spent += perf_counter() - start


def _is_compiled_beside(program, device):
    """Whether a trace goes on running on the host while its program is compiled: those that ran there until XLA pays."""
    return (
        device is _device.CPU and host_tier.ENABLED and (program.varies or program.is_small) and background.is_possible()
    )


def _begun(compiled, donated, inputs, ints, floats):
    """The `background.Job` that compiles a program, or None if too many wait.

    Which inputs are donated is known only when a program is called: one that takes over others than last time is a
    program of its own.
    """
    kept = [background.structure_of(a) for i, a in enumerate(inputs) if i not in donated]
    given = [background.structure_of(inputs[i]) for i in compiled.given]
    return background.compile_beside(
        compiled.function, kept, given, _numbers_structure(ints, np.int64), _numbers_structure(floats, np.float64)
    )


def _numbers_structure(numbers, dtype):
    return jax.ShapeDtypeStruct((len(numbers),), dtype) if numbers else None


_nothing = contextlib.nullcontext()
_LARGE_INPUTS = 1 << 26  # bytes from which on free memory is looked at after each run: 50 us


def _replaced_input(found):
    """The input that `Trace.replaced` says was the value of a storage, or -1."""
    return -1 - found if found.__class__ is int else -1


def _varies(code):
    return any([item.__class__ is not int and item.instance is not None for item in code])


def _prefers_steps(program, code, steps, again, device):
    """Whether a trace that is not compiled yet runs step by step once more.

    Sizes that came for the first time may never come again. Those of a loop come again at once; but where a size
    class had others before, they are compiled only when a loop over this one has begun, or when that will have been
    worth it (a ski rental: steps by then have cost as much as the compilation). What is small waits for the latter.
    """
    if device is not _device.CPU or not host_tier.ENABLED:
        cold = {item for item in code if item.__class__ is not int and item.compiled is None}
        costs = len(cold) * COMPILE_STEP, _COMPILE_PROGRAM + steps * _COMPILE_PROGRAM_STEP
        return program.seen == 1 and not again and costs[0] < costs[1]
    if program.is_small or program.varies:
        if not again and program.varies and not program.is_small:
            if program in _recent:
                program.again += 1
            else:
                _recent.append(program)
            if program.again > 1:
                return False
        return not (again and not program.varies) and program.spent < _COMPILE_PROGRAM + steps * _COMPILE_PROGRAM_STEP
    return program.seen == 1 and not again

