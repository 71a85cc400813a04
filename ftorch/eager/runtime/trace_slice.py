"""Partial evaluation: where a pending value is asked for, the few steps that lead to it run, the trace stays pending.

Whoever looks at a value ends the trace, which splits a training step into several programs. Where a value
follows from constants alone, or in few steps from arrays at hand, it need not: those steps run once
more with the trace.
"""

from __future__ import annotations

import itertools

import numpy as np

from ..core.registry import static_value
from ..memory.storage import Storage
from . import program
from .trace_code import counts_of_numbers, steps_back

_STEPS = 16  # that are run apart
_CHEAP_STEPS, _CHEAP_SIZE = 6, 1024  # what is computed twice so that an error comes at once
_BACK = 64  # steps of the trace that are looked at
_MOST = 1024  # values of constants remembered

_constants: dict[tuple, np.ndarray] = {}


def value_of(storage: Storage, from_inputs: bool = False) -> np.ndarray:
    """The value of a storage's root.

    Args:
        from_inputs: whether steps that begin with arrays at hand may run twice; else only constants
            (shapes and numbers), whose values are remembered.
    """
    value = _sliced_value(storage, from_inputs)
    return np.asarray(storage.ready()) if value is None else value


def constant_of(storage: Storage) -> np.ndarray | None:
    """The value of a pending storage's root if it follows from constants alone."""
    return _sliced_value(storage, False)


def cheap_value_of(storage: Storage, most: int = _CHEAP_STEPS) -> np.ndarray | None:
    """The value of a pending storage's root if at most so many steps on few elements lead to it."""
    trace = storage.trace
    if not isinstance(getattr(trace, "code", None), list) or trace.captures:
        return None
    with trace.lock:
        found = _slice(trace, storage.slot, most=most) if storage.trace is trace else None
        if found is None:
            return None
        if not found.inputs:
            return _constant(trace.device, found, storage)
        inputs = [trace.inputs[i] for i in found.inputs]
        made = [g for plan in found.code if plan.__class__ is not int for g in plan.geometries]
        if any(a.size > _CHEAP_SIZE for a in inputs) or any(g.numel > _CHEAP_SIZE for g in made):
            return None
        return found.run(trace.device, inputs, storage)


def _sliced_value(storage, from_inputs):
    trace = storage.trace
    if isinstance(getattr(trace, "code", None), list) and not trace.captures:
        with trace.lock:
            found = _slice(trace, storage.slot, from_inputs) if storage.trace is trace else None
            if found is not None and not found.inputs:
                return _constant(trace.device, found, storage)
            if found is not None:
                return found.run(trace.device, [trace.inputs[i] for i in found.inputs], storage)
    return None


def bounds_of(storage: Storage) -> tuple[int, int] | None:
    """(lowest, bound) of a pending storage's integers, where the op that gives them says so: see `OpDef.bound`."""
    trace = storage.trace
    if not isinstance(getattr(trace, "code", None), list) or trace.captures:
        return None
    with trace.lock:
        if storage.trace is not trace:
            return None
        first, end = len(trace.owners), len(trace.ints)
        for plan, _ in itertools.islice(steps_back(trace.code), _BACK):
            first -= len(plan.geometries)
            start = end - counts_of_numbers(plan)[0]
            if first <= storage.slot:
                is_last = storage.slot == first + len(plan.geometries) - 1
                return _bounds_by(plan, trace.ints[start:end]) if is_last else None
            end = start
    return None


def _bounds_by(plan, ints):
    definition = getattr(getattr(plan, "op", None), "definition", None)  # reads and writes of views have none
    bounds = getattr(definition, "bounds", None)
    if bounds is None or len(ints) != len(plan.scalars) or plan.geometries[-1].dtype.numpy != np.int64:
        return None
    names, function = bounds
    position, given = definition.argument_names.index, []
    for tag, *at in (plan.structure.slots[position(name)] for name in names):
        found = at[0] if at else None
        given.append(plan.inputs[found] if tag == "t" else ints[found] if tag == "s" else static_value(found))
    return function(*given)


class _Slice:
    """Steps of a trace that lead to one of its values, as a trace of their own; see `program.execute`.

    Attributes:
        inputs: which of the trace's inputs the steps read.
    """

    __slots__ = ("code", "live", "steps", "inputs", "ints", "floats")

    def run(self, device, inputs, storage):
        results = program.execute(
            device, self.code, inputs, list(self.ints), list(self.floats), self.steps, [self.live],
            [storage], {},
        )
        return np.asarray(results[0])


def _constant(device, found, storage):
    # The bytes of the numbers: zeros have signs.
    key = (device, *found.code, found.live, tuple(found.ints), np.array(found.floats).tobytes())
    value = _constants.get(key)
    if value is None:
        if len(_constants) >= _MOST:
            _constants.clear()
        value = _constants[key] = found.run(device, [], storage)
    return value


def _slice(trace, slot, from_inputs=True, most=_STEPS):
    """The steps that lead to a slot; None if they are many, or begin with arrays at hand and must not."""
    first, i, f = len(trace.owners), len(trace.ints), len(trace.floats)
    wanted, picked = {slot}, []
    for plan, operands in itertools.islice(steps_back(trace.code), _BACK):
        first -= len(plan.geometries)
        numbers = i, f
        ints, floats = counts_of_numbers(plan)
        i, f = i - ints, f - floats
        made = [s for s in range(first, first + len(plan.geometries)) if s in wanted]
        if made:
            if operands and not from_inputs and min(operands) < 0:
                return None
            wanted.difference_update(made)
            wanted.update(o for o in operands if o >= 0)
            picked.append((plan, operands, first, trace.ints[i : numbers[0]], trace.floats[f : numbers[1]]))
            if not wanted:
                return _assembled(picked[::-1], slot)
            if len(picked) == most:
                return None
    return None


def _assembled(steps, slot):
    found = _Slice()
    found.code, found.inputs, found.ints, found.floats = [], [], [], []
    found.steps = len(steps)
    slots, inputs, count = {}, {}, 0
    for plan, operands, first, ints, floats in steps:
        found.code.append(plan)
        for o in operands:
            if o >= 0:
                found.code.append(slots[o])
            else:
                if o not in inputs:
                    inputs[o] = -1 - len(inputs)
                    found.inputs.append(-1 - o)
                found.code.append(inputs[o])
        for _ in plan.geometries:
            slots[first] = count
            first, count = first + 1, count + 1
        found.ints += ints
        found.floats += floats
    found.live = slots[slot]
    return found
