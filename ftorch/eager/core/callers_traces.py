"""JAX tracers of the caller's own: steps in ``jax.jit(f)`` of a function that computes with tensors.

What a step adds to such a trace is transformed, differentiated and lowered by JAX under the caller's settings. Without
64-bit types JAX (0.10) fails there on positions of int64 that it clamps itself, those of slices and of gathers that take the
nearest element: ``jax.grad`` of an embedding raises "lax.clamp requires arguments to have the same dtypes". So they are
int32 there.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import jax_internals, jaxprs
from .jax_scope import scoped

_INT32 = np.iinfo(np.int32)
# Primitives, and where among their operands positions begin.
_SLICES = {"dynamic_slice": 1, "dynamic_update_slice": 2}
_CLAMPED = {"gather": 1, "scatter": 1, "scatter-add": 1, "scatter-mul": 1, "scatter-min": 1, "scatter-max": 1}


def run(plan, arrays, scalars, weak) -> Any:
    """A step's results, as ``plan.fn`` gives them, for arrays that are tracers or constants.

    Args:
        weak: (number, its kind) -> what a kernel is given for it.
    """
    return _run(plan, arrays, scalars, weak, not jax.config.jax_enable_x64)


@scoped
def _run(plan, arrays, scalars, weak, narrow):
    numbers = list(map(weak, scalars, plan.scalars))
    if narrow:
        closed = _closed(plan, tuple([jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (*arrays, *numbers)]))
        if closed is not None:
            return tuple(_NarrowPositions().run(closed.jaxpr, closed.consts, [*arrays, *numbers]))
    return plan.fn(*arrays, *numbers)


@functools.lru_cache(512)
def _closed(plan, structs):
    """The jaxpr of a plan's step; None if it has no positions that matter."""
    closed, _ = jax_internals.traced(plan.step(), structs)
    return closed if _has_positions(closed.jaxpr) else None


def _positions_at(eqn):
    """Where among an equation's operands positions of int64 begin that JAX clamps; None if there are none."""
    at = _SLICES.get(eqn.primitive.name)
    if at is None and "CLIP" in str(eqn.params.get("mode")):
        at = _CLAMPED.get(eqn.primitive.name)
    if at is None or at >= len(eqn.invars) or eqn.invars[at].aval.dtype != np.int64:
        return None
    return at if max(eqn.invars[0].aval.shape, default=0) <= _INT32.max else None


def _has_positions(jaxpr):
    for eqn in jaxpr.eqns:
        closed = jaxprs.called(eqn, jaxprs.PLAIN_CALLS)
        if _has_positions(closed.jaxpr) if closed is not None else _positions_at(eqn) is not None:
            return True
    return False


class _NarrowPositions(jaxprs.Walk):
    """Traces a jaxpr again, with positions of int32."""

    calls = jaxprs.PLAIN_CALLS

    def equation(self, eqn, given):
        at = _positions_at(eqn)
        if at is not None:
            end = len(given) if eqn.primitive.name in _SLICES else at + 1
            given[at:end] = [jnp.clip(p, _INT32.min, _INT32.max).astype(np.int32) for p in given[at:end]]
        return jax_internals.bind(eqn, given)


__all__ = ["run"]
