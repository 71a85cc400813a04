"""Epilogue fusion: elementwise steps behind a product that its call makes too, while the results are in the cache.

A bias, a rectifier and its gradient's mask, a residual or a factor: each would be a pass over memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import Literal

from ..codes import Epilogue
from .views import Origin, Origins, source_dims, strides

_BINARY = {"add": Epilogue.ADD, "add_any": Epilogue.ADD, "sub": Epilogue.SUBTRACT, "mul": Epilogue.MULTIPLY}


class Link(NamedTuple):
    """A step, or several that are one.

    Attributes:
        operand: the name, or literal, of what it reads besides; None for a rectifier.
        places: how far apart its elements lie along the dimensions of the result.
        steps: the numbers of the steps, with those of reshapes in front of them.
        output: the name of what it gives.
        shape: of that.
    """

    code: Epilogue
    operand: Any
    places: list[int]
    steps: tuple[int, ...]
    output: Any
    shape: tuple[int, ...]


class Chain:
    """The links behind a product, a convolution or a pooling's gradient.

    Attributes:
        taken: those that its call makes.
    """

    def __init__(self, flat, name, values, origins):
        """Of the value ``name``; ``values`` is what is there, by its name."""
        self.flat, self.name, self.values, self.origins = flat, name, values, origins
        self.taken: list[Link] = []

    def take(self, shape, loops):
        """(the operands, the attributes) by which a call makes the links that it can.

        Args:
            shape: of the product.
            loops: see `_along`.
        """
        operands, places, name = [], [], self.name
        while (link := self._next(name, shape)) is not None:
            shape, steps = link.shape, _along(loops, link.shape, link.places)
            if steps is None or steps[-1] not in (0, 1):
                break
            if link.code != Epilogue.RECTIFY:
                x = link.operand
                operands.append(np.float32(x.val) if isinstance(x, Literal) else self.values[x])
            self.taken.append(link)
            places += steps
            name = link.output
        # What only elementwise steps read XLA makes part of their pass.
        while self.taken and not _is_stored(self.flat, self.taken[-1].output):
            if self.taken.pop().code != Epilogue.RECTIFY:
                operands.pop()
        count = len(self.taken)
        return operands, {"after": [link.code for link in self.taken], "places": places[: count * (len(loops))]}

    def take_mask(self, shape, x, origins):
        """Whether the next link is the mask of what ``x`` is a reshape of; its call makes it then."""
        link = self._next(self.name, shape)
        if (
            link is None
            or link.code != Epilogue.MASK
            or origins.unshaped(self.values[link.operand]) is not origins.unshaped(x)
        ):
            return False
        self.taken.append(link)
        return True

    def _next(self, name, shape):
        flat, passed = self.flat, ()
        while (number := flat.only_user(name)) is not None and flat.steps[number].eqn.primitive.name == "reshape":
            name, passed = flat.steps[number].outputs[0], (*passed, number)
            shape = flat.steps[number].eqn.outvars[0].aval.shape
        link = _rectifier(flat, name, shape) or _mask(flat, name, shape, self.values) or (
            _binary(flat, name, shape, self.values, self.origins)
        )
        if link is None or any(number in flat.groups for number in link.steps):
            return None
        aval = flat.steps[link.steps[-1]].eqn.outvars[0].aval
        if aval.shape != shape or aval.dtype != np.float32:
            return None
        return link._replace(steps=(*passed, *link.steps))


def _is_stored(flat, name):
    """Whether a value is a result of the program, or read by a kernel."""
    for number in flat.users.get(name, ()):
        if number is None or number in flat.groups:
            return True
        eqn, _, outputs, _ = flat.steps[number]
        name = eqn.primitive.name
        if name in ("dot_general", "conv_general_dilated") or name.startswith("ftorch_"):
            return True
        if name in Origins.NAMES and _is_stored(flat, outputs[0]):
            return True
    return False


def _binary(flat, name, shape, values, origins):
    number = flat.only_user(name)
    step = None if number is None else flat.steps[number]
    code = None if step is None else _BINARY.get(step.eqn.primitive.name)
    if code is None or (code == Epilogue.SUBTRACT and step.inputs[0] is not name):
        return None
    which = int(step.inputs[0] is name)
    aval = step.eqn.invars[which].aval
    if aval.dtype != np.float32 or aval.shape and len(aval.shape) != len(shape):
        return None  # of more dimensions where the product is a single number
    operand, places, whole = _view(flat, step.inputs[which], aval.shape, shape)
    if not isinstance(operand, Literal) and (
        operand not in values or (whole and not origins.is_stored(values[operand]))
    ):
        return None
    return Link(code, operand, places, (number,), step.outputs[0], shape)


def _rectifier(flat, name, shape):
    """``select(x <= 0, 0, x)``, which keeps NaN."""
    users = flat.users.get(name, ())
    if len(users) != 2 or None in users or not _is_test(flat, users[0], name):
        return None
    between, number, where = _choice(flat, flat.steps[users[0]].outputs[0])
    if number != users[1]:
        return None
    inputs = flat.steps[number].inputs
    if not _is_zero(flat, inputs[where]) or inputs[3 - where] is not name:
        return None
    steps = users[0], *between, number
    return Link(Epilogue.RECTIFY, None, [0] * len(shape), steps, flat.steps[number].outputs[0], shape)


def _mask(flat, name, shape, values):
    """``select(y <= 0, 0, x)``, the rectifier's gradient."""
    number = flat.only_user(name)
    step = None if number is None else flat.steps[number]
    if step is None or step.eqn.primitive.name != "select_n" or step.inputs[0] is name:
        return None
    where, test = 2, flat.maker.get(step.inputs[0])
    if test is not None and flat.steps[test].eqn.primitive.name == "not":
        where, test = 1, flat.maker.get(flat.steps[test].inputs[0])
    if test is None or not _is_test(flat, test) or step.inputs[3 - where] is not name:
        return None
    operand, aval = flat.steps[test].inputs[0], flat.steps[test].eqn.invars[0].aval
    if not _is_zero(flat, step.inputs[where]) or aval.shape != shape or aval.dtype != np.float32 or (
        isinstance(operand, Literal) or operand not in values
    ):
        return None
    return Link(Epilogue.MASK, operand, strides(shape), (number,), step.outputs[0], shape)


def _is_test(flat, number, name=None):
    """Whether a step is ``value <= 0`` (of ``name``)."""
    step = flat.steps[number]
    return step.eqn.primitive.name == "le" and _is_zero(flat, step.inputs[1]) and (
        name is None or step.inputs[0] is name
    )


def _choice(flat, test):
    """The `select_n` that alone uses a test, or its opposite: (steps between, its number, which operand it
    takes where the test holds)."""
    between, where, number = (), 2, flat.only_user(test)
    if number is not None and flat.steps[number].eqn.primitive.name == "not":
        between, where, number = (number,), 1, flat.only_user(flat.steps[number].outputs[0])
    if number is None or flat.steps[number].eqn.primitive.name != "select_n":
        return (), None, where
    return between, number, where


def _is_zero(flat, atom):
    while not isinstance(atom, Literal):
        number = flat.maker.get(atom)
        if number is None or flat.steps[number].eqn.primitive.name not in ("broadcast_in_dim", "convert_element_type"):
            return False
        atom = flat.steps[number].inputs[0]
    return atom.aval.shape == () and atom.val == 0


def _view(flat, name, own, shape):
    """What an operand of shape ``own`` is a view of: (its name, places along ``shape``, whether it is as large)."""
    dims: list = [d if n == m else None for d, (n, m) in enumerate(zip(own, shape, strict=True))] if own else (
        [None] * len(shape)
    )
    while not isinstance(name, Literal):
        number = flat.maker.get(name)
        step = None if number is None else flat.steps[number]
        if step is None or step.eqn.primitive.name not in Origins.NAMES or step.eqn.primitive.name == "rev":
            break
        source = step.eqn.invars[0].aval
        inner = source_dims(
            Origin(step.eqn.outvars[0].aval, step.eqn.primitive.name, source, step.eqn.params)
        )
        if inner is None:
            break
        dims = [None if d is None else inner[d] for d in dims]
        name, own = step.inputs[0], source.shape
    steps = strides(own)
    places = [0 if d is None or n == 1 else steps[d] for d, n in zip(dims, shape, strict=True)]
    return name, places, all(p or n == 1 for p, n in zip(places, shape, strict=True))


def _along(loops, shape, places):
    """How far apart an operand's elements lie along a call's loops, or None if it has no steps along one.

    Args:
        loops: (size, how far apart the result's elements lie along it), each of one or more dimensions of ``shape``,
            a reshape of the result's.
    """
    dims = [d for d in zip(shape, strides(shape), places, strict=True) if d[0] > 1]
    if not all(any(out <= step and n * step <= out * size for size, out in loops) for n, step, _ in dims):
        return None
    found = []
    for size, out in loops:
        mine = [(step, place) for _, step, place in dims if size > 1 and out <= step < out * size]
        place = mine[-1][1] if mine else 0
        if any(own * out != place * step for step, own in mine):
            return None
        found.append(place)
    return found
