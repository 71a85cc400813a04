"""Shape sharing of eager traces on accelerators: those whose sizes vary share padded programs.

A trace of new sizes would be compiled, which takes seconds. It is traced instead, and where it is a trace that came before
but for the sizes, one program for the largest sizes makes its calls, too (`families`): a loop over 500 lengths compiles a
handful. What comes often at one size gets a program of its own, which need not pad or mask. Shared programs take over
no memory: their results are cut to size when they are there, and an interrupt in between would lose what was given.

With ``FTORCH_HOST_TIER=padded`` the CPU does the same (for tests).
"""

from __future__ import annotations

import collections

import jax
import numpy as np

from ..core import device as _device
from ..core import forking
from ..runtime import compilation, program
from .families import Family

_RUNS = 16  # of one size by a shared program before it is compiled by itself
_MOST = 256  # kinds of traces known
_families: collections.OrderedDict[tuple, Family] = collections.OrderedDict()
_lock = forking.rlock()


def forget() -> None:
    """Lets go of all shared programs: something that they depend on has changed."""
    with _lock:
        _families.clear()


class _Trace:
    """A trace as a family takes it (`families.Unlowered`)."""

    donated = ()

    def __init__(self, device, code, live, inputs, ints, floats):
        self.device = device
        self.avals = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in inputs]
        self.numbers_avals = _numbers(ints, floats, jax.ShapeDtypeStruct)
        self.kept, self.order = range(len(inputs)), list(range(len(live)))
        self.step_count = compilation.count_steps(code)
        self._function = compilation.function_of(code, live)

    def function(self, arrays, numbers):
        """The live values."""
        return self._function(arrays, *numbers)


def _numbers(ints, floats, make):
    return make((len(ints),), np.int64) if ints else None, make((len(floats),), np.float64) if floats else None


def _kind(code, live, device):
    """What traces have in common that differ in sizes only."""
    key: list = [device, tuple(live)]
    for item in code:
        if item.__class__ is int:
            key.append(item)
        else:
            key.append((item.name, item.scalars, *[(g.dtype, len(g.shape)) for g in item.geometries]))
    return tuple(key)


def run(known, device, code, inputs, ints, floats, live):
    """The live values of a trace by a program that others share, or None.

    Args:
        known: its `program.Program`.
    """
    if known.shared is False or known.seen > _RUNS:
        return None
    bound = known.shared
    if bound is None:
        with _lock:
            key = _kind(code, live, device)
            family = _families.get(key)
            if family is None:
                family = _families[key] = Family(soon=True)
                if len(_families) > _MOST:
                    _families.popitem(last=False)
            else:
                _families.move_to_end(key)
            bound = family(_Trace(device, code, live, inputs, ints, floats))
        known.shared = False if bound is None else bound
        if bound is None:
            return None
    numbers = (np.array(ints, np.int64) if ints else None, np.array(floats, np.float64) if floats else None)
    with jax.default_device(_device.to_jax(device)):
        return bound.results(bound.run(*bound.operands(inputs, (), numbers)))


program.shared_run = run
