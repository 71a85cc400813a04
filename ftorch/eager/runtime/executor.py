"""The executor: records steps and decides when they run.

In *deferred* execution (the default) `record` appends plans to the calling thread's `Trace` and
returns at once; the trace runs when somebody looks at a value, at ``optimizer.step()``, or when it is
long: as one program (`ftorch.eager.runtime.program`), with only the results that are still referenced as
outputs and dead inputs donated. With ``FTORCH_EXECUTOR=op`` every step runs at once.
"""

from __future__ import annotations

from typing import Any

from .. import native
from ..core import callers_traces
from ..core import device as _device
from ..core.errors import OutOfMemoryError, translate_error
from ..core.geometry import Geometry
from ..core.jax_scope import scoped
from ..memory.storage import Storage, newest_level
from . import strided_steps
from .counters import Stats, stats
from .plan import Plan, remember
from .scalars import COMPLEX, FLOAT, INT, weak
from .trace import DEFERRED, IMMEDIATE, OVERWRITTEN, earlier_value, mark_written, threads

__all__ = [
    "COMPLEX", "FLOAT", "INT", "OutOfMemoryError", "Plan", "Stats", "stats", "translate_error", "weak",
]

MAX_STEPS = 1024  # a trace never grows longer


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
        trace = threads.cpu
    elif device is _device.META:
        return _record_meta(plan, into)
    else:
        trace = threads.of(device)
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
            earlier = earlier_value(trace, into, first)
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
                mark_written(trace, s, slot, code)
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
                        mark_written(trace, s, slot, code)
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


def move(source: Storage, target: Storage) -> None:
    """Gives ``source``'s value to ``target`` (same root shape) as a write; ``source`` is spent. Can be done again."""
    while (trace := source.trace) is not None and trace is not IMMEDIATE:
        with trace.lock:
            for s in (source, target) if trace.running else ():
                if s.trace is trace:
                    trace.take_over(s)
            if trace.captures:
                trace.born.discard(id(source))
            code, slot, array = trace.code, source.slot, target.array
            earlier = earlier_value(trace, target, slot)
            owned = slot < len(trace.owners) and trace.owners[slot] is source
            if source.trace is trace and trace.code is code:
                if not owned:  # the target has it already
                    return
                # From here to the last change nothing is called, see `_record`; and what has begun is done again.
                if target.slot != slot or target.trace is not trace:
                    if earlier is not None:
                        trace.replaced[earlier[0]] = earlier[1]
                    if target.trace is trace:
                        trace.owners[target.slot] = OVERWRITTEN
                target.slot = slot
                target.trace = trace
                target.array = None
                target.version += 1
                trace.owners[slot] = target
                del array  # to let go of it may run Python code
                return
    before, slot = target.trace, target.slot
    target.version += 1
    target.array = source.array
    target.trace = trace
    if before is not None and before is not IMMEDIATE and not before.captures:
        with before.lock:  # a trace that goes on for long would keep the memory of what is let go
            if slot < len(before.owners) and before.owners[slot] is target:
                before.owners[slot] = OVERWRITTEN


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
        remember(_copies, source.root, plan, 4096)
    return record(plan, (source,))


_copies: dict = {}


def copied_with(source: Storage, memo: dict) -> Storage:
    """`duplicate` for ``copy.deepcopy``: one copy for all that share the storage in what is copied."""
    copy = memo.get(id(source))
    if copy is None:
        copy = memo[id(source)] = duplicate(source)
        memo.setdefault(id(memo), []).append(source)  # what a memo names by its id must stay
    return copy


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
            results = callers_traces.run(plan, arrays, scalars, weak)
        else:
            results = _run_plan(plan, arrays, scalars)
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


_run_plan = scoped(Plan.run)


def flush(again: bool = False) -> None:
    """Runs what the calling thread has recorded; while a program is captured, it goes on instead.

    Args:
        again: whether the same steps are going to come again: they are compiled at once.
    """
    if not threads.cpu.captures:
        threads.cpu.flush(again)
    for trace in threads.others.values():
        if not trace.captures:
            trace.flush(again)


def pending_steps() -> int:
    """How many steps the calling thread has recorded that have not run."""
    return threads.cpu.steps + sum(trace.steps for trace in threads.others.values())
