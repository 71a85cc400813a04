"""Inlining: a traced program as one list of steps, where what inner functions compute stands where they are called."""

from __future__ import annotations

from typing import Any, NamedTuple

from jax.extend.core import ClosedJaxpr, Literal

from ...core import jaxprs
from .. import computed_once
from . import rnn


class Step(NamedTuple):
    """An equation. Values have names of their own, since a function that is called twice has one jaxpr.

    Attributes:
        inputs: names, or literals.
        once: whether it stands in `computed_once`.
    """

    eqn: Any
    inputs: list
    outputs: list
    once: bool


class Flat:
    """A program's steps.

    Attributes:
        inputs, outputs: its names; an output may be a literal.
        constants: {name: value}.
        users: {name: the steps that read it, by their numbers; None: it is an output}, in order.
        maker: {name: the number of the step that gives it}.
        groups: see `groups.find`.
    """

    def __init__(self, closed: ClosedJaxpr):
        self.steps: list[Step] = []
        self.constants: dict[Any, Any] = {}
        self.inputs: list = [object() for _ in closed.jaxpr.invars]
        self._kinds = [[(a.shape, a.dtype) for a in avals] for avals in (closed.in_avals, closed.out_avals)]
        self.outputs = _Named(self).run(closed.jaxpr, closed.consts, self.inputs)
        self._drop_unread()
        self._constants_first()
        self.groups: dict[int, Any] = {}
        self.users: dict[Any, list] = {}
        self.maker: dict[Any, int] = {}
        for number, step in enumerate(self.steps):
            self.maker.update(dict.fromkeys(step.outputs, number))
            for name in step.inputs:
                if not isinstance(name, Literal):
                    self.users.setdefault(name, []).append(number)
        for name in self.outputs:
            if not isinstance(name, Literal):
                self.users.setdefault(name, []).append(None)

    def _drop_unread(self):
        """What nobody reads is no user of what it reads: the loss itself, where its gradient is wanted."""

        parts = [(s.outputs, [x for x in s.inputs if not isinstance(x, Literal)], bool(s.eqn.effects)) for s in self.steps]
        self.steps, _ = jaxprs.read_steps(self.steps, jaxprs.variables(self.outputs), parts)

    def _constants_first(self):
        """What depends on no input is there when a kernel asks for it: a factor that is made behind a product."""
        known, first, others = set(), [], []
        for step in self.steps:
            if not step.eqn.effects and all(isinstance(x, Literal) or id(x) in known for x in step.inputs):
                first.append(step)
                known.update(map(id, step.outputs))
            else:
                others.append(step)
        self.steps = first + others

    def laid_over(self, donated):
        """{output: the input whose memory JAX gives it}, the first of its kind among those ``donated`` (numbers)."""
        (given, wanted), found = self._kinds, {}
        free = [n for n in donated if self.inputs[n] in self.users]
        for name, kind in zip(self.outputs, wanted, strict=True):
            same = [n for n in free if given[n] == kind]
            if same:
                free.remove(same[0])
                if not isinstance(name, Literal):
                    found[name] = self.inputs[same[0]]
        return found

    def only_user(self, name):
        """The number of the step that alone reads a value, once; else None."""
        users = self.users.get(name, ())
        return users[0] if len(users) == 1 else None


class _Named(jaxprs.Walk):
    """Adds a jaxpr's equations to a program; values are names, or literals."""

    calls = jaxprs.PLAIN_CALLS

    def __init__(self, flat):
        self.flat = flat
        self.once = False

    def constant(self, value):
        name = object()
        self.flat.constants[name] = value
        return name

    def literal(self, atom):
        return atom

    def call(self, eqn, closed, given):
        before, self.once = self.once, eqn.params.get("name") == computed_once.__name__
        found = super().call(eqn, closed, given)
        self.once = before
        return found

    def equation(self, eqn, given):
        if eqn.primitive.name in rnn.LOOPS and not rnn.is_made(eqn):
            return self.call(eqn, jaxprs.meaning(eqn), given)
        results = [object() for _ in eqn.outvars]
        self.flat.steps.append(Step(eqn, given, results, self.once))
        return results
