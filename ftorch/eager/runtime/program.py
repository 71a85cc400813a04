"""Steps and programs: what of recorded work is compiled, cached and run.

A `Plan` is one step. A trace of several steps is found by its key: a known one runs as one compiled
program, a new one step by step or compiled, whichever is cheaper.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import sys
import warnings
from time import perf_counter
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.errors import JaxRuntimeError

from ..._toplevel import arrays as _arrays
from ..core import device as _device
from ..core import forking, jax_internals
from ..core.errors import translate_error
from ..core.geometry import Geometry
from ..core.pace import rest
from ..core.quiet import quiet
from ..core.refcount import ITEM
from ..memory import host_memory
from ..native.passes.rewrite import rewritten
from . import background, donation, forked, host_tier, trace_programs

MAX_PROGRAMS = 1024  # compiled programs kept
_MAX_VARYING = 128  # traces of new sizes whose time is counted
_DONATION_BYTES = 1 << 14  # donating less costs more than it saves

# Seconds that decide when what ran on the host is compiled: once it took as long as a compilation will.
_COMPILE_STEP, _COMPILE_PROGRAM, _COMPILE_PROGRAM_STEP = 0.02, 0.025, 0.003
_SMALL = 1 << 14  # elements that all steps of a trace give together
_RUNS = 8  # of one step before it is compiled by itself
_CALL = 1e-5  # what XLA needs for the smallest program

INT, FLOAT, COMPLEX = "i", "f", "c"


class Stats:
    """Counters of the executor: read them to see what compiled and what ran.

    Attributes:
        compilations: functions handed to XLA's compiler (steps and programs).
        hits: runs that found their compiled function.
        programs: traces and single steps that ran.
        ops: steps recorded.
    """

    __slots__ = ("compilations", "hits", "programs", "ops")

    def __init__(self):
        self.reset()

    def reset(self):
        self.compilations = self.hits = self.programs = self.ops = 0

    def __repr__(self):
        return f"Stats({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__)})"


stats = Stats()


def weak(scalar, kind):
    """A traced scalar that does not take part in JAX's promotion, like a Python number."""
    return jax_internals.weak_scalar(scalar, _WEAK_DTYPES[kind])


_WEAK_DTYPES = {
    INT: np.dtype(np.int64), FLOAT: np.dtype(np.float64), COMPLEX: np.dtype(np.complex128),
}


class Plan:
    """One step: ``fn(*arrays, *scalars)`` gives an array, or a tuple of them.

    Attributes:
        geometries: of the results, one for each.
        scalars: the kinds of the scalar operands, as a string of "i", "f", "c".
        name: for error messages.
        op, backward: what `ftorch.eager.call.op` and the tape keep with a plan.
        element: what each element of the result is: a number, "scalar" (the plan's), or None if they differ.
        instance: its `size_classes.Instance`, if the results' shapes follow from a size class.
        program: its `ClassProgram` at its own sizes, if the host tier made one.
        pinned: whether a compiled program is found by it.
        spent, runs: seconds in which the host tier ran it, and how often.
        host: the step on NumPy arrays, (arrays, numbers) -> tuple; False where there is none; None: not known yet.
        writes: how an in-place call is done in memory (`inplace_writes.way_of`); None: not known yet.
        compiling: (function, its `background.Job`) while it is compiled beside.
    """

    __slots__ = (
        "fn", "geometries", "geometry", "is_single", "scalars", "name", "device", "compiled",
        "op", "static", "inputs", "backward", "extra", "element", "instance", "host",
        "spent", "runs", "program", "pinned", "writes", "compiling",
    )

    def __init__(self, fn, geometries: tuple[Geometry, ...], scalars: str, name: str, device,
                 is_single=True):
        self.fn = fn
        self.geometries = geometries
        self.geometry = geometries[0] if geometries else None
        self.is_single = is_single
        self.scalars = scalars
        self.name = name
        self.device = device
        self.compiled = None
        self.op: Any = None
        self.static: Any = None
        self.inputs: Any = None
        self.backward: Any = None
        self.extra: Any = None
        self.element: Any = None
        self.instance: Any = None
        self.host: Any = None
        self.spent, self.runs = 0.0, 0
        self.program: Any = None
        self.pinned = False
        self.writes: Any = None
        self.compiling: Any = None

    def __repr__(self):
        return f"<plan {self.name}>"

    def run(self, arrays, scalars, alone=False):
        """Runs the step by itself; always gives a tuple.

        Args:
            alone: whether it is a trace of one step: such a one may be compiled where the host has code for it, too.
        """
        if self.element is not None:
            stats.programs += 1
            return (self._filled(scalars),)
        if _device.forked[0]:
            return forked.run_step(self, arrays, _packed(self.scalars, scalars))
        compiled = self.compiled
        if compiled is None:
            if self.device is _device.CPU and (step := host_tier.step_of(self)) and not (
                alone and self._is_worth_compiling() and not self._waits(arrays, scalars)
            ):
                start = perf_counter()
                results = host_tier.run_step(step, arrays, _packed(self.scalars, scalars))
                self.spent += perf_counter() - start
                self.runs += 1
                return host_tier.checked(self, results, arrays) if host_tier.CHECKED else results
            compiled = self._compile()
        else:
            stats.hits += 1
        stats.programs += 1
        try:
            results = compiled(*arrays, *_packed(self.scalars, scalars)) if scalars else compiled(*arrays)
        except RecursionError:  # this thread was compiling it when the handler of a signal came
            if self.device is not _device.CPU:
                raise
            return forked.run_step(self, arrays, _packed(self.scalars, scalars))
        return (results,) if self.is_single else results

    def is_fixed(self):
        """Whether the host tier has its code and it came before: steps of sizes that stay."""
        return self.program is not None and self.runs > 1 and self.compiled is None

    def _is_worth_compiling(self):
        """Whether runs on the host took as long as a compilation, and longer than XLA's call."""
        return self.runs >= _RUNS and self.spent > _COMPILE_STEP and self.spent > self.runs * _CALL

    def _waits(self, arrays, scalars):
        """Whether the step goes on running on the host since it is being compiled beside."""
        compiling = self.compiling  # other threads run the step, too
        if compiling is None:
            if not background.is_possible():
                return False
            if background.has_room():
                function = self._jitted()
                operands = map(_structure, (*arrays, *_packed(self.scalars, scalars)))
                if (job := background.compile_beside(function, *operands)) is not None:
                    self.compiling = function, job
            return True
        return not compiling[1].poll()

    def _filled(self, scalars):
        """An array of one number, without XLA, which would compile a program for every shape."""
        kind, number = (self.scalars, scalars[0]) if self.element == "scalar" else (INT, self.element)
        dtype = self.geometry.dtype.numpy
        with np.errstate(over="ignore"):
            number = _NUMPY_SCALAR[kind](number).astype(dtype)
        return _device.put(_arrays.filled(self.geometry.shape, number, dtype), self.device)

    def step(self):
        """A function of arrays, to be traced: ``fn`` with the scalars as JAX's weak numbers."""
        kinds, fn = self.scalars, self.fn

        def step(*operands):
            count = len(operands) - len(kinds)
            numbers = (weak(v, k) for v, k in zip(operands[count:], kinds))
            with quiet():
                return fn(*operands[:count], *numbers)

        step.__name__ = self.name
        return step

    def _jitted(self):
        step = self.step()
        stats.compilations += 1
        on_cpu = self.device is _device.CPU
        return jax.jit(rewritten(step, rounded=True), compiler_options=_ROUNDED) if on_cpu else jax.jit(step)

    def _compile(self):
        compiling, self.compiling = self.compiling, None
        self.compiled = self._jitted() if compiling is None else compiling[0]
        return self.compiled


def remember(plans: dict, key, plan, most=512):
    """Keeps a plan. Where there are many, the oldest that no compiled program is found by go: sizes that came once.

    Args:
        plans: {key: plan}, or what else has ``pinned`` and ``compiled``.
    """
    plans[key] = plan
    host_memory.fragmentation.new_plan()
    if len(plans) <= most:
        return
    with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # another thread was here
        for _ in range(8):
            oldest = next(iter(plans))
            held = plans.pop(oldest)
            if not held.pinned and held.compiled is None:
                return
            plans[oldest] = held


_NUMPY_SCALAR = {INT: np.int64, FLOAT: np.float64, COMPLEX: np.complex128}


def _packed(kinds, values):
    return [_NUMPY_SCALAR[k](v) for k, v in zip(kinds, values)]


# --- programs ------------------------------------------------------------------------


class Risk:
    """Whether a program may fail when it runs: what it was given is lost then."""

    __slots__ = ("code", "live", "bytes", "calls_back")

    def __init__(self, code, live):
        self.code, self.live, self.bytes, self.calls_back = code, live, None, False

    def may_fail(self):
        """Whether the program calls Python back, or needs more memory than there is."""
        if self.bytes is None:
            definitions = [getattr(item.op, "definition", None) for item in self.code if item.__class__ is not int]
            self.calls_back = any(getattr(definition, "calls_back", False) for definition in definitions)
            self.bytes, self.code = _most_bytes(self.code, self.live), None
        return self.calls_back or (self.bytes > _LARGE and self.bytes > host_memory.available())


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
    """

    __slots__ = ("seen", "varies", "is_small", "moves_much", "again", "spent", "reusable", "compiled", "compiling")

    def __init__(self, varies, reusable, code, live):
        super().__init__(code, live)
        self.seen, self.varies, self.spent, self.again = 0, varies, 0.0, 0
        self.is_small = sum(g.numel for item in code if item.__class__ is not int for g in item.geometries) <= _SMALL
        self.moves_much = False
        self.reusable = reusable
        self.compiled = {}
        self.compiling = {}


_LARGE = 1 << 28  # programs that need less are not expected to run out of memory


def _most_bytes(code, live):
    """How many bytes results take at most at one time, if the steps run one by one."""
    walk = list(_walk(code))
    sizes = [g.numel * g.dtype.itemsize for plan, _ in walk for g in plan.geometries]
    if sum(sizes) <= _LARGE:
        return 0
    needed, last_use = _last_uses(walk, live)
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


_programs: collections.OrderedDict[tuple, Program] = collections.OrderedDict()
_recent: collections.deque[Program] = collections.deque(maxlen=16)  # traces of sizes that vary
_varying: collections.OrderedDict[tuple, Program] = collections.OrderedDict()  # of sizes that may never come again
_programs_lock = forking.rlock()


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


def execute(device, code, inputs, ints, floats, steps, live, keep, replaced, again=False, finished=None):
    """Runs a trace; gives the arrays of the live slots.

    Args:
        code, inputs, ints, floats, replaced: see `ftorch.eager.runtime.trace.Trace`; none is changed, but that
            inputs that nobody else holds may be copies of XLA's.
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
    return arrays if order is None else [arrays[i] for i in places(order)]


def _execute(device, code, inputs, ints, floats, steps, live, keep, replaced, again, finished):
    if not live:
        finished += (None, [])
        return
    if device is not _device.CPU:
        inputs = [_device.moved(array, device) for array in inputs]
    if steps == 1:
        plan = code[0]
        operands = [inputs[-1 - operand] for operand in code[1:]]
        scalars = _numbers(plan.scalars, iter(ints), iter(floats)) if plan.scalars else ()
        results = plan.run(operands, scalars, True)
        finished += (None, [results[slot] for slot in live])
        return
    if _device.forked[0]:
        finished += (None, _interpret(code, inputs, ints, floats, live))
        return
    key = (tuple(code), tuple(live), device)
    with _programs_lock:
        program = _programs.get(key)
        if program is not None:
            _programs.move_to_end(key)
        elif (program := _varying.get(key)) is None:
            program = Program(_varies(code), _reusable(inputs, keep), code, live)
            known = _varying if program.varies else _programs
            known[key] = program
            if len(known) > (_MAX_VARYING if program.varies else MAX_PROGRAMS):
                known.popitem(last=False)
            host_memory.free_memory.after_new_program()
    program.seen += 1
    if not program.compiled and _prefers_steps(program, code, steps, again, device) and not (
        device is _device.CPU and donation.early_programs.wants(program, inputs)
    ):
        _run_on_host(program, device, code, inputs, ints, floats, live, finished)
        return
    # Memory that a failing program was given is lost. Where one may well fail, it gets none.
    may_fail = program.may_fail()
    donated = () if may_fail else tuple([i for i in program.reusable if sys.getrefcount(inputs[i]) == ITEM])
    compiled = program.compiled.get(donated)
    is_new = compiled is None
    if compiled is None:
        if all(item.__class__ is int or item.element is not None for item in code):
            finished += (None, _interpret(code, inputs, ints, floats, live))
            return
        # Other threads run the program, too: what they put there or take is asked for once.
        waiting = program.compiling.get(donated)
        if waiting is None and (compiled := program.compiled.get(donated)) is None:
            beside = _is_compiled_beside(program, device)
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
    given = [inputs[i] for i in compiled.given]
    arguments = np.array(ints, np.int64) if ints else None
    numbers = np.array(floats, np.float64) if floats else None
    with _nothing if device is _device.CPU or _device.is_several(device) else jax.default_device(_device.to_jax(device)):
        if is_new:
            program.moves_much = device is _device.CPU and sum([a.nbytes for a in inputs]) > _LARGE_INPUTS
            given = donation.prepare(compiled.function, kept, given, (arguments, numbers), device)
        operands = (kept,), (given,), (arguments,), (numbers,)
        if may_fail:
            results = compiled.function(kept, given, arguments, numbers)
            finished += (compiled.order, jax.block_until_ready(results))
            return
        # In one instruction of Python's the program runs and its results are in the list.
        finished.append(compiled.order)
        finished.extend(map(compiled.function, *operands))
    if program.moves_much:
        host_memory.free_memory.look()


def _run_on_host(program, device, code, inputs, ints, floats, live, finished):
    """Runs a trace by steps, or as one function of the host tier's."""
    start = perf_counter()
    found = trace_programs.find(code, live) if device is _device.CPU and host_tier.ENABLED else None
    if found is not None:
        results = found[0].run(inputs, found[1], ints, floats)
    else:
        results = _interpret(code, inputs, ints, floats, live)
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
    kept = [_structure(a) for i, a in enumerate(inputs) if i not in donated]
    given = [_structure(inputs[i]) for i in compiled.given]
    return background.compile_beside(
        compiled.function, kept, given, _numbers_structure(ints, np.int64), _numbers_structure(floats, np.float64)
    )


def _structure(array):
    """What JAX finds a compiled function by."""
    bound = getattr(array, "committed", False)
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=array.sharding if bound else None)


def _numbers_structure(numbers, dtype):
    return jax.ShapeDtypeStruct((len(numbers),), dtype) if numbers else None


_nothing = contextlib.nullcontext()
_LARGE_INPUTS = 1 << 26  # bytes from which on free memory is looked at after each run: 50 us


def _replaced_input(found):
    """The input that `Trace.replaced` says was the value of a storage, or -1."""
    return -1 - found if found.__class__ is int else -1


def places(order):
    """Where in a list in this order the first element is, the second, ..."""
    return sorted(range(len(order)), key=order.__getitem__)


def _varies(code):
    return any(item.__class__ is not int and item.instance is not None for item in code)


def _prefers_steps(program, code, steps, again, device):
    """Whether a trace that is not compiled yet runs step by step once more.

    Sizes that came for the first time may never come again. Those of a loop come again at once; but where a size
    class had others before, they are compiled only when a loop over this one has begun, or when that will have been
    worth it (a ski rental: steps by then have cost as much as the compilation). What is small waits for the latter.
    """
    if device is not _device.CPU or not host_tier.ENABLED:
        cold = {item for item in code if item.__class__ is not int and item.compiled is None}
        costs = len(cold) * _COMPILE_STEP, _COMPILE_PROGRAM + steps * _COMPILE_PROGRAM_STEP
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


def is_given_away(array):
    """Whether a program took over an array's memory."""
    return not isinstance(array, (np.ndarray, np.generic)) and array.is_deleted()


def _numbers(kinds, ints, floats):
    """The scalar operands of one step, taken from the trace's packed ones."""
    return [
        next(ints) if k == INT else next(floats) if k == FLOAT else complex(next(floats), next(floats))
        for k in kinds
    ]


def _walk(code):
    """The steps of a trace: (plan, operands)."""
    i, end = 0, len(code)
    while i < end:
        plan = code[i]
        j = i + 1
        while j < end and code[j].__class__ is int:
            j += 1
        yield plan, code[i + 1 : j]
        i = j


def _last_uses(walk, wanted):
    """(the slots that wanted ones need, {operand: the index of the last step that reads it})."""
    needed, last_use = set(wanted), {}
    slot = sum(len(plan.geometries) for plan, _ in walk)
    for index in range(len(walk) - 1, -1, -1):
        plan, operands = walk[index]
        slot -= len(plan.geometries)
        if needed.isdisjoint(range(slot, slot + len(plan.geometries))):
            continue  # what was overwritten, or let go
        needed.update(operands)
        for operand in operands:
            last_use.setdefault(operand, index)
    return needed, last_use


def execute_by_steps(device, code, inputs, ints, floats, steps, live, keep, replaced, again, finished):
    """As `execute`, without a program of the whole."""
    finished += (None, _interpret(code, inputs, ints, floats, live))


def _interpret(code, inputs, ints, floats, live):
    """Runs a trace step by step, letting go of results after their last use."""
    values = _stepwise(code, inputs, ints, floats, set(live), None, None)
    return [values[slot] for slot in live]


def run_by_steps(code, inputs, ints, floats, wanted, error):
    """Runs by steps what failed with ``error`` as a whole.

    Returns:
        ({wanted slot: array}, {slot: the error of the step that failed, which it is or depends on}). The error of
        ``None`` is one that no step has: it was raised from outside.
    """
    failed: dict[int | None, Exception] = {}
    if not isinstance(error, (JaxRuntimeError, MemoryError)):
        failed[None] = error
    if not jax_internals.is_top_level():
        with jax.ensure_compile_time_eval():
            values = _stepwise(code, inputs, ints, floats, wanted, failed, error)
    else:
        values = _stepwise(code, inputs, ints, floats, wanted, failed, error)
    return values, failed


def _stepwise(code, inputs, ints, floats, wanted, failed, error):
    """{wanted slot: array}; with ``failed``, steps may fail, which is noted there."""
    walk = list(_walk(code))
    needed, last_use = _last_uses(walk, wanted)
    values: dict[int, Any] = {-1 - i: array for i, array in enumerate(inputs)}
    ints, floats = iter(ints), iter(floats)
    slot = 0
    for index, (plan, operands) in enumerate(walk):
        numbers = _numbers(plan.scalars, ints, floats)
        slots = range(slot, slot + len(plan.geometries))
        slot = slots.stop
        if needed.isdisjoint(slots):
            continue
        if failed is None:
            results = plan.run([values[operand] for operand in operands], numbers)
        else:
            results = _attempt(plan, operands, numbers, values, slots, failed, error)
        for place, result in zip(slots, results):
            if place in wanted or place in last_use:
                values[place] = result
        results = result = None
        for operand in set(operands):
            if last_use[operand] == index and operand not in wanted:
                values.pop(operand, None)
    return {place: values[place] for place in wanted if place in values}


def _attempt(plan, operands, numbers, values, slots, failed, error):
    """The results of a step, or () where it fails or needs what failed: ``failed`` says it."""
    found = next((failed[operand] for operand in operands if operand in failed), None)
    if found is None:
        arrays = [values[operand] for operand in operands]
        if any(is_given_away(array) for array in arrays):  # a program had taken its memory
            found = translate_error(error)
        else:
            try:
                return jax.block_until_ready(plan.run(arrays, numbers))
            except Exception as own:
                first = own
            try:  # what does not come again came from outside: another thread, or the handler of a signal
                results = jax.block_until_ready(plan.run(arrays, numbers))
                failed[None] = first
                return results
            except Exception as own:
                found = translate_error(own, plan.name)
    failed.update(dict.fromkeys(slots, found))
    return ()


def _element(vector, i):
    """``vector[i]`` without the bounds arithmetic of JAX's indexing, which is slow to compile."""
    return jax.lax.squeeze(jax.lax.slice(vector, (i,), (i + 1,)), (0,))


# Programs of a training step are many small steps: in the order that keeps memory low they also run
# up to a fifth faster than in the one that XLA's CPU backend takes to keep more threads busy.
_ROUNDED = {"xla_allow_excess_precision": False}  # numbers of 16 bits are rounded in each step
_CPU_OPTIONS = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
# The emitters that make code of each fusion through MLIR want 1 MB and 6 ms for one: a network of eight blocks 310 MB
# instead of 100, for programs that run as fast. Short ones of elementwise steps are faster with them.
_LONG_OPTIONS = {**_CPU_OPTIONS, "xla_cpu_use_fusion_emitters": False}
_LONG = 128  # steps


@functools.cache
def _cpu():
    return jax.sharding.SingleDeviceSharding(_device.to_jax(_device.CPU))


def put(array, device):
    """A NumPy array where programs for a device take it from without a transfer."""
    return jax.device_put(array, _cpu() if device is None or device is _device.CPU else _device.to_jax(device))


def jitted(program, *, donates, on_cpu, steps, rounded=False):
    """The compiled form of a program of (arrays to keep, arrays that it may take over, ...), made of so many steps.

    Args:
        rounded: whether it gives the bits that its steps give one by one, as an eager program has to.
    """
    options: Any = {}
    if on_cpu:
        # Where its inputs are is said: JAX would compile again for those that it has put elsewhere
        # by default (new ones) and those that another program gave, which are bound to a device.
        options = {"compiler_options": _LONG_OPTIONS if steps > _LONG else _CPU_OPTIONS, "in_shardings": _cpu()}
        program = rewritten(program, donated=1, rounded=rounded)
        if rounded:
            options["compiler_options"] = {**options["compiler_options"], **_ROUNDED}
    return jax.jit(program, donate_argnums=(1,) if donates else (), **options)


def paired(donated, before):
    """The order of donated inputs and of results in which JAX lays each result over what it replaces.

    JAX gives a result the memory of the first donated input of its shape. Where that is needed after
    the result is there, XLA copies it.

    Args:
        before: for each result the input that it replaces, or something else.
    """
    own = {b: place for place, b in enumerate(before) if b in donated}
    given = (*own, *(i for i in donated if i not in own))
    taken = set(own.values())
    return given, [*own.values(), *(place for place in range(len(before)) if place not in taken)]


class Compiled(NamedTuple):
    """A program: ``function(kept, given, ints, floats)`` gives the live values.

    Attributes:
        given: the inputs whose memory it takes over, in the order of that argument.
        order: which live value each result is; None if they are in order.
    """

    function: Any
    given: tuple[int, ...]
    order: list[int] | None


def compile_code(code, live, donated, device, before):
    """The compiled program of a trace.

    Args:
        before: for each live slot the input whose value it replaces, or -1.
    """
    stats.compilations += 1
    given_order, order = paired(donated, before)
    walk = list(_walk(code))

    def program(kept, given, ints, floats):
        inputs, kept, given = [], iter(kept), dict(zip(given_order, given, strict=True))
        total = 1 + max((-1 - o for _, operands in walk for o in operands if o < 0), default=-1)
        for i in range(total):
            inputs.append(given[i] if i in given else next(kept))
        i = f = 0
        values = []
        for plan, operands in walk:
            rest()
            numbers = []
            for kind in plan.scalars:
                if kind == INT:
                    numbers.append(weak(_element(ints, i), INT))
                    i += 1
                elif kind == FLOAT:
                    numbers.append(weak(_element(floats, f), FLOAT))
                    f += 1
                else:
                    parts = _element(floats, f), _element(floats, f + 1)
                    numbers.append(weak(jax.lax.complex(*parts), COMPLEX))
                    f += 2
            arrays = [values[o] if o >= 0 else inputs[-1 - o] for o in operands]
            with quiet():
                results = plan.fn(*arrays, *numbers)
            if plan.is_single:
                values.append(results)
            else:
                values.extend(results)
        return [values[live[place]] for place in order]

    on_cpu = device is _device.CPU
    function = jitted(program, donates=bool(donated), on_cpu=on_cpu, steps=len(walk), rounded=True)
    return Compiled(function, given_order, None if order == sorted(order) else order)


# JAX says so when memory that was offered could not be reused; the executor only offers.
warnings.filterwarnings("ignore", message="Some donated buffers were not usable")

host_memory.keep_freed_memory()
