"""What goes along lines: cumulative functions, sorting, the largest elements (``lines.cpp``)."""

from __future__ import annotations

import math

import numpy as np

from . import NUMBERS, call

_STEPS = {"cumsum": 0, "cumprod": 1, "cummax": 2, "cummin": 3, "cumlogsumexp": 4}


def _sizes(shape, axis):
    return [math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])]


def scan(eqn, inputs, origins):
    """`cumsum` and its kin, one element after the other; floats in double precision."""
    del origins
    out, axis = eqn.outvars[0].aval, eqn.params["axis"]
    if out.dtype not in NUMBERS or out.size == 0:
        return None
    how = [_STEPS[eqn.primitive.name], int(eqn.params["reverse"])]
    return [call("ftorch_scan", out, *inputs, sizes=_sizes(out.shape, axis), how=how)]


def extremum(eqn, inputs, origins):
    """The primitives of `ftorch.eager.ops.scan`: extrema so far along the middle dimension, and where they are."""
    del origins
    how = [_STEPS[eqn.primitive.name.removeprefix("ftorch_")]]
    return call("ftorch_extremum", tuple(v.aval for v in eqn.outvars), *inputs, sizes=inputs[0].shape, how=how)


def sort(eqn, inputs, origins):
    """`sort` of int64 numbers, which packed keys and positions are too."""
    del origins
    out = eqn.outvars[0].aval
    if len(inputs) != 1 or out.dtype != np.int64 or out.size == 0:
        return None
    return [call("ftorch_sort", out, *inputs, sizes=_sizes(out.shape, eqn.params["dimension"]))]


def top(eqn, inputs, origins):
    """`top_k` of float32 numbers along the last dimension."""
    del origins
    (x,), k = inputs, eqn.params["k"]
    values, positions = (v.aval for v in eqn.outvars)
    if x.dtype != np.float32 or positions.dtype != np.int32 or values.size == 0:
        return None
    if eqn.params["axis"] != x.ndim - 1:
        return None
    sizes = [math.prod(x.shape[:-1]), x.shape[-1], k]
    return call("ftorch_top", (values, positions), x, sizes=sizes)


def select(eqn, inputs, origins):
    """The primitive of `ftorch.eager.ops.ranking`: positions of the first elements, or of that of a rank."""
    del origins
    out, how = eqn.outvars[0].aval, eqn.params
    if out.size == 0:
        return None
    choice = 0 if how["rank"] is not None else 2 if how["in_order"] else 1
    number = how["count"] if how["rank"] is None else how["rank"]
    return [call("ftorch_select", out, *inputs, sizes=inputs[0].shape, how=[choice, number, how["descending"]])]
