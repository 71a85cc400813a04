"""A jaxpr interpreter by the host tier's rules, without XLA: for sizes that never came before, and to debug.

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
from jax.extend.core import ClosedJaxpr, Jaxpr

from ..core import jaxprs
from ..core.jax_scope import scoped_trace
from .rules import RULES, Form, MissingRule, find


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


class _Places(jaxprs.Walk):
    """Turns a jaxpr into steps; values are places in the list ``initial``, which has the constants.

    Attributes:
        steps: (run, places of the operands, places of the results, to forget).
    """

    def __init__(self, fallback):
        self.initial: list = []
        self.steps: list = []
        self.fallback = fallback

    def place(self, value=None):
        self.initial.append(value)
        return len(self.initial) - 1

    def constant(self, value):
        return self.place(np.asarray(value))

    def equation(self, eqn, given):
        if (closed := meant(eqn)) is not None:
            return self.call(eqn, closed, given)
        run, sizes = step_of(eqn, self.fallback)
        given += [self.place(size) for size in sizes]
        results = [self.place() for _ in eqn.outvars]
        self.steps.append((run, given, results, []))
        return results


class _Compiled:
    """A jaxpr as a list of steps, see `_Places`."""

    __slots__ = ("constants", "steps", "initial", "inputs", "outputs", "__weakref__")

    def __init__(self, closed, fallback):
        self.constants = closed.consts
        places = _Places(fallback)
        self.inputs = [places.place() for _ in closed.jaxpr.invars]
        self.outputs = places.run(closed.jaxpr, closed.consts, self.inputs)
        self.initial, self.steps = places.initial, places.steps
        self._forget()

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


def meant(eqn) -> ClosedJaxpr | None:
    """What a primitive of the package's without a rule (for its dtype) means; None for any other."""
    rule = RULES.get(eqn.primitive.name)
    if rule is not None and (rule.dtypes is None or np.dtype(eqn.invars[0].aval.dtype) in rule.dtypes):
        return None
    return jaxprs.meaning(eqn)


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
    return scoped_trace(jax.jit(lambda *arrays: primitive.bind(*arrays, **bound)))


def missing(jaxpr) -> set[str]:
    """The primitives in a jaxpr, and in those that it calls, that have no rule."""
    names = set()
    for eqn in jaxpr.eqns:
        if jaxprs.called(eqn) is None and meant(eqn) is None and eqn.primitive.name not in RULES:
            names.add(eqn.primitive.name)
        for found in jaxprs.inner(eqn.params.values()):
            names |= missing(getattr(found, "jaxpr", found))
    return names
