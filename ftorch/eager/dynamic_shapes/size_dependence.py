"""Shape dependence: what of a traced program depends on the sizes of its inputs.

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


_FEW = 16  # times what is few beside a size is at most that size


class Size(NamedTuple):
    """A length: a constant and multiples of sizes that vary, ((which, factor), ...)."""

    terms: tuple[tuple[int, int], ...]
    constant: int

    def at(self, sizes):
        """Its value for given sizes, which may be traced."""
        return sum((sizes[s] * c for s, c in self.terms), self.constant)

    def kept(self, lengths) -> int:
        """How long an array is of which this is a length, ``lengths`` being those of arrays of the sizes.

        A size and few more (`few`) have the arrays of the size, so that what grows by steps is neither made longer nor
        cut: such sizes have to leave room for them.
        """
        return lengths[self.terms[0][0]] if self.few(lengths) else self.at(lengths)

    def few(self, lengths) -> int:
        """How many more than a size these are, if they are few beside it, else 0."""
        if len(self.terms) != 1 or self.terms[0][1] != 1:
            return 0
        return self.constant if 0 < self.constant * _FEW <= lengths[self.terms[0][0]] else 0

    def __add__(self, other: Size) -> Size:  # type: ignore[override]
        terms = dict(self.terms)
        for s, c in other.terms:
            terms[s] = terms.get(s, 0) + c
        return Size(tuple(sorted(terms.items())), self.constant + other.constant)

    def more(self, constant: int) -> Size:
        """The length and some more."""
        return Size(self.terms, self.constant + constant)


Factors = tuple[Size, ...]  # an integer as a product, of a dimension the outermost first


def fixed(length: int) -> Factors:
    """An integer that does not vary."""
    return (Size((), int(length)),)


def product(factors: Factors, sizes):
    """The value of an integer for given sizes, which may be traced."""
    return math.prod(f.at(sizes) for f in factors)


def kept(factors: Factors, lengths) -> int:
    """How long an array is in a dimension (`Size.kept`)."""
    return math.prod(f.kept(lengths) for f in factors)


_NEAR = 16


def infer(values, samples) -> Factors | None:
    """How an integer follows from sizes, the simplest first; None if in no known way.

    Args:
        values: the integer in two programs; ``samples`` the sizes in each of the two.
    """
    a, b = values
    if a == b:
        return fixed(a)
    one, other = samples
    count = len(one)
    for which in (*((i,) for i in range(count)), *((i, j) for i in range(count) for j in range(i, count))):
        p, q = math.prod(one[i] for i in which), math.prod(other[i] for i in which)
        if p and q and a % p == 0 and b % q == 0 and a // p == b // q:
            return *(Size(((i, 1),), 0) for i in which), *(fixed(a // p) if a != p else ())
    linear = [Size(((i, c),), a - c * one[i]) for i in range(count) if (c := _slope(a, b, one[i], other[i]))]
    # A length - 1 sooner than four batches + 1, a sum of two sooner than five batches + 3.
    linear.sort(key=lambda f: (f.terms[0][1], abs(f.constant)))
    sums = [
        Size(((j, 1), (i, 1)), a - one[i] - one[j])
        for i in range(count) for j in range(i) if a - b == one[i] + one[j] - other[i] - other[j]
    ]
    near = [f for f in linear if abs(f.constant) <= _NEAR]
    if near and near[0].terms[0][1] == 1:
        return (near[0],)
    if near := [f for f in sums if abs(f.constant) <= _NEAR] + near:
        return (near[0],)
    for i in range(count):  # as batch * (length - 1) * features, of a sequence and what follows each element
        for j in range(count):
            if i == j or not one[i] or not other[i] or a % one[i] or b % other[i]:
                continue
            each, c = a // one[i], _slope(a // one[i], b // other[i], one[j], other[j])
            if c and each % c == 0 and abs(each // c - one[j]) <= _NEAR:
                sizes = [Size(((s, 1),), each // c - one[j] if s == j else 0) for s in sorted((i, j))]
                return *sizes, *(fixed(c) if c != 1 else ())
    found = linear + sums
    return (found[0],) if found else None


def _slope(a, b, one, other):
    """How often a size is contained in what changes with it: a positive integer, or None."""
    change, factor = a - b, one - other
    if factor and change % factor == 0 and change // factor > 0:
        return change // factor
    return None
