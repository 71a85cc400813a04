"""A traced program as one list of steps: what inner functions compute stands where they are called."""

from __future__ import annotations

from typing import Any, NamedTuple

from jax.extend.core import ClosedJaxpr, Literal

from .. import computed_once
from . import rnn

_CALLS = ("pjit", "jit", "closed_call", "core_call")


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
        self.outputs = self._add(closed, self.inputs, False)
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

    def _add(self, closed, inputs, once):
        jaxpr = closed.jaxpr
        names: dict[Any, Any] = dict(zip(jaxpr.invars, inputs, strict=True))
        for variable, value in zip(jaxpr.constvars, closed.consts, strict=True):
            names[variable] = name = object()
            self.constants[name] = value

        def of(atom):
            return atom if isinstance(atom, Literal) else names[atom]

        for eqn in jaxpr.eqns:
            given, inner = [of(atom) for atom in eqn.invars], _called(eqn)
            if inner is None:
                found = [object() for _ in eqn.outvars]
                self.steps.append(Step(eqn, given, found, once))
            else:
                found = self._add(inner, given, eqn.params.get("name") == computed_once.__name__)
            names.update(zip(eqn.outvars, found, strict=True))
        return [of(atom) for atom in jaxpr.outvars]

    def _drop_unread(self):
        """What nobody reads is no user of what it reads: the loss itself, where its gradient is wanted."""
        read, kept = set(map(id, self.outputs)), []
        for step in reversed(self.steps):
            if step.eqn.effects or any(id(name) in read for name in step.outputs):
                kept.append(step)
                read.update(map(id, step.inputs))
        self.steps = kept[::-1]

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


def _called(eqn):
    """The function that an equation calls, if its steps are to stand here."""
    if eqn.primitive.name not in _CALLS or rnn.is_loop(eqn):
        return None
    inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    return inner if isinstance(inner, ClosedJaxpr) else None
