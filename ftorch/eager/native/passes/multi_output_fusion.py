"""Multi-output fusion: elementwise steps with several results, as an optimizer's, in one call (``groups.cpp``).

XLA makes a pass over memory for each result, and reads there again what the others read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jax.extend.core import Literal

from .. import call
from ..codes import GroupStep

# What a `select_n` chooses by is a number.
_CODES = {
    "add": GroupStep.PLUS,
    "add_any": GroupStep.PLUS,
    "sub": GroupStep.MINUS,
    "mul": GroupStep.TIMES,
    "div": GroupStep.OVER,
    "max": GroupStep.GREATER,
    "min": GroupStep.LESS,
    "neg": GroupStep.NEGATIVE,
    "abs": GroupStep.ABSOLUTE,
    "sign": GroupStep.SIGN,
    "square": GroupStep.SQUARE,
    "sqrt": GroupStep.ROOT,
    "select_n": GroupStep.CHOICE,
}
# Elements from which arrays do not stay in a core's cache between XLA's passes.
_LEAST = 1 << 17


class Group(NamedTuple):
    """Steps of one shape that read or give the same arrays. What they give is read by them, or a result of the program: what
    others read XLA can make part of these.

    Attributes:
        steps: their numbers, in order; the call stands where the last does.
        results: the names of the program's results among what they give.
    """

    steps: list[int]
    results: list


def find(flat):
    """{number of a step: the group that it belongs to} of a program's groups."""
    above: dict[int, int] = {}  # members, each with another of its group or itself
    touching: dict[int, int] = {}  # {array: a member that reads or gives it}

    def top(member):
        while above[member] != member:
            member = above[member]
        return member

    for number in reversed(range(len(flat.steps))):
        step = flat.steps[number]
        name = step.outputs[0]
        if not _belongs(flat, step) or any(u is not None and u not in above for u in flat.users[name]):
            continue
        above[number] = number
        given = zip(step.inputs, step.eqn.invars, strict=True)
        for x in (name, *(x for x, variable in given if variable.aval.shape)):
            above[top(touching.setdefault(id(x), number))] = number
    joined: dict[int, list[int]] = {}
    for number in sorted(above):
        joined.setdefault(top(number), []).append(number)
    found = {}
    for own in joined.values():
        results = [name for n in own for name in flat.steps[n].outputs if None in flat.users[name]]
        if len(results) > 1:
            found.update(dict.fromkeys(own, Group(own, results)))
    return found


def _belongs(flat, step):
    eqn, shape = step.eqn, step.eqn.outvars[0].aval.shape
    if eqn.primitive.name not in _CODES or eqn.outvars[0].aval.size < _LEAST:
        return False
    which, given = (eqn.invars[:1], 1) if eqn.primitive.name == "select_n" else ((), 0)
    if any(v.aval.shape != () or v.aval.dtype != bool for v in which) or eqn.outvars[0].aval.dtype != np.float32:
        return False
    return all(
        # JAX's own steps repeat numbers along sizes of one; the call reads arrays of one shape.
        v.aval.dtype == np.float32 and (v.aval.shape == () or (v.aval.shape == shape and _is_there(flat, name)))
        for v, name in zip(eqn.invars[given:], step.inputs[given:], strict=True)
    )


def _is_there(flat, name):
    """Whether an array lies in memory as it is: XLA makes what repeats numbers where it is read."""
    if isinstance(name, Literal):
        return False
    number = flat.maker.get(name)
    return number is None or flat.steps[number].eqn.primitive.name not in ("broadcast_in_dim", "iota")


def run(flat, group, read, over):
    """The results of a group.

    Args:
        read: gives the value of a name or literal.
        over: {result: the input of the program whose memory it takes}.
    """
    steps = [flat.steps[number] for number in group.steps]
    made = [step.outputs[0] for step in steps]
    given = {
        id(name): (name, variable.aval.shape)
        for step in steps
        for name, variable in zip(step.inputs, step.eqn.invars, strict=True)
        if not any(name is m for m in made)
    }
    operands = [n for n, shape in given.values() if shape] + [n for n, shape in given.values() if not shape]
    places = {id(name): place for place, name in enumerate(operands + made)}
    code = []
    for step in steps:
        own = [places[id(name)] for name in step.inputs]
        code += [_CODES[step.eqn.primitive.name], *own, *[0] * (3 - len(own))]
    values = [np.asarray(x.val, x.aval.dtype) if isinstance(x, Literal) else read(x) for x in operands]
    out = steps[0].eqn.outvars[0].aval
    aliases = {
        places[id(over[name])]: place
        for place, name in enumerate(group.results) if id(over.get(name)) in given
    }
    return call(
        "ftorch_group", (out,) * len(group.results), *values, over=aliases, steps=code,
        gives=[places[id(name)] for name in group.results],
    )
