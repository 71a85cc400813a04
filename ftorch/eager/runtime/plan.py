"""Plans of recorded steps: an array function whose results are known, how it runs by itself, and how long it is kept."""

from __future__ import annotations

import collections
from time import perf_counter
from typing import Any

import jax
import numpy as np

from ... import _arrays
from ..core import device as _device
from ..core import jax_internals
from ..core.geometry import Geometry
from ..core.suppressed_warnings import quiet as silenced
from ..memory import host_memory
from ..native.passes.rewrite import rewritten
from . import background, forked, host_tier, strided_steps
from .compilation import ROUNDED, accelerated
from .counters import stats
from .scalars import INT, NUMPY_SCALARS, packed, weak

COMPILE_STEP = 0.02  # seconds: what ran on the host is compiled once it took as long as the compilation will
_RUNS = 8  # of one step before it is compiled by itself
_CALL = 1e-5  # what XLA needs for the smallest program


class Plan:
    """One step: ``fn(*arrays, *scalars)`` gives an array, or a tuple of them.

    Attributes:
        geometries: of the results, one for each.
        scalars: the kinds of the scalar operands, as a string of "i", "f", "c".
        name: for error messages.
        op, backward: what `ftorch.eager.call.op` and the tape keep with a plan.
        element: what each element of the result is: a number, "scalar" (the plan's), or None if they differ.
        instance: its `size_classes.Instance`, if the results' shapes follow from a size class.
        program: its `ClassProgram` at its own sizes, if the host tier made one.
        pinned: whether a compiled program is found by it.
        spent, runs: seconds in which the host tier ran it, and how often.
        host: the step on NumPy arrays, (arrays, numbers) -> tuple; False where there is none; None: not known yet.
        writes: how an in-place call is done in memory (`inplace_writes.write_of`); None: not known yet.
        access: (`memory.view.Access`, whether it writes) of a read or write through strides.
        compiling: (function, its `background.Job`) while it is compiled beside.
        table, key: where it is kept (`remember`).
    """

    __slots__ = (
        "fn", "geometries", "geometry", "is_single", "scalars", "name", "device", "compiled",
        "op", "static", "inputs", "backward", "extra", "element", "instance", "host",
        "spent", "runs", "program", "pinned", "writes", "access", "compiling", "table", "key",
    )

    def __init__(self, fn, geometries: tuple[Geometry, ...], scalars: str, name: str, device,
                 is_single=True):
        self.fn = fn
        self.geometries = geometries
        self.geometry = geometries[0] if geometries else None
        self.is_single = is_single
        self.scalars = scalars
        self.name = name
        self.device = device
        self.compiled = None
        self.op: Any = None
        self.static: Any = None
        self.inputs: Any = None
        self.backward: Any = None
        self.extra: Any = None
        self.element: Any = None
        self.instance: Any = None
        self.host: Any = None
        self.spent, self.runs = 0.0, 0
        self.program: Any = None
        self.pinned = False
        self.writes: Any = None
        self.access: Any = None
        self.compiling: Any = None

    def __repr__(self):
        return f"<plan {self.name}>"

    def run(self, arrays, scalars, alone=False, quiet=False):
        """Runs the step by itself; always gives a tuple.

        Args:
            alone: whether it is a trace of one step: such a one may be compiled where the host has code for it, too.
            quiet: whether NumPy's warnings are off.
        """
        if self.element is not None:
            stats.programs += 1
            return (self._filled(scalars),)
        if _device.forked[0]:
            return forked.run_step(self, arrays, packed(self.scalars, scalars))
        compiled = self.compiled
        if compiled is None:
            if self.device is _device.CPU and (step := self.host or host_tier.step_of(self)) and not (
                alone and self._is_worth_compiling() and not self._waits(arrays, scalars)
            ):
                start = perf_counter()
                numbers = packed(self.scalars, scalars) if scalars and self.access is None else scalars  # views take Python's
                if quiet:
                    results = step([a if a.__class__ is np.ndarray else jax_internals.on_host(a) for a in arrays], numbers)
                else:
                    results = host_tier.run_step(step, arrays, numbers)
                self.spent += perf_counter() - start
                self.runs += 1
                return host_tier.checked(self, results, arrays) if host_tier.CHECKED else results
            compiled = self._compile()
        else:
            stats.hits += 1
        stats.programs += 1
        try:
            results = compiled(*arrays, *packed(self.scalars, scalars)) if scalars else compiled(*arrays)
        except RecursionError as error:
            if not jax_internals.is_busy(error):
                raise
            with jax_internals.apart():
                results = compiled(*arrays, *packed(self.scalars, scalars))
        return (results,) if self.is_single else results

    def is_fixed(self):
        """Whether the host tier has its code and it came before: steps of sizes that stay."""
        return self.program is not None and self.runs > 1 and self.compiled is None

    def _is_worth_compiling(self):
        """Whether runs on the host took as long as a compilation, and longer than XLA's call."""
        return self.runs >= _RUNS and self.spent > COMPILE_STEP and self.spent > self.runs * _CALL

    def _waits(self, arrays, scalars):
        """Whether the step goes on running on the host since it is being compiled beside."""
        compiling = self.compiling  # other threads run the step, too
        if compiling is None:
            if not background.is_possible():
                return False
            if background.has_room():
                function = self._jitted()
                operands = map(background.structure_of, (*arrays, *packed(self.scalars, scalars)))
                if (job := background.compile_beside(function, *operands)) is not None:
                    self.compiling = function, job
            return True
        return not compiling[1].poll()

    def _filled(self, scalars):
        """An array of one number, without XLA, which would compile a program for every shape."""
        kind, number = (self.scalars, scalars[0]) if self.element == "scalar" else (INT, self.element)
        dtype = self.geometry.dtype.numpy
        with np.errstate(over="ignore"):
            number = NUMPY_SCALARS[kind](number).astype(dtype)
        return _device.put(_arrays.filled(self.geometry.shape, number, dtype), self.device)

    def step(self):
        """A function of arrays, to be traced: ``fn`` with the scalars as JAX's weak numbers."""
        kinds, fn = self.scalars, self.fn

        def step(*operands):
            count = len(operands) - len(kinds)
            numbers = (weak(v, k) for v, k in zip(operands[count:], kinds))
            with silenced():
                return fn(*operands[:count], *numbers)

        step.__name__ = self.name
        return step

    def _jitted(self):
        step = self.step()
        stats.compilations += 1
        if self.device is _device.CPU:
            return jax.jit(rewritten(step, rounded=True), compiler_options=ROUNDED)
        return accelerated(step, self.device)

    def _compile(self):
        compiling, self.compiling = self.compiling, None
        self.compiled = self._jitted() if compiling is None else compiling[0]
        return self.compiled


def reading(way, result):
    """The plan of a read through strides (`memory.view.Access`), whose result has a given geometry."""
    plan = Plan(way.read, (result,), "i" * way.count, "view", result.device)
    plan.host, plan.access = strided_steps.reading(way), (way, False)
    return plan


def writing(way, root):
    """The plan of a write through strides into a storage with a given root."""
    plan = Plan(way.write, (root,), "i" * way.count, "copy_", root.device)
    plan.host, plan.access = strided_steps.writing(way), (way, True)
    return plan


_MOST_OF_ALL = 8192  # plans of all ops together: some 4 kB each with what derives from them
kept: collections.deque = collections.deque()  # plans, the oldest first


def remember(plans: dict, key, plan, most=512):
    """Keeps a plan. Where there are many, of one op or of all together, the oldest that no compiled program is found by
    go: sizes that came once.

    Args:
        plans: {key: plan}, or what else has ``pinned`` and ``compiled``.
    """
    plans[key] = plan
    host_memory.fragmentation.new_plan()
    plan.table, plan.key = plans, key
    kept.append(plan)
    for _ in range(len(kept) - _MOST_OF_ALL):
        _forget_oldest()
    for _ in range(len(plans) - most):
        if not _forget_one_of(plans):
            return


AT_ONCE = 64  # plans that calls in C keep by themselves before they come here with one


def remember_counted(plans, key, plan):
    """`remember` for all plans that C has kept since the last time."""
    host_memory.fragmentation.new_plan(AT_ONCE - 1)
    remember(plans, key, plan)


def _forget_one_of(plans):
    """Whether there was one among the oldest that may go."""
    try:
        for _ in range(8):
            oldest = next(iter(plans))
            held = plans.pop(oldest)
            if not held.pinned and held.compiled is None:
                return True
            plans[oldest] = held
    except (KeyError, RuntimeError, StopIteration):  # another thread was here
        pass
    return False


def _forget_oldest():
    try:
        plan = kept.popleft()
        plans, key = plan.table, plan.key
        if plans.get(key) is plan and not plan.pinned and plan.compiled is None:
            del plans[key]
    except (KeyError, IndexError):  # another thread was here
        return
