"""View analysis: what traced values are rearrangements of, so that kernels read them where they lie."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal


class Origin(NamedTuple):
    """A value and the equation that made it: ``name`` of ``source``."""

    value: Any  # held, so that its id stays its own
    name: str
    source: Any
    params: dict


_LARGE = 1 << 18  # elements of operands and result together


def _is_large(operands, shape):
    return math.prod(shape) + sum(x.size for x in operands) > _LARGE


class Origins:
    """The values of a program that are rearrangements of others, and which products read its inputs."""

    NAMES = ("transpose", "rev", "broadcast_in_dim", "reshape", "convert_element_type")

    def __init__(self, inputs=(), rounded=False):
        self.rounded = rounded  # see `rounding`
        self._of: dict[int, Origin] = {}
        self._inputs = {id(x): x for x in inputs}
        self._results: dict[int, Any] = {}  # held, too
        self._zeros: dict[int, Any] = {}
        self._products: list[tuple] = []
        self._last: list = []  # see `last`

    def is_few(self, count, few):
        """Whether XLA makes so few elements sooner, with what is around."""
        return count < few and not self.rounded

    def add_product(self, operands, result):
        for one, other in (operands, operands[::-1]):
            if id(other) in self._inputs:
                self._products.append((one, other.shape, result))

    def before(self, operands, shape):
        """The last product of one of these operands with an input of the program of that shape, in a list.

        If a weight is read by the gradient of a layer's input, and the weight's gradient is next, what
        follows from that may be written over the weight. XLA does not see which comes first unless one
        needs the other, and would copy the weight.
        """
        found = [p[2] for p in self._products if p[1] == shape and any(p[0] is x for x in operands)]
        return found[-1:]

    def last(self, operands, shape):
        """The last large product or convolution, in a list: an operand that the next large one waits for, unread.

        So they run in the program's order. XLA's own goes down a network's whole backward pass before it makes the
        weights' gradients, so that every activation and every activation's gradient are in memory at one time, and it would
        take for one call what a checkpoint computes again.
        """
        return self._last if _is_large(operands, shape) else []

    def add_last(self, operands, result):
        """Notes a product or convolution; gives the result."""
        if _is_large(operands, result.shape):
            self._last = [result]
        return result

    def add(self, eqn, inputs, value):
        """Notes what an operation made of its operands."""
        source = inputs[0]
        if eqn.primitive.name in self.NAMES and not isinstance(eqn.invars[0], Literal):
            self._of[id(value)] = Origin(value, eqn.primitive.name, source, eqn.params)
        elif eqn.primitive.name in ("slice", "dynamic_slice") and not isinstance(eqn.invars[0], Literal):
            starts = eqn.params["start_indices"] if eqn.primitive.name == "slice" else inputs[1:]
            steps = eqn.params.get("strides") or (1,) * len(starts)
            self._of[id(value)] = Origin(value, "part", source, {"starts": starts, "steps": steps})
        elif eqn.primitive.name == "broadcast_in_dim" and _is_zero(eqn.invars[0].val):
            self._zeros[id(value)] = value

    def get(self, value, name):
        """What ``value`` was made of by an operation of that name, or None."""
        found = self._of.get(id(value))
        return found if found is not None and found.name == name else None

    def is_stored(self, value):
        """Whether ``value`` lies in memory anyway: XLA does not compute it where it is read."""
        value = self.unshaped(value)
        return id(value) in self._inputs or id(value) in self._results

    def is_zeros(self, value):
        """Whether all of ``value`` is a zero that the program says."""
        return id(value) in self._zeros

    def unshaped(self, value):
        """What ``value`` is a reshape of, at last."""
        while (found := self.get(value, "reshape")) is not None:
            value = found.source
        return value

    def add_results(self, values):
        """Notes results of kernels."""
        self._results.update((id(x), x) for x in values)

    def where(self, value):
        """(array, steps): where integers lie, of any width, and the steps between elements in each dimension."""
        value, dims = self._source(value)
        own = strides(value.shape)
        return value, [0 if d is None else own[d] for d in dims]

    def part(self, value):
        """(array, steps, offset): `where`, through a part of an array that lies in memory anyway; a traced offset may be."""
        value, dims = self._source(value)
        own, offset, found = strides(value.shape), 0, self.get(value, "part")
        if found is not None and self._lies(found.source):
            whole = strides(found.source.shape)
            own = [step * n for step, n in zip(whole, found.params["steps"], strict=True)]
            for start, step, n, size in zip(found.params["starts"], whole, found.source.shape, value.shape, strict=True):
                if isinstance(start, int):  # a part is within the array, wherever it is said to begin
                    start = min(max(start, 0), n - size)
                else:
                    start = 0 if n == size else jnp.clip(jnp.asarray(start).astype(np.int64), 0, n - size)
                offset = offset + start * step
            value = found.source
        return value, [0 if d is None else own[d] for d in dims], offset

    def _lies(self, value):
        """Whether ``value`` lies in memory anyway, seen in other dimensions perhaps."""
        while True:
            found = self._of.get(id(value))
            if found is None or found.name not in ("reshape", "transpose") or not _keeps_order(found):
                return id(value) in self._inputs or id(value) in self._results
            value = found.source

    def repeats(self, value):
        """The dimensions of ``value`` along which it is the same everywhere."""
        return [d for d, source in enumerate(self._source(value)[1]) if source is None]

    def _source(self, value):
        """What ``value`` is a rearrangement of, and the dimension there of each of its own; None: it repeats."""
        dims = list(range(value.ndim))  # the source's dimension that each is, None: repeated
        while (found := self._of.get(id(value))) is not None:
            inner = source_dims(found)
            if inner is None:
                break
            dims = [None if d is None else inner[d] for d in dims]
            value = found.source
        return value, dims


def _is_zero(number):
    return np.ndim(number) == 0 and not any(np.asarray(number).tobytes())


def _keeps_order(origin):
    """Whether the elements of a rearrangement follow each other as the source's do."""
    order = origin.params.get("permutation") if origin.name == "transpose" else None
    if order is None:
        return origin.name == "reshape"
    moved = [d for d in order if origin.source.shape[d] != 1]
    return moved == sorted(moved)


def source_dims(origin):
    """For each dimension of a rearrangement the source's, None where it repeats; None if it is none."""
    value, name, source, params = origin
    if name == "transpose":
        return params["permutation"]
    if name == "convert_element_type":
        integers = {value.dtype, source.dtype} <= {np.dtype(np.int32), np.dtype(np.int64)}
        return range(value.ndim) if integers else None
    if name == "broadcast_in_dim":
        found: list = [None] * value.ndim
        for d, place in enumerate(params["broadcast_dimensions"]):
            if source.shape[d] == value.shape[place]:
                found[place] = d
        return found
    kept = [d for d, n in enumerate(source.shape) if n != 1]
    if name == "reshape" and [source.shape[d] for d in kept] == [n for n in value.shape if n != 1]:
        left = iter(kept)
        return [None if n == 1 else next(left) for n in value.shape]
    return None


def strides(shape):
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def merged(loops):
    """Loops, (size, *steps) from the outermost on, those that continue each other joined."""
    joined = [loops[0]] if loops else []
    for loop in loops[1:]:
        before = joined[-1]
        if all(s == loop[0] * step for s, step in zip(before[1:], loop[1:], strict=True)):
            joined[-1] = type(loop)._make((before[0] * loop[0], *loop[1:]))
        else:
            joined.append(loop)
    return joined


def in_three_dimensions(**spatial):
    """{name: (values of one to three dimensions, what dimensions in front of them have)} as three values each."""
    return {name: (fill,) * (3 - len(v)) + tuple(v) for name, (v, fill) in spatial.items()}
