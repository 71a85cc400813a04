"""Steps and programs: what of recorded work is compiled, cached and run.

A `Plan` is one step. A trace of several steps is found by its key: a known one runs as one compiled
program, a new one step by step or compiled, whichever is cheaper.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import sys
import threading
import warnings
from typing import Any, NamedTuple

import jax
import numpy as np
from jax._src.core import trace_ctx as _trace_context  # there is no public way to ask
from jax._src.lax.lax import _convert_element_type  # the only way to make a weak type; tested

from .. import _arrays
from . import device as _device
from . import host_memory
from .geometry import Geometry
from .native.rewrite import rewritten

MAX_PROGRAMS = 1024  # compiled programs kept
_DONATION_BYTES = 1 << 14  # donating less costs more than it saves

# Rough costs (ms) that decide whether a new trace is compiled whole or run step by step.
_COMPILE_STEP, _COMPILE_PROGRAM, _COMPILE_PROGRAM_STEP = 20.0, 25.0, 3.0

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
    return _convert_element_type(scalar, _WEAK_DTYPES[kind], weak_type=True)


_WEAK_DTYPES = {
    INT: np.dtype(np.int64), FLOAT: np.dtype(np.float64), COMPLEX: np.dtype(np.complex128),
}  # fmt: skip


class Plan:
    """One step: ``fn(*arrays, *scalars)`` gives an array, or a tuple of them.

    Attributes:
        geometries: of the results, one for each.
        scalars: the kinds of the scalar operands, as a string of "i", "f", "c".
        name: for error messages.
        op, backward: what `ftorch.eager.op` and the tape keep with a plan.
        element: what each element of the result is: a number, "scalar" (the plan's), or None if they differ.
    """

    __slots__ = (
        "fn", "geometries", "geometry", "is_single", "scalars", "name", "device", "compiled",
        "op", "static", "inputs", "backward", "extra", "element",
    )  # fmt: skip

    def __init__(self, fn, geometries: tuple[Geometry, ...], scalars: str, name: str, device,
                 is_single=True):  # fmt: skip
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

    def __repr__(self):
        return f"<plan {self.name}>"

    def run(self, arrays, scalars):
        """Runs the step by itself, compiled; always gives a tuple."""
        if self.element is not None:
            stats.programs += 1
            return (self._filled(scalars),)
        compiled = self.compiled
        if compiled is None:
            compiled = self._compile()
        else:
            stats.hits += 1
        stats.programs += 1
        results = compiled(*arrays, *_packed(self.scalars, scalars)) if scalars else compiled(*arrays)
        return (results,) if self.is_single else results

    def _filled(self, scalars):
        """An array of one number, without XLA, which would compile a program for every shape."""
        kind, number = (self.scalars, scalars[0]) if self.element == "scalar" else (INT, self.element)
        dtype = self.geometry.dtype.numpy
        with np.errstate(over="ignore"):
            number = _NUMPY_SCALAR[kind](number).astype(dtype)
        return _device.put(_arrays.filled(self.geometry.shape, number, dtype), self.device)

    def _compile(self):
        kinds, fn = self.scalars, self.fn

        def step(*operands):
            count = len(operands) - len(kinds)
            numbers = (weak(v, k) for v, k in zip(operands[count:], kinds))
            with _quiet():
                return fn(*operands[:count], *numbers)

        step.__name__ = self.name
        stats.compilations += 1
        on_cpu = self.device is _device.CPU
        self.compiled = jax.jit(rewritten(step) if on_cpu else step)
        return self.compiled


_NUMPY_SCALAR = {INT: np.int64, FLOAT: np.float64, COMPLEX: np.complex128}


def _packed(kinds, values):
    return [_NUMPY_SCALAR[k](v) for k, v in zip(kinds, values)]


@contextlib.contextmanager
def _quiet():
    """While XLA's program is made: what a kernel warns of was said when the call was planned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# --- programs ------------------------------------------------------------------------


class Program:
    """What is known of a trace key.

    Attributes:
        seen: how often it came.
        reusable: indices of the inputs that may be donated.
        compiled: {donated inputs: compiled function}.
    """

    __slots__ = ("seen", "reusable", "compiled")

    def __init__(self, reusable):
        self.seen = 0
        self.reusable = reusable
        self.compiled = {}


_programs: collections.OrderedDict[tuple, Program] = collections.OrderedDict()
_programs_lock = threading.Lock()


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


def execute(device, code, inputs, ints, floats, steps, live, keep, replaced, again=False):
    """Runs a trace; gives the arrays of the live slots.

    Args:
        code, inputs, ints, floats, replaced: see `ftorch.eager.executor.Trace`; ``inputs`` is used up.
        live: the slots wanted; ``keep`` their storages.
        again: whether the same trace is going to come again.
    """
    if not _trace_context.is_top_level():
        # JAX traces the function that calls ftorch. What is recorded here are values, constants of
        # that trace: they are computed at once (and a program with options cannot be nested).
        with jax.ensure_compile_time_eval():
            return _execute(device, code, inputs, ints, floats, steps, live, keep, replaced, again)
    return _execute(device, code, inputs, ints, floats, steps, live, keep, replaced, again)


def _execute(device, code, inputs, ints, floats, steps, live, keep, replaced, again):
    if not live:
        return []
    if steps == 1:
        plan = code[0]
        operands = [inputs[-1 - operand] for operand in code[1:]]
        scalars = _numbers(plan.scalars, iter(ints), iter(floats)) if plan.scalars else ()
        results = plan.run(operands, scalars)
        return [results[slot] for slot in live]
    key = (tuple(code), tuple(live), device)
    with _programs_lock:
        program = _programs.get(key)
        if program is None:
            program = _programs[key] = Program(_reusable(inputs, keep))
            if len(_programs) > MAX_PROGRAMS:
                _programs.popitem(last=False)
        else:
            _programs.move_to_end(key)
    program.seen += 1
    if program.seen == 1 and not again and _prefers_steps(code, steps):
        return _interpret(code, inputs, ints, floats, live)
    # References to an input that only the trace holds: the list and the call's argument.
    donated = tuple([i for i in program.reusable if sys.getrefcount(inputs[i]) == 2])
    compiled = program.compiled.get(donated)
    if compiled is None:
        if all(item.__class__ is int or item.element is not None for item in code):
            return _interpret(code, inputs, ints, floats, live)
        before = [-1 - (replaced.get(id(storage)) or 0) for storage in keep]
        compiled = compile_code(code, live, donated, device, before)
        program.compiled[donated] = compiled
    else:
        stats.hits += 1
    stats.programs += 1
    kept = [a for i, a in enumerate(inputs) if i not in donated] if donated else list(inputs)
    given = [inputs[i] for i in compiled.given]
    inputs.clear()
    arguments = np.array(ints, np.int64) if ints else None
    numbers = np.array(floats, np.float64) if floats else None
    if device is not _device.CPU:
        with jax.default_device(_device.to_jax(device)):
            return compiled.function(kept, given, arguments, numbers)
    return compiled.function(kept, given, arguments, numbers)


def _prefers_steps(code, steps):
    cold = {item for item in code if item.__class__ is Plan and item.compiled is None}
    return len(cold) * _COMPILE_STEP < _COMPILE_PROGRAM + steps * _COMPILE_PROGRAM_STEP


def _numbers(kinds, ints, floats):
    """The scalar operands of one step, taken from the trace's packed ones."""
    return [
        next(ints) if k == INT else next(floats) if k == FLOAT else complex(next(floats), next(floats))
        for k in kinds
    ]  # fmt: skip


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


def _interpret(code, inputs, ints, floats, live):
    """Runs a trace step by step, letting go of results after their last use."""
    walk, last_use = list(_walk(code)), {}
    wanted, needed = set(live), set(live)
    slot = sum(len(plan.geometries) for plan, _ in walk)
    for index in range(len(walk) - 1, -1, -1):
        plan, operands = walk[index]
        slot -= len(plan.geometries)
        if needed.isdisjoint(range(slot, slot + len(plan.geometries))):
            continue  # what was overwritten, or let go
        needed.update(operands)
        for operand in operands:
            last_use.setdefault(operand, index)
    values: dict[int, Any] = {-1 - i: array for i, array in enumerate(inputs)}
    inputs.clear()
    ints, floats = iter(ints), iter(floats)
    for index, (plan, operands) in enumerate(walk):
        numbers = _numbers(plan.scalars, ints, floats)
        if needed.isdisjoint(range(slot, slot + len(plan.geometries))):
            slot += len(plan.geometries)
            continue
        results = plan.run([values[operand] for operand in operands], numbers)
        for result in results:
            values[slot] = result
            if slot not in wanted and slot not in last_use:
                del values[slot]
            slot += 1
        for operand in set(operands):
            if last_use[operand] == index and operand not in wanted:
                del values[operand]
    return [values[slot] for slot in live]


def _element(vector, i):
    """``vector[i]`` without the bounds arithmetic of JAX's indexing, which is slow to compile."""
    return jax.lax.squeeze(jax.lax.slice(vector, (i,), (i + 1,)), (0,))


# Programs of a training step are many small steps: in the order that keeps memory low they also run
# up to a fifth faster than in the one that XLA's CPU backend takes to keep more threads busy.
_CPU_OPTIONS = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}


@functools.cache
def _cpu():
    return jax.sharding.SingleDeviceSharding(_device.to_jax(_device.CPU))


def put(array, device):
    """A NumPy array where programs for a device take it from without a transfer."""
    return jax.device_put(array, _cpu() if device is None or device is _device.CPU else _device.to_jax(device))


def jitted(program, *, donates, on_cpu, order):
    """The compiled form of a program of (arrays to keep, arrays that it may take over, ...).

    Args:
        order: which result each of the program's is; the compiled form gives them sorted.
    """
    options: Any = {}
    if on_cpu:
        # Where its inputs are is said: JAX would compile again for those that it has put elsewhere
        # by default (new ones) and those that another program gave, which are bound to a device.
        options = {"compiler_options": _CPU_OPTIONS, "in_shardings": _cpu()}
        program = rewritten(program, donated=1)
    function = jax.jit(program, donate_argnums=(1,) if donates else (), **options)
    if all(place == i for i, place in enumerate(order)):
        return function
    places: Any = sorted(range(len(order)), key=order.__getitem__)

    def ordered(*operands):
        results = function(*operands)
        return [results[i] for i in places]

    return ordered


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
    """

    function: Any
    given: tuple[int, ...]


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
            with _quiet():
                results = plan.fn(*arrays, *numbers)
            if plan.is_single:
                values.append(results)
            else:
                values.extend(results)
        return [values[live[place]] for place in order]

    on_cpu = device is _device.CPU
    return Compiled(jitted(program, donates=bool(donated), on_cpu=on_cpu, order=order), given_order)


# JAX says so when memory that was offered could not be reused; the executor only offers.
warnings.filterwarnings("ignore", message="Some donated buffers were not usable")

host_memory.keep_freed_memory()
