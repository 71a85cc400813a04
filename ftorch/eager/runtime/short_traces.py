"""Dispatch of short traces: on the CPU they run on the host tier, whether their sizes are new or not.

A program of XLA's takes some ten microseconds before it computes anything. A comparison in an ``if``, an index and
``item``, or a policy of three layers compute for less. So a trace of few steps that give few elements gets a function
of its own when it comes again: the steps of its plans, elementwise ones fused (`trace_programs`), with their sizes as
constants. What takes long on the host, as the sum of a large array does, is left to `program.execute`, unless a compiled
program takes longer.
"""

from __future__ import annotations

import contextlib
from time import perf_counter
from typing import Any

import jax
import numpy as np

from ..core import device as _device
from ..host.rules import MissingRule
from . import host_tier, program
from .counters import stats
from .size_fit import NotGeneral
from .trace_programs import TraceProgram

_MOST_STEPS = 40
_MOST_ELEMENTS = 1 << 14  # that all steps give together
_LEAST_SEEN = 2  # as often a trace comes before it gets a function
_WAITS = 20  # as often one of a size class runs as the class does, before its sizes are known to stay
_TRIALS = 12  # runs whose time is looked at
_LIMIT, _LIMIT_STEP = 2e-5, 1.5e-6  # seconds that a trace, and each of its steps, may take
_MOST = 2048  # traces known

_int64, _float64, _complex128 = np.int64, np.float64, np.complex128
_errstate = np.errstate
known: dict[tuple, Any] = {}
# Hashes of traces that came once: most of new sizes never come again, and should not keep their plans.
_once: dict[int, None] = {}


class ShortTrace:
    """A short trace.

    Attributes:
        seen: how often it came.
        run: (inputs, None, numbers) -> the live values; None: it did not come often enough; False: it is not run so.
        kinds: of its numbers.
        best: the shortest time that it took.
        function: ``run``, while the time is measured that `program.execute` takes; ``left``: runs to be measured.
        waits: runs until it gets a function: to make one costs as much as it saves in some twenty, and a trace of a size
            class has one for all sizes (`trace_programs`).
    """

    __slots__ = ("seen", "run", "kinds", "best", "function", "left", "other", "waits")

    def __init__(self, code):
        self.seen, self.kinds, self.best, self.other = 0, "", 1.0, 1.0
        elements = sum([g.numel for plan in code if plan.__class__ is not int for g in plan.geometries])
        self.run: Any = None if elements <= _MOST_ELEMENTS else False
        self.function: Any = None
        self.left = 0
        self.waits = _WAITS if any([item.__class__ is not int and item.instance is not None for item in code]) else 0


def execute(device, code, inputs, ints, floats, steps, live, keep, replaced, again, finished):
    """Runs a trace: as a short one if it is one, else see `program.execute`."""
    short = None
    if steps <= _MOST_STEPS and not again and live and device is _device.CPU and not _device.forked[0]:
        short = _find(code, live)
        if short is not None and short.run is not False:
            found = _results(short, code, live, inputs, ints, floats)
            if found is not None:
                finished += (None, found)
                stats.programs += 1
                return
    if short is None or short.function is None:
        program.execute(device, code, inputs, ints, floats, steps, live, keep, replaced, again, finished)
        return
    compilations, start = stats.hits, perf_counter()
    program.execute(device, code, inputs, ints, floats, steps, live, keep, replaced, again, finished)
    if stats.hits > compilations:  # it was compiled before
        _compare(short, start, finished[1])


def _find(code, live):
    """What is known of a trace; None if it comes for the first time."""
    key = (*code, None, *live)
    short = known.get(key)
    if short is None:
        mark = hash(key)
        if mark not in _once:
            _note(_once, mark, None)
            return None
        short = ShortTrace(code)
        short.seen = 1
        _note(known, key, short)
    return short


def note_once(code, live):
    """Notes, here and in `program`, that a trace came for the first time: it ran in C."""
    _note(_once, hash((*code, None, *live)), None)
    program.note_once(code, live)


def _note(table, key, value):
    if len(table) >= _MOST:
        with contextlib.suppress(StopIteration, RuntimeError):  # another thread was here
            table.pop(next(iter(table)), None)
    table[key] = value


def _compare(short, start, arrays):
    """Notes the time of a compiled program, which may be longer than on the host."""
    jax.block_until_ready(arrays)
    short.other = min(short.other, perf_counter() - start)
    short.left -= 1
    if short.left <= 0:
        if short.best < short.other:
            short.run = short.function
        short.function = None


def _results(short, code, live, inputs, ints, floats):
    """The live values of a trace, or None: it is to be run otherwise."""
    run = short.run
    short.seen += 1
    if run is None:
        if short.seen <= _LEAST_SEEN or not host_tier.ENABLED:
            return None
        if short.waits:
            short.waits -= 1
            short.seen = _LEAST_SEEN
            return None
        run = _prepare(short, code, live)
        if run is False:
            return None
    numbers: Any = ()
    kinds = short.kinds
    if kinds:
        if kinds == "f":
            numbers = (_float64(floats[0]),)
        elif kinds == "i":
            numbers = (_int64(ints[0]),)
        else:
            numbers = _numbers(kinds, iter(ints), iter(floats))
    try:
        if short.seen > _TRIALS:
            with _errstate(all="ignore"):
                return run(inputs, None, numbers)
        start = perf_counter()
        with _errstate(all="ignore"):
            found = run(inputs, None, numbers)
        short.best = min(short.best, perf_counter() - start)
        if short.seen == _TRIALS:
            steps = sum([item.__class__ is not int for item in code])
            if short.best > _LIMIT + steps * _LIMIT_STEP:
                short.run, short.function, short.left = False, run, _TRIALS
        return found
    except Exception:  # the executor runs the steps one by one, and tells what came from outside from what they raise
        short.run = False
        raise


def _prepare(short, code, live):
    try:
        made = TraceProgram(code, live, True)
    except (MissingRule, NotGeneral, ValueError):  # the last: elementwise steps of mixed dtypes
        short.run = False
    else:
        short.run, short.kinds = made.function, made.kinds
    return short.run


def _numbers(kinds, ints, floats):
    return [
        _float64(next(floats)) if kind == "f" else _int64(next(ints)) if kind == "i"
        else _complex128(complex(next(floats), next(floats)))
        for kind in kinds
    ]
