"""Elementwise fusion for the host tier: chains of elementwise steps become one pass over memory.

The pass works on the flat steps of a whole trace. A group collects elementwise steps whose results have the same
shape; it runs, as one program of C++ instructions (`ftorch.eager.host.elementwise_programs`), before the first step outside
of it that reads one of its results. What only the group reads is never written to memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..host.elementwise_programs import PRIMITIVES, available, elementwise, supports

_MOST_INSTRUCTIONS, _MOST_INPUTS = 96, 24  # of one group


class Value(NamedTuple):
    """What is known of a value of a trace.

    Attributes:
        shape: equal for values of equal shapes.
        scalar: the argument that a value with one number everywhere was broadcast from, or None.
    """

    dtype: Any
    ndim: int
    shape: Any
    scalar: Any = None


class Group:
    """Elementwise steps of one shape.

    Attributes:
        steps: (primitive, dtypes, arguments, parameters, number of the result).
        results: numbers of the values that others read, found by `finish`.
    """

    def __init__(self, shape):
        self.shape = shape
        self.steps: list[tuple] = []
        self.made: set[int] = set()
        self.inputs: set = set()

    def has_room(self, arguments):
        new = {a for a in arguments if a.__class__ is int and a not in self.made}
        return len(self.steps) < _MOST_INSTRUCTIONS and len(self.inputs | new) <= _MOST_INPUTS

    def add(self, step, arguments):
        self.steps.append(step)
        self.made.add(step[-1])
        self.inputs.update(a for a in arguments if a.__class__ is int and a not in self.made)


def is_elementwise(step) -> bool:
    """Whether a group may have a step."""
    name = step.primitive
    if name not in PRIMITIVES or not available or step.is_many:
        return False
    if any(kind.ndim not in (0, step.made[0].ndim) for kind in step.kinds):
        return False
    if name == "select_n" and (len(step.kinds) != 3 or step.kinds[0].dtype != bool):
        return False
    if name == "integer_pow" and step.made[0].dtype.kind not in "fiu":
        return False
    if name == "round" and int(step.params["rounding_method"]) not in (0, 1):
        return False
    own = step.kinds[1 if name in ("select_n",) else 0].dtype
    try:
        return supports(name, own, step.made[0].dtype if name == "convert_element_type" else None)
    except (TypeError, ValueError):
        return False


def program_of(group: Group, results, values):
    """The group's program and its arguments.

    Args:
        results: numbers of the values that others read.
        values: {number: `Value`}.
    """
    inputs: list = []
    constants: list = []
    places: dict[Any, tuple] = {}

    def place(argument, dtype):
        """("i", position) or ("c", position) of what is made outside."""
        if argument.__class__ is tuple and argument[0] == "c" and not np.ndim(argument[1]):
            number = np.asarray(argument[1])
            key: Any = ("c", number.dtype, number.tobytes())
            if key not in places:
                places[key] = ("c", len(constants))
                constants.append((number.dtype, number.item()))
            return places[key]
        key = ("c", id(argument[1])) if argument.__class__ is tuple and argument[0] == "c" else argument
        if key not in places:
            places[key] = ("i", len(inputs))
            inputs.append((argument, dtype))
        return places[key]

    drafts = []
    for name, kinds, arguments, params, number in group.steps:
        own = [a if a.__class__ is int and a in group.made else place(a, kind.dtype)  # constants have no hash
               for a, kind in zip(arguments, kinds, strict=True)]
        drafts.append((name, kinds, own, params, number))
    first = len(inputs) + len(constants)
    numbers = {number: first + i for i, (*_, number) in enumerate(drafts)}

    def resolved(a):
        if a.__class__ is int:
            return numbers[a]
        return a[1] if a[0] == "i" else len(inputs) + a[1]

    instructions = []
    for name, kinds, own, params, _ in drafts:
        operands = [resolved(a) for a in own]
        dtype = kinds[1 if name == "select_n" else 0].dtype
        if name == "convert_element_type":
            instructions.append((name, dtype, params["new_dtype"], *operands))
        elif name == "integer_pow":
            instructions.append((name, dtype, operands[0], params["y"]))
        elif name == "round":
            instructions.append(("round" if int(params["rounding_method"]) == 1 else "round_away", dtype, *operands))
        else:
            instructions.append((name, dtype, *operands))
    program = elementwise(
        [dtype for _, dtype in inputs], instructions, [numbers[r] for r in results], constants=constants
    )
    return program, [argument for argument, _ in inputs]
