"""What of a traced program depends on the sizes of its inputs.

A `Form` is a program taken apart: what has to be the same in another program for them to be one program
of other sizes, the integers (shapes and parameters), and the scalars that stand in it. `infer` says how
an integer follows from the sizes that vary.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

_LARGEST_CONSTANT = 1 << 16  # bytes; larger ones are compared by identity


class Form(NamedTuple):
    """A program taken apart.

    Attributes:
        skeleton: what is no number; ``integers`` and ``scalars`` the numbers, in order.
        holders: of each scalar the equation it stands in, by its id, and where.
    """

    skeleton: tuple
    integers: tuple[int, ...]
    scalars: tuple
    holders: tuple


class _Taker:
    def __init__(self):
        self.skeleton: list[Any] = []
        self.integers: list[int] = []
        self.scalars: list[Any] = []
        self.holders: list[Any] = []

    def form(self):
        return Form(*map(tuple, (self.skeleton, self.integers, self.scalars, self.holders)))

    def jaxpr(self, jaxpr):
        numbers: dict[Any, int] = {}
        for v in (*jaxpr.constvars, *jaxpr.invars):
            numbers[v] = len(numbers)
            self.aval(v.aval)
        for eqn in jaxpr.eqns:
            self.skeleton.append(eqn.primitive.name)
            self.atoms(eqn, eqn.invars, numbers)
            self.parameter(eqn.params)
            for v in eqn.outvars:
                numbers[v] = len(numbers)
                self.aval(v.aval)
        self.atoms(jaxpr, jaxpr.outvars, numbers)

    def atoms(self, holder, atoms, numbers):
        for k, atom in enumerate(atoms):
            if not isinstance(atom, Literal):
                self.skeleton.append(numbers[atom])
            elif np.ndim(atom.val):
                self.parameter(np.asarray(atom.val))
            else:
                self.skeleton.append(str(atom.aval.dtype))
                self.scalars.append(np.asarray(atom.val).item())
                self.holders.append((id(holder), k))

    def aval(self, aval):
        self.skeleton.append((str(getattr(aval, "dtype", aval)), len(getattr(aval, "shape", ()))))
        self.integers += map(int, getattr(aval, "shape", ()))

    def parameter(self, value):
        if isinstance(value, (bool, str, bytes, float, complex, type(None))):
            self.skeleton.append(value if value == value else "nan")
        elif isinstance(value, (int, np.integer)):
            self.skeleton.append(int)
            self.integers.append(int(value))
        elif isinstance(value, ClosedJaxpr):
            self.jaxpr(value.jaxpr)
            for const in value.consts:
                self.parameter(const)
        elif isinstance(value, Jaxpr):
            self.jaxpr(value)
        elif isinstance(value, dict):
            for key in sorted(value):
                self.skeleton.append(key)
                self.parameter(value[key])
        elif isinstance(value, (tuple, list)):
            self.skeleton.append((type(value).__name__, len(value)))
            for part in value:
                self.parameter(part)
        elif hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type):
            self.skeleton.append((str(value.dtype), value.shape))
            small = value.size * value.dtype.itemsize <= _LARGEST_CONSTANT
            self.skeleton.append(np.asarray(value).tobytes() if small else id(value))
        elif callable(value) and not isinstance(value, type):
            self.skeleton.append("function")  # the rules of derivatives, which are not taken again
        elif hasattr(value, "__dataclass_fields__") and type(value).__module__.startswith("jax"):
            self.skeleton.append(type(value).__name__)
            self.parameter({k: getattr(value, k) for k in value.__dataclass_fields__})
        else:
            self.skeleton.append(str(value))


def form_of(closed) -> Form:
    """A traced program (a ``ClosedJaxpr``), taken apart."""
    taker = _Taker()
    taker.parameter(closed)
    return taker.form()


def same_parameters(eqn, other) -> bool:
    """Whether two equations have the same parameters, to every number."""
    forms = []
    for params in (eqn.params, other.params):
        taker = _Taker()
        taker.parameter(params)
        forms.append(taker.form()[:3])
    return forms[0] == forms[1]


class Expression(NamedTuple):
    """An integer that follows from sizes: a constant and products of some of them.

    Attributes:
        terms: (factor, which sizes are multiplied) of each product.
    """

    terms: tuple[tuple[int, tuple[int, ...]], ...]
    constant: int

    def at(self, sizes) -> int:
        """Its value for given sizes."""
        return self.constant + sum(c * math.prod(sizes[s] for s in which) for c, which in self.terms)


def infer(values, samples) -> Expression | None:
    """How an integer follows from sizes, the simplest first; None if in no known way.

    Args:
        values: the integer in two programs; ``samples`` the sizes in each of the two.
    """
    a, b = values
    if a == b:
        return Expression((), a)
    one, other = samples
    count = len(one)
    for which in (*((i,) for i in range(count)), *((i, j) for i in range(count) for j in range(i, count))):
        p, q = math.prod(one[i] for i in which), math.prod(other[i] for i in which)
        if p and q and a % p == 0 and b % q == 0 and a // p == b // q:
            return Expression(((a // p, which),), 0)
    for i in range(count):
        change, factor = a - b, one[i] - other[i]
        if factor and change % factor == 0 and change // factor > 0:
            c = change // factor
            return Expression(((c, (i,)),), a - c * one[i])
    for i in range(count):
        for j in range(i):
            if (a - b) == (one[i] + one[j]) - (other[i] + other[j]):
                return Expression(((1, (i,)), (1, (j,))), a - one[i] - one[j])
    return None
