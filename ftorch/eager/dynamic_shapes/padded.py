"""Padding: a traced program run on padded arrays serves all sizes up to those it was made for.

The interpreter walks two traces of one function of different sizes side by side. Where their shapes
differ a dimension varies. Its arrays are as long as the largest size; the true size is a number that the
program is given, and what comes behind is anything. Each operation has a rule (`padded_rules`) that
gives the true part of its result whatever lies behind the true part of its operands: sums fill with
zeros first, sorts put the rest last. An operation without a rule raises `Unknown`.

A dimension that `reshape` made of several has several `Factors`: the true part of (batch, time) as one
dimension is not the first part of it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Literal

from ..core import jaxprs
from ..core.jax_internals import bind
from .size_dependence import Factors, Size, fixed, infer, kept, product, same_parameters


class Unknown(Exception):
    """Nothing is known of how an operation goes on with padded operands."""


class Free(NamedTuple):
    """A dimension that varies, along which all is the same: the array has one element there.

    Attributes:
        lengths: in the two traces.
    """

    lengths: tuple[int, int]


class Value(NamedTuple):
    """An array, and for each of its dimensions `Factors` or `Free`."""

    array: Any
    dims: tuple[Any, ...]


def varies(dim) -> bool:
    """Whether a dimension varies."""
    return isinstance(dim, Free) or any(f.terms for f in dim)


def of_array(array) -> Value:
    """A value that does not vary."""
    return Value(array, tuple(fixed(n) for n in np.shape(array)))


class Pair:
    """An operation in the two traces."""

    def __init__(self, one, other):
        self.one, self.other = one, other
        self.name, self.params = one.primitive.name, one.params

    def shapes(self, k=0):
        """The shapes of a result."""
        return self.one.outvars[k].aval.shape, self.other.outvars[k].aval.shape

    def both(self, name):
        """A parameter."""
        return self.one.params[name], self.other.params[name]

    def is_whole(self, axis, lengths):
        """Whether a part of the first operand with the given lengths is all of it in a dimension."""
        return lengths == (
            self.one.invars[0].aval.shape[axis], self.other.invars[0].aval.shape[axis]
        )

    def unchanging(self, name):
        """A parameter that has to be the same."""
        a, b = self.both(name)
        if a != b:
            raise Unknown(f"{self.name} whose {name} varies")
        return a

    def bind(self, *arrays, **params):
        """The operation itself, with some parameters replaced; a list of results."""
        return list(bind(self.one, arrays, {**self.params, **params}))


class Padded:
    """The interpreter.

    Args:
        samples: the sizes that vary, in the two traces; ``lengths`` what they are padded to.
        real: what they are in a call, traced.
        scalars: {(id of an equation, which operand): the number that stands there in a call}.
    """

    def __init__(self, samples, lengths, real, scalars):
        self.samples, self.lengths, self.real, self.scalars = samples, lengths, real, scalars
        self.room = [0] * len(lengths)  # how much shorter than their arrays sizes have to be

    # --- dimensions

    def factors(self, lengths) -> Factors:
        """The dimension that has the given lengths in the two traces."""
        found = infer(lengths, self.samples)
        if found is None:
            raise Unknown(f"a length that is {lengths[0]} and {lengths[1]}")
        return found

    def padded(self, dim) -> int:
        """How long an array is in a dimension."""
        if isinstance(dim, Free):
            return 1
        for f in dim:
            if more := f.few(self.lengths):
                at = f.terms[0][0]
                self.room[at] = max(self.room[at], more)
        return kept(dim, self.lengths)

    def number(self, lengths):
        """An integer of the two traces as it is in a call."""
        return lengths[0] if lengths[0] == lengths[1] else self.true(self.factors(lengths))

    def true(self, dim: Factors):
        """How long it is in truth (traced)."""
        return product(dim, self.real)

    def inside(self, dim: Factors):
        """For each place of a dimension whether it is of the true part."""
        found = jnp.ones((1,), bool)
        for f in dim:
            n = f.kept(self.lengths)
            own = lax.iota(np.int32, n) < f.at(self.real) if f.terms else jnp.ones((n,), bool)
            found = (found[:, None] & own).reshape(-1)
        return found

    def mask(self, dims, axes, at=None, rank=None):
        """`inside` along several dimensions, to be broadcast to an array of them."""
        found: Any = np.True_
        for axis in axes:
            if varies(dims[axis]):
                place = axis if at is None else at[axis]
                own = self.inside(dims[axis])
                found = found & lax.broadcast_in_dim(
                    own, [own.size if i == place else 1 for i in range(rank or len(dims))], (place,)
                )
        return found

    def filled(self, v: Value, axes, number):
        """The array with a number behind the true part."""
        if not any(varies(v.dims[a]) for a in axes):
            return v.array
        return jnp.where(self.mask(v.dims, axes), v.array, jnp.asarray(number, v.array.dtype))

    def place(self, index, dim: Factors):
        """Where in an array the element of a true index is."""
        if len(dim) == 1:
            return index
        found: Any = 0
        for k, f in enumerate(dim):
            inner = math.prod((g.at(self.real) for g in dim[k + 1 :]), start=jnp.int64(1))
            digit = index // inner.astype(index.dtype)
            if k:
                digit = digit % jnp.asarray(f.at(self.real), index.dtype)
            found = found * f.kept(self.lengths) + digit
        return found

    def index(self, place, dim: Factors):
        """The true index of a place in an array: the reverse of `place`."""
        if len(dim) == 1:
            return place
        found, rest, weight = jnp.zeros_like(place), place, jnp.ones((), place.dtype)
        for f in reversed(dim):
            found = found + rest % f.kept(self.lengths) * weight
            rest = rest // f.kept(self.lengths)
            weight = weight * jnp.asarray(f.at(self.real), place.dtype)
        return found

    # --- values

    def spread(self, v: Value, dims) -> Value:
        """A value whose dimensions are what is given, where they vary."""
        array, new = v.array, list(v.dims)
        shape = list(array.shape)
        for i, (own, wanted) in enumerate(zip(v.dims, dims)):
            if isinstance(own, Free) and not isinstance(wanted, Free):
                new[i], shape[i] = wanted, self.padded(wanted)
        if shape != list(array.shape):
            array = lax.broadcast_in_dim(array, shape, range(len(shape)))
        for i, (own, wanted) in enumerate(zip(new, dims)):
            if own != wanted and not isinstance(own, Free) and not isinstance(wanted, Free) and varies(own):
                array, new[i] = self.relaid(array, i, own, wanted), wanted
        return Value(array, tuple(new))

    def relaid(self, array, axis, dim: Factors, wanted: Factors):
        """An array with one dimension of other factors, whose product is the same."""
        for sample in (*self.samples, self.lengths):
            if product(dim, sample) != product(wanted, sample):
                raise Unknown("dimensions of different lengths")
        places = self.place(self.index(jnp.arange(self.padded(wanted)), wanted), dim)
        return jnp.take(array, places, axis=axis, mode="clip")

    def plain(self, v: Value, axes) -> Value:
        """A value without free dimensions, whose true part is the first one along some axes."""
        v = self.settled(v)
        dims: list[Any] = list(v.dims)
        for axis in axes:
            if len(dims[axis]) > 1:
                terms = [f.terms for f in dims[axis] if f.terms]
                if len(terms) > 1 or any(f.terms and f.constant for f in dims[axis]):
                    raise Unknown("a dimension that is a product of several that vary")
                factor = math.prod(f.constant for f in dims[axis] if not f.terms)
                dims[axis] = (Size(tuple((s, c * factor) for s, c in terms[0]), 0),)
        return self.spread(v, dims)

    def settled(self, v: Value) -> Value:
        """A value without free dimensions."""
        return self.spread(
            v, [self.factors(d.lengths) if isinstance(d, Free) else d for d in v.dims]
        )

    def common(self, dims):
        """What several dimensions become: the first that is neither free nor a single element."""
        known = [d for d in dims if not isinstance(d, Free) and d != fixed(1)]
        if known:
            return known[0]
        return next((d for d in dims if isinstance(d, Free)), fixed(1))

    def fitted(self, v: Value) -> Value:
        """A value whose array is as long as its dimensions say: rules may have computed with true lengths."""
        lengths = tuple(map(self.padded, v.dims))
        if v.array.shape == lengths:
            return v
        plain = tuple(1 if isinstance(d, Free) else product(d, self.lengths) for d in v.dims)
        if v.array.ndim != len(plain) or any(n < k and n != m for n, m, k in zip(v.array.shape, plain, lengths)):
            return v
        if any(len(d) > 1 or not varies(d) for d, n, k in zip(v.dims, v.array.shape, lengths) if n != k):
            return v
        array = v.array[tuple(slice(n) for n in lengths)]
        return Value(jnp.pad(array, [(0, k - n) for n, k in zip(array.shape, lengths)]), v.dims)

    def check(self, pair, values):
        """That results have the shapes of the two traces."""
        for k, v in enumerate(values):
            for which, shape in enumerate(pair.shapes(k)):
                lengths = tuple(
                    d.lengths[which] if isinstance(d, Free)
                    else product(d, self.samples[which])
                    for d in v.dims
                )
                if lengths != tuple(shape):
                    raise Unknown(f"{pair.name}: {lengths} for {shape}")
            if tuple(v.array.shape) != tuple(map(self.padded, v.dims)):
                raise Unknown(f"{pair.name}: an array of {v.array.shape}")

    # --- the walk

    def run(self, one, other, consts, arguments):
        """The results of a traced function (``Jaxpr``) for `Value` arguments.

        Args:
            one, other: its two traces.
        """
        from . import padded_index, padded_kernels, padded_loops  # noqa: F401  (they register rules)
        from .padded_rules import RULES

        values: dict[Any, Value] = dict(zip(one.constvars, map(of_array, consts), strict=True))
        values.update(zip(one.invars, arguments, strict=True))
        used = set(map(id, jaxprs.read_equations(one)[0]))

        def read(holder, k, atom):
            if not isinstance(atom, Literal):
                return values[atom]
            lifted = self.scalars.get((id(holder), k))
            if lifted is None:
                return of_array(jaxprs.literal(atom))
            return of_array(lifted.astype(atom.aval.dtype))

        for eqn, twin in zip(one.eqns, other.eqns, strict=True):
            if id(eqn) not in used:
                continue
            pair = Pair(eqn, twin)
            given = [read(eqn, k, atom) for k, atom in enumerate(eqn.invars)]
            steady = not any(varies(d) for v in given for d in v.dims) and all(
                a.aval.shape == b.aval.shape for a, b in zip(eqn.outvars, twin.outvars)
            )
            if steady and same_parameters(eqn, twin):
                results = [of_array(a) for a in pair.bind(*[v.array for v in given])]
            else:
                rule = RULES.get(pair.name)
                if rule is None:
                    raise Unknown(pair.name)
                results = [self.fitted(v) for v in rule(self, pair, given)]
                self.check(pair, results)
            values.update(zip(eqn.outvars, results, strict=True))
        return [read(one, k, atom) for k, atom in enumerate(one.outvars)]
