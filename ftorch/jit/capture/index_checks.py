"""Checks of indices that come with each call of a program: one out of range raises PyTorch's error before anything is written.

Kernels clamp or drop such indices, as they do where nobody knows a value. Looked at are indices that are arguments (or
other inputs), and what a few steps make of few of them; what a program computes for itself is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...eager.core import device as _device
from ...eager.core.registry import static_value
from ...eager.runtime import host_tier, value_checks
from ...eager.runtime.scalars import INT

_STEPS = 4  # from an input to an index
_SIZE = 1 << 14  # elements of what is computed apart
_INTEGERS = 1  # the category of their dtypes


def of_program(lowered, geometry_of) -> IndexChecks | None:
    """The checks of a program's steps; None where it has none.

    Args:
        geometry_of: gives the geometry of an operand.
    """
    if lowered.device is not _device.CPU:
        return None
    found: dict[tuple, tuple] = {}
    ranges: dict[int, tuple] = {}
    for step in lowered.steps:
        checks = getattr(step.plan, "checks", None)
        bounds = None if checks is None or checks.bounds is None else list(value_checks.bounds_at(step.plan))
        is_range = bounds is not None and all(place >= 0 and step.operands[place] < 0 for place, _, _ in bounds)
        for slots, function, waits in checks.bound if checks else ():
            given = None if waits else _given(lowered.table, step, slots, geometry_of)
            if given is None:
                continue
            found.setdefault((function, given), (step.plan.name, function, given, is_range))
            for place, low, high in bounds if is_range else ():
                operand = step.operands[place]
                lowest, highest = ranges.get(operand, (low, high))
                ranges[operand] = max(low, lowest), min(high, highest)
    return IndexChecks(lowered, list(found.values()), ranges) if found else None


def _given(table, step, slots, geometry_of):
    """What a check is given: ("value", it), ("index", input, steps) or ("list", these); None if that is not so."""
    found: list[tuple] = []
    for tag, *at in slots:
        if tag == "shape":
            found.append(("value", geometry_of(step.operands[at[0]])))
        elif tag == "v":
            found.append(("value", static_value(at[0])))
        elif tag == "n":
            found.append(("value", None))
        elif tag == "t":
            found.append(_way(table, step.operands[at[0]], geometry_of))
        elif tag == "l":
            ways = [("value", None) if j is None else _way(table, step.operands[j], geometry_of) for j in at[0]]
            found.append(("list", *ways) if None not in ways else None)
        else:
            return None
    return tuple(found) if None not in found else None


def _way(table, operand, geometry_of):
    if geometry_of(operand).dtype.category != _INTEGERS:
        return None
    plans: list[Any] = []
    while operand >= 0:
        step = table.steps[table.maker[operand]]
        is_small = len(step.operands) == 1 and len(plans) < _STEPS and max(
            geometry_of(operand).numel, geometry_of(step.operands[0]).numel
        ) <= _SIZE
        if not is_small or set(step.plan.scalars) - {INT} or len(step.plan.geometries) != 1 or not host_tier.step_of(step.plan):
            return None  # of a step's numbers, integers are the same in all runs
        plans.append((step.plan, tuple(map(np.int64, table.ints[step.int_at : step.int_at + len(step.plan.scalars)]))))
        operand = step.operands[0]
    return "index", operand, tuple(plans[::-1])


class IndexChecks:
    """The checks of a program: each (name, function, what it is given, whether ``ranges`` say that it passes).

    Attributes:
        ranges: (input, lowest, bound) of indices that pass all their checks if ``lowest <= index < bound``.
    """

    def __init__(self, lowered, checks, ranges):
        self.checks, self.others = checks, [c for c in checks if not c[3]]
        self.ranges = [(operand, low, high) for operand, (low, high) in ranges.items()]
        self.lost = {lowered.starts[p] for p in lowered.donated}  # whose arrays are gone after the call

    def run(self, arrays):
        """Makes them, for a program's inputs; what is still being computed is looked at later.

        Raises:
            IndexError: for an index out of range, or what else the operation raises.
        """
        checks = self.others
        for operand, low, high in self.ranges:
            array = arrays[operand]
            if array.__class__ is not np.ndarray:
                if not array.is_ready():
                    checks = self.checks
                    break
                array = np.asarray(array)
            if array.size == 1:
                passes = low <= array.item() < high
            else:
                passes = not array.size or (array.min() >= low and array.max() < high)
            if not passes:
                checks = self.checks
                break
        for name, function, given, _ in checks:
            operands = [o for what in given for o in _inputs(what)]
            pending = [o for o in operands if not _is_there(arrays[o])]
            if pending and (self.lost.intersection(operands) or any(map(_has_steps, given))):
                continue
            value_checks.check_arrays(name, function, [_value(what, arrays, pending) for what in given], bool(pending))


def _inputs(what):
    if what[0] == "list":
        return [o for own in what[1:] for o in _inputs(own)]
    return [what[1]] if what[0] == "index" else []


def _has_steps(what):
    return any(map(_has_steps, what[1:])) if what[0] == "list" else what[0] == "index" and bool(what[2])


def _is_there(array):
    return array.__class__ is np.ndarray or array.is_ready()


def _value(what, arrays, pending):
    if what[0] == "value":
        return what[1]
    if what[0] == "list":
        return [_value(own, arrays, pending) for own in what[1:]]
    array = arrays[what[1]]
    if what[1] in pending:
        return value_checks.later(array)
    value = np.asarray(array)
    for plan, numbers in what[2]:
        (value,) = host_tier.step_of(plan)((value,), numbers)
    return np.asarray(value)
