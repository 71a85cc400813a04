"""Bitwise reproducibility: XLA's programs give the results of single steps, bit by bit.

A step rounds its result and gives the same bits wherever it runs: on the host tier, by itself, or in a program of many. What
XLA's compiler would change by fusing steps is kept from it: a product that a sum takes is not contracted with that, a
quotient is no product with an inverse. What XLA computes in another way than the host tier (elementary functions, sums)
is a call of the same code (``elementwise.cpp``), with the elementwise steps around it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jax import lax
from jax.extend.core import Literal

from .. import PARTS, available, call
from ..elementwise_code import PRIMITIVES, TYPES, encoded, supports

_FLOATS = tuple(map(np.dtype, (np.float32, np.float64)))
_NARROW = tuple(map(np.dtype, (np.float16, jax.numpy.bfloat16)))
# Functions that XLA approximates by code of its own.
FUNCTIONS = frozenset(
    "exp exp2 expm1 log log1p tanh logistic erf erfc sin cos tan asin acos atan sinh cosh asinh acosh atanh pow cbrt "
    "atan2".split()
)
_SUMS = frozenset(("reduce_sum", "reduce_prod"))
_COMPARISONS = frozenset("eq ne lt le gt ge is_finite".split())
_PRODUCTS = frozenset(("mul", "square", "integer_pow"))
# What reads a product without adding anything to it.
_HARMLESS = _COMPARISONS | {"dot_general", "conv_general_dilated"}
_MOVES = frozenset("reshape transpose squeeze convert_element_type copy stop_gradient rev slice expand_dims abs neg".split())
_MANY = 1 << 12  # elements of a conversion that is worth a call
_MOST_STEPS, _MOST_OPERANDS, _MOST_RESULTS = 96, 24, 48
#: Primitives that a jaxpr is rewritten for.
CHANGED = FUNCTIONS | _SUMS | _PRODUCTS | {"div", "sqrt", "rsqrt"}


class Cluster(NamedTuple):
    """Elementwise steps of one shape, and sums of what they give, in one call.

    Attributes:
        steps: their numbers, in order; the call stands where the last does.
        axes: along which sums go.
        results: the names of what others read.
    """

    steps: list[int]
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    results: list


class _Open:
    """A cluster while steps are added."""

    def __init__(self, shape):
        self.shape, self.axes = shape, None
        self.steps: list[int] = []
        self.inputs: set[int] = set()
        self.sums: set[int] = set()  # names of those that it gives, which none of its steps may read


def find(flat):
    """{number of a step: the `Cluster` that it belongs to}.

    A step joins the open cluster of its shape. Whoever else reads what a cluster gives closes it, so that nothing
    in it comes to depend on itself.
    """
    if not available:
        return {}
    opened: dict[tuple, _Open] = {}
    of: dict[int, _Open] = {}  # by names
    closed: list[_Open] = []

    def close(names, but=None):
        for name in names:
            found = None if isinstance(name, Literal) else of.get(id(name))
            if found is not None and found is not but and opened.get(found.shape) is found:
                del opened[found.shape]

    for number, step in enumerate(flat.steps):
        eqn = step.eqn
        if number not in flat.groups and _is_sum(eqn):
            operand, shape, axes = step.inputs[0], eqn.invars[0].aval.shape, tuple(eqn.params["axes"])
            found = None if isinstance(operand, Literal) else of.get(id(operand))
            if found is None or opened.get(shape) is not found or found.axes not in (None, axes):
                close(step.inputs)
                found = _Open(shape)
                closed.append(found)
            found.axes = axes
            found.steps.append(number)
            found.sums.add(id(step.outputs[0]))
            of[id(step.outputs[0])] = found
        elif number not in flat.groups and is_elementwise(eqn):
            shape = eqn.outvars[0].aval.shape
            found = opened.get(shape)
            names = {id(x) for x in step.inputs if not isinstance(x, Literal)}
            if found is not None and names & found.sums:
                del opened[shape]
                found = None
            if found is not None:
                new = {n for n in names if of.get(n) is not found}
                if len(found.steps) >= _MOST_STEPS or len(found.inputs | new) > _MOST_OPERANDS:
                    del opened[shape]
                    found = None
            if found is None:
                found = opened[shape] = _Open(shape)
                closed.append(found)
            close(step.inputs, found)
            found.inputs |= {n for n in names if of.get(n) is not found}
            found.steps.append(number)
            of[id(step.outputs[0])] = found
        else:
            close(step.inputs)
    made = {}
    for one in closed:
        for cluster in _clusters(flat, one):
            made.update(dict.fromkeys(cluster.steps, cluster))
    return made


def _is_sum(eqn):
    return eqn.primitive.name in _SUMS and eqn.invars[0].aval.dtype in _FLOATS and len(eqn.params["axes"]) > 0


def is_elementwise(eqn):
    """Whether elementwise programs have a step, on operands of one shape and numbers."""
    name, out = eqn.primitive.name, eqn.outvars[0].aval
    if name not in PRIMITIVES or len(eqn.outvars) != 1:
        return False
    if any(v.aval.shape not in ((), out.shape) for v in eqn.invars):
        return False
    dtypes = [getattr(v.aval, "dtype", None) for v in (*eqn.invars, eqn.outvars[0])]
    if any(d not in TYPES for d in dtypes):
        return False
    own = dtypes[0]
    if name == "select_n":
        if len(eqn.invars) != 3 or own != np.bool_:
            return False
        own = dtypes[1]
    elif any(d != own for d in dtypes[:-1]):
        return False
    if name == "integer_pow" and own.kind not in "fiu":
        return False
    if name == "round" and int(eqn.params["rounding_method"]) not in (0, 1):
        return False
    return supports(name, own, dtypes[-1] if name == "convert_element_type" else None)


def _clusters(flat, one):
    """The parts of an open cluster that belong together, of those that have a function or a sum."""
    above = {number: number for number in one.steps}
    makers = {id(flat.steps[n].outputs[0]): n for n in one.steps}

    def top(number):
        while above[number] != number:
            number = above[number]
        return number

    for number in one.steps:
        for name in flat.steps[number].inputs:
            if id(name) in makers:
                above[top(number)] = top(makers[id(name)])
    parts: dict[int, list[int]] = {}
    for number in one.steps:
        parts.setdefault(top(number), []).append(number)
    for steps in parts.values():
        eqns = [flat.steps[n].eqn for n in steps]
        if not any(map(_is_needed, eqns)) and not all(map(_is_conversion, eqns)):
            continue
        own = set(steps)
        results = [
            name for n in steps for name in flat.steps[n].outputs
            if any(user not in own for user in flat.users.get(name, ()))
        ]
        sums = any(flat.steps[n].eqn.primitive.name in _SUMS for n in steps)
        if len(results) <= _MOST_RESULTS:
            yield Cluster(steps, one.shape, one.axes if sums else (), results)
        else:
            for n in steps:
                if _is_needed(flat.steps[n].eqn):
                    yield Cluster([n], one.shape, one.axes if sums else (), list(flat.steps[n].outputs))


def _is_needed(eqn):
    name, out = eqn.primitive.name, eqn.outvars[0].aval
    return name in _SUMS or (name in FUNCTIONS and out.dtype in (*_FLOATS, *_NARROW))


def _is_conversion(eqn):
    """Whether a step makes float32 of many bfloat16 numbers, which takes XLA twice as long where it does nothing else."""
    return eqn.primitive.name == "convert_element_type" and eqn.outvars[0].aval.size > _MANY and (
        eqn.invars[0].aval.dtype == jax.numpy.bfloat16 and eqn.outvars[0].aval.dtype == np.float32
    )


def run(flat, cluster, read):
    """The results of a cluster.

    Args:
        read: gives the value of a name or literal.
    """
    steps = [flat.steps[n] for n in cluster.steps]
    made = {id(step.outputs[0]) for step in steps}
    shape = cluster.shape
    inputs: list = []
    dims: list[tuple[int, ...]] = []
    constants: list[tuple] = []
    places: dict = {}
    for step in steps:
        for name, variable in zip(step.inputs, step.eqn.invars, strict=True):
            key = _key(name, variable)
            if key in places or key in made:
                continue
            dtype = np.dtype(variable.aval.dtype)
            source, own = _source(flat, name, variable.aval, bool(cluster.axes))
            if isinstance(source, Literal) and not np.ndim(source.val):
                places[key] = ("c", len(constants))
                constants.append((dtype, np.asarray(source.val, dtype).item()))
                continue
            places[key] = ("i", len(inputs))
            if isinstance(source, Literal):
                inputs.append(np.asarray(source.val, dtype))
            else:
                inputs.append(read(source))
            dims.append(own)
    numbers = {id(step.outputs[0]): len(inputs) + len(constants) + i for i, step in enumerate(
        s for s in steps if s.eqn.primitive.name not in _SUMS
    )}

    def place(name, variable):
        if id(name) in numbers:
            return numbers[id(name)]
        kind, number = places[_key(name, variable)]
        return number if kind == "i" else len(inputs) + number

    instructions, sums = [], {}
    for step in steps:
        eqn, name = step.eqn, step.eqn.primitive.name
        own = [place(x, v) for x, v in zip(step.inputs, eqn.invars, strict=True)]
        dtype = eqn.invars[1 if name == "select_n" else 0].aval.dtype
        if name in _SUMS:
            sums[id(step.outputs[0])] = (name, own[0])
        elif name == "convert_element_type":
            instructions.append((name, dtype, eqn.params["new_dtype"], *own))
        elif name == "integer_pow":
            instructions.append((name, dtype, own[0], eqn.params["y"]))
        elif name == "round":
            instructions.append(("round" if int(eqn.params["rounding_method"]) == 1 else "round_away", dtype, *own))
        else:
            instructions.append((name, dtype, *own))
    outputs = [sums.get(id(r), numbers.get(id(r))) for r in cluster.results]
    avals = {id(s.outputs[0]): s.eqn.outvars[0].aval for s in steps}
    results = [jax.ShapeDtypeStruct(avals[id(r)].shape, avals[id(r)].dtype) for r in cluster.results]
    return _call(inputs, constants, instructions, outputs, shape, dims, cluster.axes, results)


def _key(name, variable):
    if isinstance(name, Literal) and not np.ndim(name.val):
        return (str(variable.aval.dtype), np.asarray(name.val, variable.aval.dtype).tobytes())
    return id(name)


def _source(flat, name, aval, dense):
    """What lies in memory of an operand, and which dimension of the result each of its own is.

    Args:
        dense: whether it has to lie there as it is, unless it is one number: sums go through elements in an order that
            follows from the shape.
    """
    number = None if isinstance(name, Literal) else flat.maker.get(name)
    step = None if number is None else flat.steps[number]
    if step is not None and step.eqn.primitive.name == "broadcast_in_dim" and len(step.inputs) == 1:
        source = step.eqn.invars[0].aval
        if not source.shape or not dense:
            return step.inputs[0], tuple(step.eqn.params["broadcast_dimensions"])
    return name, tuple(range(len(aval.shape)))


def _call(inputs, constants, instructions, outputs, shape, dims, axes, results, dtypes=None):
    dtypes = dtypes or [np.dtype(x.dtype) for x in inputs]
    constants, code, ends = encoded(dtypes, instructions, outputs, constants)
    fixed = [n for dtype, x in constants for n in (TYPES[np.dtype(dtype)], _bits(dtype, x))]
    program = [
        len(dtypes), *(TYPES[d] for d in dtypes), len(constants), *fixed, len(code) // 6, *code, len(ends),
        *(n for end in ends for n in end),
    ]
    listed = [n for own in dims for n in (len(own), *own)]
    return call(
        "ftorch_elementwise", tuple(results), *map(jax.numpy.asarray, inputs), program=program, shape=shape, dims=listed,
        axes=axes,
    )


def _bits(dtype, number):
    """A number's bits as an integer of 64 bits."""
    return int.from_bytes(np.asarray(number, dtype).tobytes().ljust(8, b"\0"), "little", signed=True)


class Rounding:
    """How a program keeps the rounding of its steps.

    Attributes:
        zeros: {dtype: minus zero, which the compiler does not know}.
    """

    def __init__(self, flat):
        self.flat = flat
        self.zeros: dict = {}

    def _with_zero(self, x):
        """``x + -0.``: the same number. A product becomes a multiply-add with it, which takes no more time."""
        zero = self.zeros.get(x.dtype)
        if zero is None:
            zero = self.zeros[x.dtype] = jax.ffi.ffi_call("ftorch_zero", jax.ShapeDtypeStruct((), x.dtype))()
        return lax.add(x, lax.broadcast(zero, x.shape) if x.shape else zero)

    def made(self, step, inputs):
        """The results of a step that the compiler would change, or None."""
        name, eqn = step.eqn.primitive.name, step.eqn
        if name not in CHANGED:
            return None
        dtype = eqn.outvars[0].aval.dtype
        if dtype in _NARROW and name in _SUMS:
            return self._widened(name, eqn, inputs)
        if dtype in PARTS and name == "reduce_sum":
            return self._summed_parts(eqn, inputs)
        if dtype not in _FLOATS:
            return None
        if name == "rsqrt":
            root = self._with_zero(lax.sqrt(inputs[0]))
            return [lax.div(lax.broadcast(np.ones((), dtype), root.shape), root)]
        if name == "div":
            # By what repeats along a dimension, XLA would multiply with the inverse: it must not see that this does.
            shape = eqn.outvars[0].aval.shape
            if np.shape(inputs[1]) != shape or self._repeats(step.inputs[1]):
                above, below = (lax.broadcast_in_dim(x, shape, range(np.ndim(x))) for x in map(jax.numpy.asarray, inputs))
                inputs = [above, lax.select(lax.ne(above, above), above, below)]
        result = eqn.primitive.bind(*inputs, **eqn.params)
        users = self._users(step)
        if name in _PRODUCTS:
            changed = any(user is not None and user not in _HARMLESS for user in users)
        else:
            changed = any(user in ("div", "mul", "integer_pow", "square", "sqrt") for user in users)
        return [self._with_zero(result) if changed else result]

    def _users(self, step):
        """The primitives that read a step's result and that XLA computes; None: the program's result."""
        flat = self.flat
        for number in flat.users.get(step.outputs[0], ()):
            if number is None:
                yield None
            elif number not in flat.groups:
                name = flat.steps[number].eqn.primitive.name
                yield None if name.startswith("ftorch_") else name

    def _repeats(self, name):
        """Whether a value may be a number for many elements."""
        number = None if isinstance(name, Literal) else self.flat.maker.get(name)
        if number is None:
            return isinstance(name, Literal)
        step = self.flat.steps[number]
        if number in self.flat.groups:
            return False
        kind = step.eqn.primitive.name
        return kind == "broadcast_in_dim" or (kind in _MOVES and self._repeats(step.inputs[0]))

    def _summed_parts(self, eqn, inputs):
        """A sum of complex numbers, whose parts are one more dimension; None where there is nothing to sum."""
        (x,), out, axes = inputs, eqn.outvars[0].aval, eqn.params["axes"]
        if not axes:
            return None
        part, own = PARTS[x.dtype], tuple(range(x.ndim + 1))
        result = jax.ShapeDtypeStruct(out.shape, out.dtype)
        return _call([x], (), [], [("reduce_sum", 0)], (*x.shape, 2), [own], axes, [result], [part])

    def _widened(self, name, eqn, inputs):
        """A sum of numbers of 16 bits, computed in float32; None where there is nothing to sum."""
        (x,), out, axes, wide = inputs, eqn.outvars[0].aval, eqn.params["axes"], np.dtype(np.float32)
        if not axes:
            return None
        instruction, result = ("convert_element_type", x.dtype, wide, 0), jax.ShapeDtypeStruct(out.shape, wide)
        found = _call([x], (), [instruction], [(name, 1)], x.shape, [tuple(range(x.ndim))], axes, [result])
        return [lax.convert_element_type(found[0], out.dtype)]
