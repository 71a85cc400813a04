"""Interruptible programs: those that compute for long run beside Python, so that who waits can be interrupted.

XLA's client for the CPU runs a program in the thread that calls it where it counts fewer than a thousand operations on
floats, and of a kernel's call it counts none. So one that is made of large products alone would keep Python, and its
handlers of signals, until it has ended.
"""

from __future__ import annotations

import math

import jax
import numpy as np

from .. import call

_LONG = 4e9  # operations, some 50 ms
_OF_ELEMENT = 64  # operations in whose time an element of a result is made, by a function like the exponential
_COUNTED = 2048  # operations that XLA is to count


def is_long(flat) -> bool:
    """Whether a program (`flat.Flat`) computes for so long that somebody may want to interrupt it."""
    return sum(_operations(step.eqn) for step in flat.steps) > _LONG


def _operations(eqn):
    elements = sum(v.aval.size for v in eqn.outvars if hasattr(v.aval, "size"))
    shapes = [v.aval.shape for v in eqn.invars if hasattr(v.aval, "shape")]
    name = eqn.primitive.name
    if name == "dot_general":
        return 2 * elements * math.prod(shapes[0][d] for d in eqn.params["dimension_numbers"][0][0])
    if name == "conv_general_dilated":
        outputs = shapes[1][eqn.params["dimension_numbers"].rhs_spec[0]]
        return 2 * elements * math.prod(shapes[1]) // max(1, outputs)
    if name in ("ftorch_attention", "ftorch_attention_gradient"):
        keys = shapes[1 if name == "ftorch_attention" else 2]
        return 8 * elements * keys[-2]
    if name == "ftorch_attention_mask_gradient":
        return 8 * elements * shapes[1][-1]
    return _OF_ELEMENT * elements


def beside(results):
    """The same results, of a program that XLA runs beside Python."""
    fit = [
        i for i, r in enumerate(results)
        if isinstance(r, jax.Array) and isinstance(r.dtype, np.dtype) and r.dtype.kind in "fiub" and r.size
    ]
    if not fit:
        return results
    at = min(fit, key=lambda i: results[i].size)
    result = results[at]
    first = jax.lax.slice(result.reshape(-1), (0,), (1,)).astype(np.float32)
    counted = jax.lax.iota(np.float32, _COUNTED) * first
    kept = call("ftorch_keep", jax.ShapeDtypeStruct(result.shape, result.dtype), result, counted, over=0)
    return [*results[:at], kept, *results[at + 1 :]]
