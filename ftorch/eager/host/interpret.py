"""Running a jaxpr by the rules, without XLA: for sizes that never came before, and to debug.

    >>> import jax, jax.numpy as jnp, numpy as np
    >>> closed = jax.make_jaxpr(lambda x: jnp.tanh(x).sum(0))(np.ones((2, 3), np.float32))
    >>> [r] = evaluate(closed, np.zeros((2, 3), np.float32))
    >>> r
    array([0., 0., 0.], dtype=float32)
"""

from __future__ import annotations

import functools
import weakref

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from .rules import RULES, Form, MissingRule, find

# Primitives that stand for the jaxpr that they call, by the parameter that holds it.
CALLS = {
    "jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr", "remat": "jaxpr",
    "checkpoint": "jaxpr", "remat2": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr", "custom_lin": "call_jaxpr",
}


def evaluate(closed: ClosedJaxpr, *arrays, fallback: bool = False) -> list[np.ndarray]:
    """The results of a jaxpr, whose shapes are those of the arrays.

    Args:
        closed: with concrete shapes.
        arrays: NumPy arrays (or what becomes one), one for each of its inputs.
        fallback: whether primitives without a rule run as XLA's programs of one step.

    Raises:
        MissingRule: if a primitive has no rule, unless ``fallback``.
    """
    run = compiled(closed, fallback)
    with np.errstate(all="ignore"):
        return run(*map(np.asarray, arrays))


def compiled(closed: ClosedJaxpr, fallback: bool = False):
    """``run(*arrays) -> list of results`` of a jaxpr, kept as long as it lives. See `evaluate`."""
    known = _compiled[fallback].get(closed.jaxpr)
    if known is None or known.constants is not closed.consts:
        known = _Compiled(closed, fallback)
        _compiled[fallback][closed.jaxpr] = known
    return known


_compiled = {False: weakref.WeakKeyDictionary(), True: weakref.WeakKeyDictionary()}


class _Compiled:
    """A jaxpr as a list of steps: (run, places of the operands, places of the results, to forget)."""

    __slots__ = ("constants", "steps", "initial", "inputs", "outputs", "__weakref__")

    def __init__(self, closed, fallback):
        self.constants = closed.consts
        self.initial: list = []
        self.steps: list = []
        places: dict = {}
        for variable, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            places[variable] = self._constant(np.asarray(value))
        self.inputs = [self._place(places, v) for v in closed.jaxpr.invars]
        self._add(closed.jaxpr, places, fallback)
        self.outputs = [self._read(places, atom) for atom in closed.jaxpr.outvars]
        self._forget()

    def _constant(self, value):
        self.initial.append(value)
        return len(self.initial) - 1

    def _place(self, places, variable):
        places[variable] = place = self._constant(None)
        return place

    def _read(self, places, atom):
        if isinstance(atom, Literal):
            return self._constant(literal(atom))
        return places[atom]

    def _add(self, jaxpr, places, fallback):
        for eqn in jaxpr.eqns:
            operands = [self._read(places, atom) for atom in eqn.invars]
            inner = called(eqn)
            if inner is not None:
                within = dict(zip(inner.jaxpr.invars, operands, strict=True))
                for variable, value in zip(inner.jaxpr.constvars, inner.consts, strict=True):
                    within[variable] = self._constant(np.asarray(value))
                self._add(inner.jaxpr, within, fallback)
                for variable, atom in zip(eqn.outvars, inner.jaxpr.outvars, strict=True):
                    places[variable] = self._read(within, atom)
                continue
            run, sizes = step_of(eqn, fallback)
            operands += [self._constant(size) for size in sizes]
            results = [self._place(places, v) for v in eqn.outvars]
            self.steps.append((run, operands, results, []))

    def _forget(self):
        """Says after which step a value is read no more."""
        kept = set(self.outputs)
        given = {place for _, _, results, _ in self.steps for place in results}.union(self.inputs)
        for _, operands, results, forgotten in reversed(self.steps):
            for place in (*operands, *results):
                if place in given and place not in kept:
                    kept.add(place)
                    forgotten.append(place)

    def __call__(self, *arrays):
        values = self.initial.copy()
        for place, array in zip(self.inputs, arrays, strict=True):
            values[place] = array
        for run, operands, results, forgotten in self.steps:
            result = run(*[values[i] for i in operands])
            if len(results) == 1 and result.__class__ is not tuple:
                values[results[0]] = result
            else:
                for place, value in zip(results, result, strict=True):
                    values[place] = value
            for place in forgotten:
                values[place] = None
        return [values[i] for i in self.outputs]


def literal(atom: Literal) -> np.ndarray:
    """A literal's value as an array of its dtype."""
    return np.asarray(atom.val, atom.aval.dtype)


def called(eqn) -> ClosedJaxpr | None:
    """The jaxpr that an equation calls as it is, or None."""
    name = CALLS.get(eqn.primitive.name)
    found = None if name is None else eqn.params.get(name)
    if isinstance(found, Jaxpr) and not found.constvars:
        return ClosedJaxpr(found, ())
    return found if isinstance(found, ClosedJaxpr) else None


def form(atom) -> Form:
    """The form of a variable or literal."""
    aval = atom.aval
    return Form(np.dtype(aval.dtype), len(aval.shape))


def step_of(eqn, fallback: bool = False):
    """(run, sizes) of an equation with concrete shapes.

    Raises:
        MissingRule: see `evaluate`.
    """
    name = eqn.primitive.name
    try:
        found = find(name)
        run = found.make(eqn.params, [form(v) for v in eqn.invars], [form(v) for v in eqn.outvars])
    except MissingRule:
        if not fallback:
            raise
        return xla_step(eqn.primitive, eqn.params), ()
    return run, [size_of(eqn, size) for size in found.sizes]


def size_of(eqn, name):
    """The value of one of a rule's sizes, from an equation with concrete shapes."""
    if name == "out_shape":
        return tuple(eqn.outvars[0].aval.shape)
    if name == "out_shapes":
        return tuple(tuple(v.aval.shape) for v in eqn.outvars)
    return eqn.params[name]


def body(jaxpr, fallback: bool = False):
    """`compiled` of a jaxpr with or without its constants."""
    return compiled(ClosedJaxpr(jaxpr, ()) if isinstance(jaxpr, Jaxpr) else jaxpr, fallback)


def xla_step(primitive, params):
    """``run(*arrays)`` of one primitive as a compiled program of XLA's, which JAX keeps by the shapes."""
    try:
        key = (primitive, tuple(sorted(params.items(), key=lambda item: item[0])))
        jitted = _jitted(key)
    except TypeError:  # a parameter that cannot be hashed
        jitted = _jitted.__wrapped__((primitive, tuple(params.items())))

    def run(*arrays):
        results = jitted(*arrays)
        if primitive.multiple_results:
            return tuple(map(np.asarray, results))
        return np.asarray(results)

    return run


@functools.lru_cache(1024)
def _jitted(key):
    primitive, params = key
    bound = primitive.get_bind_params(dict(params))
    return jax.jit(lambda *arrays: primitive.bind(*arrays, **bound))


def missing(jaxpr) -> set[str]:
    """The primitives in a jaxpr, and in those that it calls, that have no rule."""
    names = set()
    for eqn in jaxpr.eqns:
        if called(eqn) is None and eqn.primitive.name not in RULES:
            names.add(eqn.primitive.name)
        for value in jax.tree.leaves(list(eqn.params.values()), is_leaf=_is_jaxpr):
            if _is_jaxpr(value):
                names |= missing(getattr(value, "jaxpr", value))
    return names


def _is_jaxpr(value):
    return isinstance(value, (Jaxpr, ClosedJaxpr))
