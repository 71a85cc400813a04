"""Row-wise kernels (``rowwise.cpp``): softmax and layer normalization, primitives of `ftorch.eager.kernels`, and sums."""

from __future__ import annotations

import math

import jax
import numpy as np
from jax import lax

from .. import call

_FEW = 2048  # elements that XLA computes sooner, with what is around
_NARROW = 16  # columns that are summed by themselves at least


def softmax(eqn, inputs, origins):
    """Softmax of rows or its logarithm, and their gradients."""
    rows, length = inputs[0].shape
    if origins.is_few(inputs[0].size, _FEW):
        return None
    sizes = (rows, length, eqn.params["logarithm"])
    return [call(eqn.primitive.name, eqn.outvars[0].aval, *inputs, sizes=sizes)]


def layer_norm(eqn, inputs, origins):
    """Layer normalization of groups of rows, and its gradients."""
    x = inputs[0]
    if origins.is_few(x.size, _FEW):
        return None
    results = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.outvars]
    return call(eqn.primitive.name, results, *inputs, sizes=x.shape, eps=np.float64(eqn.params["eps"]))


def total(eqn, inputs, origins):
    """`reduce_sum`. Dimensions of size 1, which `vmap` brings, are left out: with one XLA takes the sum of a
    product for small matrix products, four times slower."""
    (x,), axes, out = inputs, eqn.params["axes"], eqn.outvars[0].aval
    if x.dtype != np.float32 or x.size == 1:
        return None
    kept, stored = [d for d, n in enumerate(x.shape) if n != 1], origins.is_stored(x)
    if len(kept) < x.ndim:
        x, axes = lax.reshape(x, [x.shape[d] for d in kept]), tuple(i for i, d in enumerate(kept) if d in axes)
    elif not stored or x.size < _FEW:
        return None
    if stored and x.size >= _FEW:
        x, axes = _inner_total(x, axes)
    return [lax.reshape(eqn.primitive.bind(x, **{**eqn.params, "axes": axes}) if axes else x, out.shape)]


def _inner_total(x, axes):
    """The sum of what lies in memory over the last axes, as far as they lie next to each other: (it, the other axes)."""
    if not axes:
        return x, axes
    last = max(axes)
    first = next(d for d in range(last, -1, -1) if d - 1 not in axes)
    count, inner = math.prod(x.shape[first : last + 1]), math.prod(x.shape[last + 1 :])
    if 1 < inner < _NARROW // 2 or inner == 1 and count < _NARROW:  # XLA's are vectors across such sums
        return x, axes
    sizes = [math.prod(x.shape[:first]), count, inner]
    shape = x.shape[:first] + x.shape[last + 1 :]
    return call("ftorch_sum", jax.ShapeDtypeStruct(shape, x.dtype), x, sizes=sizes), tuple(d for d in axes if d < first)
