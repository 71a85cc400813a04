"""Elementwise calls in place on a part of a large storage, as programs that run on its memory.

``x[i].mul_(2)`` reads and writes some rows. Its plan's steps, all of them elementwise, become one program of C++
instructions (`ftorch.eager.host.elementwise_programs`), which ``native/src/writes/writes.cpp`` runs where
the elements are.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .elementwise_fusion import Group, is_elementwise, program_of
from .host_tier import step_of

_NUMBERS = {"i": np.dtype(np.int64), "f": np.dtype(np.float64)}
_known: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # by `ClassProgram`: it serves plans of many sizes


def program_for(plan):
    """A plan's program and, of each of its inputs, the number of the operand or -1 - that of the Python number; or None.

    The result is to be in the operands' memory: of a plan in place, and without checks of values.
    """
    instance = plan.instance
    if plan.checks or not plan.is_single or "c" in plan.scalars or (instance is not None and instance.dtype is not None):
        return None
    if not step_of(plan):
        return None
    steps = plan.program if instance is None else getattr(instance.of, "program", None)
    if steps is None:
        return None
    if steps not in _known:
        _known[steps] = _made(steps, len(plan.inputs), plan)
    return _known[steps]


def _made(steps, tensors, plan):
    """`program_for` of a `ClassProgram`."""
    values: dict[int, Any] = dict(enumerate(range(tensors)))  # what each is: a value, ("n", number, dtype) or a constant
    for number, kind in enumerate(plan.scalars):
        values[tensors + number] = ("n", number, _NUMBERS[kind])
    group = Group(())
    for call in steps.calls:
        step = call.step
        arguments = [values[a] if a.__class__ is int else a for a in call.arguments[: len(step.inputs)]]
        if step.primitive == "broadcast_in_dim":
            rank, own = step.made[0].ndim, step.kinds[0].ndim
            if tuple(step.params["broadcast_dimensions"]) != tuple(range(rank - own, rank)):
                return None
            values[step.outputs[0]] = arguments[0]
            continue
        if step.primitive == "convert_element_type" and arguments[0].__class__ is tuple and arguments[0][0] == "n":
            _, number, own = arguments[0]
            to = np.dtype(step.params["new_dtype"])
            if to == own or (to in (np.float32, np.float64) and own == _NUMBERS[plan.scalars[number]]):
                values[step.outputs[0]] = ("n", number, to)
                continue
        if not is_elementwise(step) or any(a.__class__ is tuple and not _is_number(a) for a in arguments):
            return None
        if not group.has_room(arguments):
            return None
        made = values[step.outputs[0]] = tensors + len(plan.scalars) + len(group.steps)
        group.add((step.primitive, step.kinds, arguments, step.params, made), arguments)
    result = steps.results[0]
    result = values[result] if result.__class__ is int else None
    if result.__class__ is not int or result not in group.made:
        return None
    try:
        program, inputs = program_of(group, [result], {})
    except ValueError:  # operands of mixed dtypes
        return None
    return program, tuple([a if a.__class__ is int else -1 - a[1] for a in inputs])


def _is_number(argument):
    """Whether an argument that is no step's result is one number: Python's, or a constant."""
    return argument[0] == "n" or (argument[0] == "c" and not np.ndim(argument[1]))
