"""In-place updates of large storages on the CPU: they are done at once, in the storage's own memory.

Elsewhere arrays never change: a recorded write makes a new one, which a compiled program may lay over the old one.
Outside of programs that is a copy of the whole storage, whatever is written. So what changes a part of a large storage
is not recorded. What it reads is computed first; then NumPy writes into the array, if nothing else holds it
(`Storage.own_memory`), or into a copy, which is the storage's array from then on. Its memory is such that XLA's
programs read it where it is.
"""

from __future__ import annotations

import functools

import numpy as np

from ..core import device as _device
from ..core import forking
from ..core.dtype import float8_e8m0fnu
from ..core.errors import translate_error
from ..core.geometry import has_internal_overlap
from ..memory.storage import strided
from ..native import codes
from . import capture_trace, elementwise_writes, executor, host_tier, value_checks
from .scalars import packed
from .strided_steps import elements

LARGE = 1 << 16  # elements; to copy a smaller storage costs less than to end a trace


def applies(storage, g) -> bool:
    """Whether a write through a geometry goes directly into a storage's memory."""
    root = storage.root
    return (
        root.device is _device.CPU and root.is_contiguous and not root.dtype.stored and not g.dtype.stored
        and not g.bits and storage.trace is not executor.IMMEDIATE and host_tier.ENABLED and executor.DEFERRED
        and capture_trace.capturing() is None and (g.is_dense or not has_internal_overlap(g))
    )


# The loops in C (``native/src/writes/writes.cpp``), as declarations name them: "fill", "set rows", "add at".
_KINDS = {write.name.lower().replace("_", " "): int(write) for write in codes.Write}


def write_of(plan):
    """How an in-place call of a plan is done in memory.

    Returns:
        (the number of a loop or 0, dimension, number that fills or None); of "compute": (its number, program, sources),
        see `elementwise_writes.program_for`; of "put" and "add at": (its number, the dimensions that have index tensors).
    """
    definition = plan.op.definition
    write: tuple = 0, 0, None
    if definition.element is not None and plan.inputs[0].dtype is not float8_e8m0fnu:  # which has no zero
        constant = None if definition.element == "scalar" else definition.element
        write = _KINDS["fill"], 0, constant
    elif plan.op.name == "copy" and plan.inputs[0].dtype is plan.inputs[1].dtype:
        write = _KINDS["copy"], 0, None
    elif definition.changes == "places":
        write = _KINDS["add at" if plan.static[0] else "put"], tuple(
            [dim for dim, place in enumerate(plan.structure.slots[1][1]) if place is not None]
        )
    elif definition.changes is not None:
        write = _KINDS[definition.changes], plan.static[0], None
    elif (found := elementwise_writes.program_for(plan)) is not None:
        write = _KINDS["compute"], *found
    plan.writes = write
    return write


def put(storage, g, offset, value):
    """Writes a number or an array of a geometry's shape into its elements; counts a write."""
    _change(storage, g, offset, lambda target: target.__setitem__(..., value))


# Nobody copies memory while another thread writes to it. A handler of a signal, or a finalizer, may write in between.
_lock = forking.rlock()


def _change(storage, g, offset, change):
    """Calls a function with the elements of a geometry, which it changes; counts a write."""
    settled = False
    while True:
        if storage.trace is not None:
            storage.settle()
        with _lock:
            if storage.trace is None:
                memory = storage.own_memory(copies=settled)
                if memory is not None:
                    target = strided(elements(memory, g.dtype.numpy), g, offset)
                    storage.version += 1
                    change(target)
                    return
                settled = True
        executor.flush()  # what is recorded in this thread may be what reads the array


def own(storage):
    """Gives a small storage that is not pending memory of its own (`Storage.own_memory`)."""
    with _lock:
        if storage.trace is None:
            storage.own_memory()


def part_of_host(storage, g, offset):
    """A copy of a part of memory that is shared with the user, without reading the rest; None if it takes more."""
    if g.bits or g.dtype.stored or storage.root.dtype.stored or capture_trace.capturing() is not None:
        return None
    memory = storage.host
    part = strided(elements(memory, g.dtype.numpy), g, offset)
    dense = np.empty_like(part)  # in the same order, as the geometry of the copy says
    dense[...] = part
    return dense


def copy(storage, g, offset, value) -> bool:
    """Writes the value of another storage, of the same dtype; False if it is not to be done so."""
    if not applies(storage, g):
        return False
    array = value.value()
    if value.trace is executor.IMMEDIATE:
        return False
    put(storage, g, offset, np.asarray(value.ready() if array.__class__ is not np.ndarray else array))
    return True


def update(plan, target, tensors, scalars) -> bool:
    """Computes a plan and writes its result into a part of the target's storage, or changes a part of the target.

    Args:
        tensors: the plan's operands, the target first.

    Returns:
        False if it is to be recorded instead.
    """
    storage, g = target._ftorch_storage, target._ftorch_geometry
    whole = g is storage.root
    if plan.element is not None and not whole:
        if not applies(storage, g):
            return False
        number = scalars[0] if plan.element == "scalar" else plan.element
        if g.dtype.category == 1 and scalars:
            plan.numbers(scalars)  # which refuses what is beyond int64
        with np.errstate(over="ignore"):
            put(storage, g, target._ftorch_offset, np.asarray(number).astype(g.dtype.numpy))
        return True
    change = _changing_step(plan)
    step = change or (not whole and host_tier.step_of(plan))
    if not step or not applies(storage, g):
        return False
    arrays = []
    for t in tensors[1:] if change else tensors:
        array = value_checks.peek(t, waits=True)
        if array is None:
            return False
        arrays.append(array)
    array = None
    scalars = packed(plan.scalars, plan.numbers(scalars)) if scalars else ()
    try:
        if change:
            _change(storage, g, target._ftorch_offset, functools.partial(_run, step, arrays, scalars))
            return True
        value = host_tier.run_step(step, arrays, scalars)[0]
    except Exception as error:
        raise translate_error(error, plan.name) from None
    if value.base is not None:  # it may be a view of what is written to
        value = value.copy()
    del arrays
    put(storage, g, target._ftorch_offset, value)
    return True


def _run(step, arrays, scalars, elements):
    host_tier.run_step(step, (elements, *arrays), scalars)


def _changing_step(plan):
    """The step that changes a part of a plan's first operand in place, which is its result; None if there is none."""
    if not host_tier.step_of(plan):
        return None
    instance = plan.instance
    program = plan.program if instance is None else getattr(instance.of, "program", None)
    if program is None or (instance is not None and instance.dtype is not None):
        return None
    run = program.in_place
    if run is None:
        return None
    numbers = program.evaluate(()) if instance is None else instance.numbers
    return lambda arrays, scalars: run((*arrays, *scalars), numbers)
