"""Jaxpr traversal, for all who do it: which primitives only call a jaxpr, literals, dead code.

They are the host tier (`host.interpret`), programs of all sizes (`runtime.jaxpr_classes`), the pass over programs for
the CPU (`native.passes.inlining`), padded programs (`dynamic_shapes.padded`) and ONNX; `jax_internals.bind` executes an
equation as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

# Primitives that stand for the jaxpr that they call, by the parameter that holds it: those that compile it ...
PLAIN_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"}
# ... and those that say besides how it is differentiated.
CALLS = {
    **PLAIN_CALLS, "remat": "jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr", "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr", "custom_vjp_call_jaxpr": "fun_jaxpr", "custom_lin": "call_jaxpr",
}


def called(eqn, calls: dict[str, str] = CALLS) -> ClosedJaxpr | None:
    """The jaxpr that an equation calls as it is, or None."""
    name = calls.get(eqn.primitive.name)
    found = None if name is None else eqn.params.get(name)
    if isinstance(found, Jaxpr) and not found.constvars:
        return ClosedJaxpr(found, ())
    return found if isinstance(found, ClosedJaxpr) else None


def meaning(eqn) -> ClosedJaxpr | None:
    """What a primitive of the package's own (`kernels._primitives.primitive`) computes, as a jaxpr; None for any other."""
    function = getattr(eqn.primitive, "meaning", None)
    if function is None:
        return None
    return jax.make_jaxpr(functools.partial(function, **eqn.params))(*[v.aval for v in eqn.invars])


def inner(values: Iterable) -> Iterator[ClosedJaxpr | Jaxpr]:
    """The jaxprs among an equation's parameters, those in tuples (branches) too."""
    for value in values:
        if isinstance(value, (ClosedJaxpr, Jaxpr)):
            yield value
        elif type(value) in (tuple, list):
            yield from inner(value)


_LOOPS = frozenset({"scan", "while", "cond"})


def has_loops(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr, or one within, has loops or branches: what `jax.disable_jit` traces otherwise, it unrolls them.

    >>> has_loops(jax.make_jaxpr(lambda x: jax.lax.fori_loop(0, 9, lambda i, y: y + x, x))(1.0).jaxpr)
    True
    """
    return any(
        eqn.primitive.name in _LOOPS
        or any(has_loops(getattr(held, "jaxpr", held)) for held in inner(eqn.params.values()))
        for eqn in jaxpr.eqns
    )


def literal(atom: Literal) -> np.ndarray:
    """A literal's value as an array of its dtype."""
    return np.asarray(atom.val, atom.aval.dtype)


def converted(number, dtype) -> Any:
    """A number in another dtype, as an inner call is given it, where NumPy's is XLA's; None for what else there is.

    >>> converted(np.float64(0.5), np.float32)
    np.float32(0.5)
    """
    value, dtype = np.asarray(number), np.dtype(dtype)
    if value.ndim or not (value.dtype == dtype or (value.dtype.kind in "biuf" and dtype.char in "fd")):
        return None
    return value.astype(dtype)[()]


def is_same(jaxpr, other) -> bool:
    """Whether two values are jaxprs that say the same, as those that JAX traced twice."""
    if not isinstance(jaxpr, (Jaxpr, ClosedJaxpr)) or jaxpr.__class__ is not other.__class__:
        return False
    constants = getattr(jaxpr, "consts", ()) or getattr(other, "consts", ())  # what these are is not said
    return not constants and str(jaxpr) == str(other)


def read_steps(steps: list, outputs: Iterable, parts: list[tuple]) -> tuple[list, set]:
    """(those of the steps that outputs need, in order; all values that are read).

    Args:
        outputs: values, hashable.
        parts: of each step: (the values it makes, those it reads, whether it stays even if nobody reads what it makes).
    """
    read, kept = set(outputs), []
    for step, (made, given, stays) in zip(reversed(steps), reversed(parts), strict=True):
        if stays or not read.isdisjoint(made):
            kept.append(step)
            read.update(given)
    return kept[::-1], read


def variables(atoms: Iterable) -> list:
    """The variables among atoms, without literals."""
    return [atom for atom in atoms if not isinstance(atom, Literal)]


def read_equations(jaxpr: Jaxpr, outputs: Iterable | None = None) -> tuple[list, set]:
    """(the equations that a jaxpr's outputs, or some, need, in order; all variables that are read)."""
    parts = [(eqn.outvars, variables(eqn.invars), False) for eqn in jaxpr.eqns]
    return read_steps(jaxpr.eqns, variables(jaxpr.outvars if outputs is None else outputs), parts)


class Walk:
    """Goes through a jaxpr, and through those that it calls, in whatever a subclass takes for values.

    Attributes:
        calls: the primitives whose jaxprs stand in their place.

        >>> import jax, jax.numpy as jnp
        >>> class Names(Walk):
        ...     def equation(self, eqn, given):
        ...         print(eqn.primitive.name, *given)
        ...         return [eqn.primitive.name]
        >>> closed = jax.make_jaxpr(lambda x: jax.jit(jnp.tanh)(x) + 1)(1.0)
        >>> Names().run(closed.jaxpr, closed.consts, ["x"])
        tanh x
        add tanh 1.0
        ['add']
    """

    calls = CALLS

    def constant(self, value):
        """The value for a constant."""
        return value

    def literal(self, atom: Literal):
        """The value for a literal."""
        return self.constant(literal(atom))

    def called(self, eqn, given) -> ClosedJaxpr | None:
        """The jaxpr that stands in the place of an equation, or None."""
        return called(eqn, self.calls)

    def call(self, eqn, closed: ClosedJaxpr, given: list) -> list:
        """The results of an equation that calls a jaxpr."""
        return self.run(closed.jaxpr, closed.consts, given)

    def equation(self, eqn, given: list) -> list:
        """The results of any other equation: what a subclass is for."""
        raise TypeError(f"{type(self).__name__} does not say what an equation gives")

    def run(self, jaxpr: Jaxpr, constants, inputs) -> list:
        """The values of the outputs."""
        values: dict[Any, Any] = dict(zip(jaxpr.constvars, map(self.constant, constants), strict=True))
        values.update(zip(jaxpr.invars, inputs, strict=True))

        def of(atom):
            return self.literal(atom) if isinstance(atom, Literal) else values[atom]

        for eqn in jaxpr.eqns:
            given = [of(atom) for atom in eqn.invars]
            closed = self.called(eqn, given)
            results = self.equation(eqn, given) if closed is None else self.call(eqn, closed, given)
            values.update(zip(eqn.outvars, results, strict=True))
        return [of(atom) for atom in jaxpr.outvars]


__all__ = [
    "CALLS", "PLAIN_CALLS", "Walk", "called", "converted", "has_loops", "inner", "is_same", "literal", "meaning",
    "read_equations", "read_steps", "variables",
]
