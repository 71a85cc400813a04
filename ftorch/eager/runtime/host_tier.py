"""The host tier: recorded steps run on NumPy arrays, without a program of XLA's.

It runs what has sizes that never came before. A step's code comes from its size class (`size_classes`), or from the
kernel's jaxpr at the step's own sizes, through the rules of `ftorch.eager.host`.
"""

from __future__ import annotations

import os

import jax
import numpy as np

from ..core import jax_internals
from ..core.jax_scope import scoped_trace
from ..core.suppressed_warnings import quiet
from ..host.rules import MissingRule
from .jaxpr_classes import merged
from .scalars import weak
from .size_fit import NotGeneral

_MODE = os.environ.get("FTORCH_HOST_TIER", "1")
ENABLED = _MODE not in ("0", "padded")
CHECKED = _MODE == "check"
PADDED = _MODE == "padded"  # the CPU does as accelerators do (`ftorch.eager.dynamic_shapes`)

_errors = np.errstate(all="ignore")
_SCALARS = {"i": np.int64, "f": np.float64, "c": np.complex128}
_STRUCTS = {kind: jax.ShapeDtypeStruct((), scalar) for kind, scalar in _SCALARS.items()}


def step_of(plan):
    """A plan's step on NumPy arrays, (arrays, numbers) -> tuple of results; False if it has none."""
    if not ENABLED:
        return False
    step = plan.host
    if step is None:
        step = plan.host = _made(plan)
    return step


@scoped_trace
def _made(plan):
    if plan.instance is not None:
        return plan.instance.code()
    if plan.inputs is None or any(g.dtype.stored for g in (*plan.inputs, *plan.geometries)):
        return False
    try:
        closed = _traced(plan)
        program = merged([closed], [()])
    except (NotGeneral, MissingRule):
        return False
    plan.program = program
    run, numbers = program.run, program.evaluate(())
    return lambda arrays, scalars: run((*arrays, *scalars), numbers)


def _traced(plan):
    count, kinds, fn = len(plan.inputs), plan.scalars, plan.fn

    def weakened(*operands):
        return fn(*operands[:count], *(weak(v, k) for v, k in zip(operands[count:], kinds)))

    structs = [jax.ShapeDtypeStruct(g.shape, g.dtype.numpy) for g in plan.inputs]
    with quiet():
        return jax_internals.traced(weakened, [*structs, *(_STRUCTS[k] for k in kinds)])[0]


def checked(plan, results, arrays=()):
    """Results as they are, if shapes and dtypes are the plan's (with ``FTORCH_HOST_TIER=check``, for tests)."""
    if plan.inputs is not None:
        for array, g in zip(arrays, plan.inputs):
            if array.shape != tuple(g.shape):
                raise AssertionError(f"{plan.name} was given {array.shape} {array.__class__} instead of {g}")
    for result, g in zip(results, plan.geometries, strict=True):
        if result.shape != tuple(g.shape) or result.dtype != g.dtype.numpy:
            steps = "".join(f"\n  {step}" for step in plan.instance.of.program.steps) if plan.instance else ""
            raise AssertionError(f"{plan.name}: {result.dtype}{list(result.shape)} instead of {g}{plan.inputs}{steps}")
    return results


def run_step(step, arrays, scalars):
    """A step on arrays of either kind; tuple of results."""
    given = [a if a.__class__ is np.ndarray else jax_internals.on_host(a) for a in arrays]
    with np.errstate(all="ignore"):
        return step(given, scalars)
