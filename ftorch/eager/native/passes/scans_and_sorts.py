"""Scans and sorts along lines: cumulative functions, sorting, the largest elements (``scans_and_sorts.cpp``)."""

from __future__ import annotations

import math

import numpy as np

from .. import NUMBERS, SUMMED, call
from ..codes import Scan, Selection

_SCANS = {
    "cumsum": Scan.SUM,
    "cumprod": Scan.PRODUCT,
    "cummax": Scan.MAXIMUM,
    "cummin": Scan.MINIMUM,
    "cumlogsumexp": Scan.LOG_SUM,
}


def _sizes(shape, axis):
    return [math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])]


def scan(eqn, inputs, origins):
    """`cumsum` and its kin, one element after the other; floats in double precision."""
    del origins
    out, axis = eqn.outvars[0].aval, eqn.params["axis"]
    if out.dtype not in (SUMMED if eqn.primitive.name == "cumsum" else NUMBERS) or out.size == 0:
        return None
    how = [_SCANS[eqn.primitive.name], int(eqn.params["reverse"])]
    return [call("ftorch_scan", out, *inputs, sizes=_sizes(out.shape, axis), how=how)]


def extremum(eqn, inputs, origins):
    """The primitives of `ftorch.eager.kernels.reduction.scan`: extrema so far along the middle dimension, and where."""
    del origins
    how = [_SCANS[eqn.primitive.name.removeprefix("ftorch_")]]
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
    """The primitive of `ftorch.eager.kernels.reduction.ranking`: positions of the first elements, or of that of a rank."""
    del origins
    out, how = eqn.outvars[0].aval, eqn.params
    if out.size == 0:
        return None
    in_order = Selection.SORTED_TOP if how["in_order"] else Selection.TOP
    choice = in_order if how["rank"] is None else Selection.RANKED
    number = how["count"] if how["rank"] is None else how["rank"]
    return [call("ftorch_select", out, *inputs, sizes=inputs[0].shape, how=[choice, number, how["descending"]])]
