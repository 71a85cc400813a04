"""Op-by-op execution: traces that are not compiled, and what is left of those that failed."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.errors import JaxRuntimeError

from ..core import jax_internals
from ..core.errors import is_of_memory, translate_error
from ..core.jax_scope import scoped
from ..memory.host_memory import free_memory
from .scalars import numbers_of, packed_apart
from .trace_code import steps_of


def last_uses(walk, wanted):
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


@scoped
def execute_by_steps(device, code, inputs, ints, floats, steps, live, keep, replaced, again, finished):
    """As `execute`, without a program of the whole."""
    finished += (None, interpret(code, inputs, ints, floats, live))


def interpret(code, inputs, ints, floats, live):
    """Runs a trace step by step, letting go of results after their last use."""
    with np.errstate(all="ignore"):
        values = _stepwise(code, inputs, ints, floats, set(live), None, None)
    return [values[slot] for slot in live]


@scoped
def run_by_steps(code, inputs, ints, floats, wanted, error, units=()):
    """Runs by steps what failed with ``error`` as a whole.

    Args:
        units: the backward passes, see `backward_units`.

    Returns:
        ({wanted slot: array}, {slot: the error of the step that failed, which it is or depends on}, {slot: (plan, ints,
        floats)} of those that failed and need nothing, so that they can be made later). The error of ``None`` is one
        that no step has: it was raised from outside.
    """
    failed: dict[int | None, BaseException] = {}
    again: dict[int, Any] = {}
    if is_of_memory(error):
        error.__traceback__ = None  # whose frames hold what the program was given
        free_memory.let_go()
    if not isinstance(error, (JaxRuntimeError, MemoryError)):
        failed[None] = KeyboardInterrupt() if jax_internals.swallowed_interrupt(error) else error
    if not jax_internals.is_top_level():
        with jax.ensure_compile_time_eval():
            values = _stepwise(code, inputs, ints, floats, wanted, failed, error, units, again)
    else:
        values = _stepwise(code, inputs, ints, floats, wanted, failed, error, units, again)
    return values, failed, again


def _stepwise(code, inputs, ints, floats, wanted, failed, error, units=(), again=None):
    """{wanted slot: array}; with ``failed``, steps may fail, which is noted there, and in ``again`` what needs nothing."""
    walk = steps_of(code)
    needed, last_use = last_uses(walk, wanted)
    values: dict[int, Any] = {-1 - i: array for i, array in enumerate(inputs)}
    ints, floats = iter(ints), iter(floats)
    slot = 0
    for index, (plan, operands) in enumerate(walk):
        numbers = numbers_of(plan.scalars, ints, floats)
        slots = range(slot, slot + len(plan.geometries))
        slot = slots.stop
        if needed.isdisjoint(slots):
            continue
        if failed is None:
            results = plan.run([values[operand] for operand in operands], numbers, False, True)
        else:
            results = _attempt(plan, operands, numbers, values, slots, failed, error)
            if slots[0] in failed:
                if not operands and plan.is_single and not is_only_once(plan):
                    again[slots[0]] = plan, *packed_apart(plan.scalars, numbers)
                _leave(units, slots, values, failed)
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
    found = next((failed[place] for place in (*slots, *operands) if place in failed), None)
    if found is None:
        arrays = [values[operand] for operand in operands]
        # A program had taken its memory, or other processes have seen it.
        if is_only_once(plan) or any(is_given_away(array) for array in arrays):
            found = translate_error(error)
        else:
            try:
                return jax.block_until_ready(plan.run(arrays, numbers))
            except Exception as own:
                first = own
            try:  # what does not come again came from outside: another thread, or the handler of a signal
                if is_of_memory(first):
                    first.__traceback__ = None
                    free_memory.let_go()
                results = jax.block_until_ready(plan.run(arrays, numbers))
                if not is_of_memory(first):
                    failed[None] = first
                return results
            except Exception as own:
                found = translate_error(own, plan.name)
                found.__context__ = None  # whose frames hold arrays
    failed.update(dict.fromkeys(slots, found))
    return ()


def _leave(units, slots, values, failed):
    """Notes that leaves do not get the gradients that come after a step that failed."""
    for unit in units:
        for place in unit.left_by(slots):
            failed.setdefault(place, failed[slots[0]])
            values.pop(place, None)


def is_only_once(plan) -> bool:
    """Whether a step must not run again where a program failed: other processes take part in it."""
    return getattr(getattr(plan.op, "definition", None), "only_once", False)


def is_given_away(array):
    """Whether a program took over an array's memory."""
    return not isinstance(array, (np.ndarray, np.generic)) and array.is_deleted()
