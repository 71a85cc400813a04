"""Lowering: parts of a captured trace as XLA programs.

A trace is a flat list of steps (`ftorch.eager.runtime.trace.Trace`). A program takes what some of its
operands hold and gives others: of the steps, just those that these need.
"""

from __future__ import annotations

import contextlib
import gc
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.errors import JaxRuntimeError

from ...eager.core import callback_errors, jax_internals
from ...eager.core import device as _device
from ...eager.core.errors import is_of_memory, translate_error
from ...eager.core.jax_scope import scoped
from ...eager.core.suppressed_warnings import quiet
from ...eager.memory.host_memory import free_memory
from ...eager.memory.program_inputs import for_programs
from ...eager.runtime import compilation as _compilation
from ...eager.runtime import donation, forked
from ...eager.runtime.counters import stats
from ...eager.runtime.plan import Plan
from ...eager.runtime.program import Risk
from ...eager.runtime.scalars import COMPLEX, FLOAT, INT, weak
from ...eager.runtime.stepwise import is_only_once
from ...eager.runtime.trace_code import counts_of_numbers, steps_of

# Reads through strides, and constants, are computed again rather than kept for the backward pass.
_CHEAP = frozenset(("view", "full", "zeros", "ones", "empty", "arange"))


class Step(NamedTuple):
    """A step: its operands (slots, or ``-1 - input``), first result slot and first numbers."""

    plan: Plan
    operands: tuple[int, ...]
    slot: int
    int_at: int
    float_at: int


class Table:
    """The steps of a trace, which one makes a slot, and the geometries of its inputs."""

    def __init__(self, trace):
        self.steps: list[Step] = []
        self.maker: dict[int, int] = {}
        self.ints, self.floats = list(trace.ints), list(trace.floats)
        self.roots = [cell.root for cell in trace.cells]
        slot = int_at = float_at = 0
        for plan, operands in steps_of(trace.code):
            self.steps.append(Step(plan, tuple(operands), slot, int_at, float_at))
            for k in range(slot, slot + len(plan.geometries)):
                self.maker[k] = len(self.steps) - 1
            slot += len(plan.geometries)
            if plan.scalars:
                ints, floats = counts_of_numbers(plan)
                int_at, float_at = int_at + ints, float_at + floats

    def needed(self, outputs, given=()):
        """(the indices of the steps that outputs need, in order; the operands they start from).

        Args:
            outputs, given: operands; what is given is not computed.
        """
        given = set(given)
        indices: set[int] = set()
        starts: dict[int, None] = {}
        stack = list(outputs)
        while stack:
            operand = stack.pop()
            if operand < 0 or operand in given:
                starts[operand] = None
                continue
            index = self.maker[operand]
            if index not in indices:
                indices.add(index)
                stack.extend(self.steps[index].operands)
        return sorted(indices), sorted(starts, key=lambda o: (o >= 0, abs(o)))

    def residuals(self, outputs, forward_slots: int):
        """The forward slots that have to be kept to compute outputs afterwards."""
        indices, _ = self.needed(outputs)
        after = [self.steps[i] for i in indices if self.steps[i].slot >= forward_slots]
        kept: dict[int, None] = {}
        stack = [o for s in after for o in s.operands] + [o for o in outputs]
        seen = set()
        while stack:
            operand = stack.pop()
            if operand < 0 or operand >= forward_slots or operand in seen:
                continue
            seen.add(operand)
            step = self.steps[self.maker[operand]]
            if step.plan.name in _CHEAP:
                stack.extend(step.operands)
            else:
                kept[operand] = None
        return sorted(kept)


class Lowered:
    """A program: ``run(arrays, numbers)`` gives the outputs' arrays.

    Attributes:
        starts: the operands whose arrays it takes, in order.
        donated: positions in ``starts`` whose memory it may take over.
        order: of the outputs in the compiled program: first those that replace what is donated.
        function: the same as a function of arrays, for JAX.
        code: the steps it has.
    """

    def __init__(self, table: Table, outputs, *, given=(), donated=(), replaced=None, varying=(),
                 device=None):
        self.outputs = list(outputs)
        indices, self.starts = table.needed(self.outputs, given)
        self.steps = [table.steps[i] for i in indices]
        self.table = table
        self.device = device
        free = {o: p for p, o in enumerate(self.starts) if o in set(donated)}
        before = [-1] * len(self.outputs)
        for operand, place in (replaced or {}).items():
            before[place] = free.get(operand, -1)
        self.donated, self.order = _compilation.paired(tuple(free.values()), before)
        taken = set(self.donated)
        self.kept = [p for p in range(len(self.starts)) if p not in taken]
        varying = dict.fromkeys(varying)
        used = [
            k for s in self.steps for k in range(s.float_at, s.float_at + _floats(s.plan.scalars))
            if k in varying
        ]
        self.varying = {k: n for n, k in enumerate(used)}
        self.places = np.array(used, np.int64) if used else None
        self._last: tuple = (None, None)  # the numbers of the last call, and their array once they came twice
        self._jitted: Any = None
        self._of_backend = False  # a backend's function, not one of JAX's
        self._ran = False
        self._places: Any = None
        self._padding: Any = None
        self._risk: Any = None
        self._sparing: Any = None
        self.family = None  # see `ftorch.eager.dynamic_shapes.families`

    @property
    def avals(self):
        """Shapes and dtypes of the arrays that it takes."""
        found = []
        for operand in self.starts:
            if operand < 0:
                root = self.table.roots[-1 - operand]
            else:
                step = self.table.steps[self.table.maker[operand]]
                root = step.plan.geometries[operand - step.slot]
            found.append(jax.ShapeDtypeStruct(root.shape, root.dtype.numpy))
        return found

    @property
    def numbers_avals(self):
        """Those of its numbers; None where none varies."""
        return None if self.places is None else jax.ShapeDtypeStruct(self.places.shape, np.float64)

    @property
    def step_count(self):
        """Of how many steps it is made."""
        return len(self.steps)

    def function(self, arrays, numbers=None):
        """The outputs for the arrays of ``starts``."""
        table, varying = self.table, self.varying
        values = dict(zip(self.starts, arrays))
        with quiet():
            for step in self.steps:
                scalars, i, f = [], step.int_at, step.float_at
                for kind in step.plan.scalars:
                    if kind == INT:
                        scalars.append(weak(np.int64(table.ints[i]), INT))
                        i += 1
                    elif kind == FLOAT:
                        scalars.append(weak(self._float(f, numbers, varying), FLOAT))
                        f += 1
                    else:
                        value = complex(table.floats[f], table.floats[f + 1])
                        scalars.append(weak(np.complex128(value), COMPLEX))
                        f += 2
                results = step.plan.fn(*[values[o] for o in step.operands], *scalars)
                if step.plan.is_single:
                    values[step.slot] = results
                else:
                    for k, result in enumerate(results):
                        values[step.slot + k] = result
        return [values[o] for o in self.outputs]

    def _float(self, position, numbers, varying):
        at = varying.get(position)
        if at is None:
            return np.float64(self.table.floats[position])
        return _compilation.element(numbers, at)

    @scoped
    def call(self, kept, given, numbers, finished=None):
        """The outputs' arrays.

        Args:
            kept, given: the arrays of ``kept`` and of ``donated``.
            finished: a list that gets what the program gives the moment it has run, so that it is not
                lost to an exception that comes then; `results` makes the outputs of it.
        """
        finished = [] if finished is None else finished
        if _device.forked[0]:
            finished.append(self._without_xla(kept, given, numbers))
            return self.results(finished[0])
        with quiet() if given and not self._ran else _nothing:  # JAX says so when memory that is offered cannot be used
            self._run(kept, given, numbers, finished)
        self._ran = True
        return self.results(finished[0])

    def _run(self, kept, given, numbers, finished):
        function = self.jitted()
        if self._padding is not None:
            operands = self._padding.operands(kept, given, numbers)
        else:
            operands = (for_programs(kept, self.device or _device.CPU), given, numbers)
        may_fail = self.may_fail()
        if may_fail and given and self._padding is None:
            function = self._sparing = self._sparing or self._compiled(donates=False)
        elif not self._ran and given and not self._of_backend:
            kept, given, *rest = operands
            operands = (kept, donation.prepare(function, kept, given, rest, self.device), *rest)
        try:
            if may_fail:
                finished.append(jax.block_until_ready(function(*operands)))
            else:
                finished.extend(map(function, *[(operand,) for operand in operands]))
        except Exception as error:
            own = callback_errors.original(error)
            if own is not None:
                raise own from None
            if jax_internals.is_busy(error):  # it has not begun
                with jax_internals.apart():
                    return self._run(kept, given, numbers, finished)
            if not is_of_memory(error):
                raise
            gc.collect()  # what an earlier capture that failed has left
            free_memory.let_go()
            # What other processes take part in is not done twice: they would take it for their next.
            if not may_fail or any(is_only_once(step.plan) for step in self.steps):
                raise translate_error(error) from None
            try:
                finished.append(jax.block_until_ready(function(*operands)))
            except JaxRuntimeError as again:
                raise translate_error(again) from None

    def _without_xla(self, kept, given, numbers):
        arrays: list[Any] = [None] * len(self.starts)
        for p, a in (*zip(self.kept, kept), *zip(self.donated, given)):
            arrays[p] = a
        self._padding, self._places = None, None  # of the parent's program
        return forked.run_function(self.function, (arrays, numbers), "a compiled function")

    def results(self, raw):
        """The outputs in order, given what the program gave."""
        if self._padding is not None:
            raw = self._padding.results(raw)
        return raw if self._places is None else [raw[i] for i in self._places]

    def may_fail(self):
        """Whether nothing is given away and the program waited for: it calls Python back, or may want more memory
        than there is."""
        if self._risk is None:
            places: dict[int, int] = {}  # of the steps' results, counted as in a trace that has these steps only
            for s in self.steps:
                for k in range(len(s.plan.geometries)):
                    places[s.slot + k] = len(places)
            code = [item for s in self.steps for item in (s.plan, *[places.get(o, -1) for o in s.operands])]
            self._risk = Risk(code, [places[o] for o in self.outputs if o in places])
        return not self._risk.is_none and self._risk.may_fail(self.device or _device.CPU)

    def jitted(self):
        """The compiled function of (arrays that are kept, arrays that are given away, numbers); see `results`."""
        if self._jitted is None and self.family is not None:
            found = self.family(self)
            if found is not None:
                self._jitted, self._padding = found.run, found
        if self._jitted is None:
            self._jitted = self._compiled(donates=bool(self.donated))
            if list(self.order) != sorted(self.order):
                self._places = _compilation.places(self.order)
        return self._jitted

    def _compiled(self, donates):
        stats.compilations += 1
        kept_at, given_at, count = self.kept, self.donated, len(self.starts)

        def program(kept, given, numbers):
            arrays = [None] * count
            for p, a in zip(kept_at, kept):
                arrays[p] = a
            for p, a in zip(given_at, given):
                arrays[p] = a
            results = self.function(arrays, numbers)
            return [results[place] for place in self.order]

        return _compilation.jitted(program, donates=donates, device=self.device or _device.CPU, steps=len(self.steps))

    def numbers(self, floats):
        """The numbers that vary, out of the trace's: an array on the device where they are those of the call before."""
        if self.places is None:
            return None
        found = floats[self.places]
        values = found.tobytes()
        if values == self._last[0]:
            if self._last[1] is None:
                self._last = values, _compilation.put(found, self.device)
            return self._last[1]
        self._last = values, None
        return found


_nothing = contextlib.nullcontext()


def _floats(kinds):
    return sum(0 if k == INT else 1 if k == FLOAT else 2 for k in kinds)
