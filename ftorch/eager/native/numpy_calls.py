"""Direct kernel calls on NumPy arrays, without XLA: `ftorch.eager.native.call` comes here when it is given such.

So the functions of `passes`, which say how a kernel makes a primitive, serve both; `ArrayOrigins` tells them how the
arrays lie in memory, as `passes.views.Origins` does for traced values.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, NamedTuple

import numpy as np

from . import module


class Strided(np.ndarray):
    """Marks an array that a kernel reads through its strides; all others are made dense."""


@functools.lru_cache(256)
def _handler(name, attributes, kinds):
    return module.Handler(name, attributes, kinds)


def _kind(value):
    if isinstance(value, np.floating):
        return "d" if value.dtype == np.float64 else "f"
    return "i" if isinstance(value, np.integer) else "q"


def _attribute(value):
    return value if isinstance(value, (np.generic, list, tuple)) else tuple(value)


def call(name, results, operands, over, attributes):
    """The results of a kernel; see `ftorch.eager.native.call`."""
    many = isinstance(results, (list, tuple))
    made = [module.empty(tuple(r.shape), r.dtype) for r in (results if many else (results,))]
    for operand, result in ({over: 0} if isinstance(over, int) else over or {}).items():
        np.copyto(made[result], operands[operand])
    dense = [x if type(x) is Strided else np.ascontiguousarray(x) for x in operands]
    handler = _handler(name, tuple(attributes), "".join(map(_kind, attributes.values())))
    values = tuple(map(_attribute, attributes.values()))
    handler(dense, made, values)
    if _noted.calls is not None:
        _noted.calls.append((handler, values, operands, made, over))
    return made if many else made[0]


class _Noted(threading.local):
    """The calling thread's calls of kernels since `prepared` began to note them."""

    calls: list | None = None


_noted = _Noted()


def prepared(given, count, compute, many):
    """(what ``compute`` gives, that call of a kernel as a function of the same ``given``, or None).

    What the functions of `passes` find out follows from shapes and layouts: a call for dense arrays of the same shapes is the
    same call of the same kernel, if there was one, of just these arrays, whose results are what is wanted.

    Args:
        given: ``count`` arrays and, behind them, sizes.
        compute: gives a list of results, or None.
        many: whether the function gives a tuple.
    """
    _noted.calls = calls = []
    try:
        found = compute()
    finally:
        _noted.calls = None
    if found is None or len(calls) != 1:
        return found, None
    handler, values, operands, made, over = calls[0]
    arrays = given[:count]
    taken = [next((i for i, x in enumerate(arrays) if x is operand), None) for operand in operands]
    if over is not None or None in taken or len(found) != len(made) or any(a is not b for a, b in zip(found, made)):
        return found, None
    if not all(x.__class__ is np.ndarray and x.flags.c_contiguous and x.flags.aligned for x in arrays):
        return found, None
    like = (*((x.shape, x.dtype) for x in arrays), *given[count:])
    results = tuple((x.shape, x.dtype) for x in made)
    values = tuple(tuple(v) if isinstance(v, list) else v for v in values)
    return found, module.Prepared(handler, values, like, tuple(taken), results, many)


class Origin(NamedTuple):
    """An array that is a rearrangement of a dense one."""

    source: np.ndarray
    params: dict


class ArrayOrigins:
    """How NumPy arrays lie in memory, asked for as of traced values (`passes.views.Origins`)."""

    def get(self, value, name):
        """The dense array that ``value`` is a transpose of, or has been reversed from; or None."""
        if value.flags.c_contiguous:
            return None
        if name == "transpose":
            order = sorted(range(value.ndim), key=lambda d: (-value.strides[d], d))
            source = value.transpose(order)
            if source.flags.c_contiguous:
                return Origin(source, {"permutation": tuple(order.index(d) for d in range(value.ndim))})
        if name == "rev":
            dims = tuple(d for d, step in enumerate(value.strides) if step < 0)
            source = value[tuple(slice(None, None, -1) if step < 0 else slice(None) for step in value.strides)]
            if dims and source.flags.c_contiguous:
                return Origin(source, {"dimensions": dims})
        return None

    def where(self, value):
        """(array, steps): what a kernel is to read, and the steps between its elements."""
        steps = [0 if n == 1 else step // value.itemsize for n, step in zip(value.shape, value.strides, strict=True)]
        return value.view(Strided), steps

    def is_few(self, count, few):
        """Whether XLA makes so few sooner; there is no XLA."""
        del count, few
        return False

    def is_stored(self, value):
        return True

    def is_zeros(self, value):
        """Whether one zero stands for all elements."""
        return value.size > 1 and not any(value.strides) and not value.flat[0].tobytes().strip(b"\0")

    def repeats(self, value):
        return []

    def unshaped(self, value):
        return value

    def before(self, operands, shape):
        return []

    def add_product(self, operands, result):
        """Nothing is noted."""

    def last(self, operands, shape):
        return []

    def add_last(self, operands, result):
        return result


class NoChain:
    """Nothing follows that is part of a call (`passes.epilogue_fusion.Chain`)."""

    def take(self, shape, loops):
        return (), {"after": (), "places": ()}

    def take_mask(self, shape, x, origins):
        return False


class Primitive(NamedTuple):
    name: str


class Variable(NamedTuple):
    """A variable of a jaxpr's equation: an array, or what has shape and dtype of one, is its own abstract value."""

    aval: Any


class Equation(NamedTuple):
    """What functions of `passes` ask of a jaxpr's equation."""

    primitive: Primitive
    params: dict
    invars: list
    outvars: list


class Shaped:
    """A result's shape and dtype."""

    __slots__ = ("shape", "dtype")

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=np.int64))


_ORIGINS = ArrayOrigins()


def run(kernel, name, params, arrays, results, chained=False):
    """What a function of `passes` gives for a primitive on arrays, as a list, or None.

    Args:
        results: `Shaped`, of each result.
        chained: whether it wants a `Chain`.
    """
    equation = Equation(
        Primitive(name), params, [Variable(x) for x in arrays], [Variable(r) for r in results]
    )
    if chained:
        return kernel(equation, arrays, _ORIGINS, chain=NoChain())
    return kernel(equation, arrays, _ORIGINS)
