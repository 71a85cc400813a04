"""Attention (``attention.cpp``): the primitives of `ftorch.eager.kernels.nn.attention` as custom calls."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from .. import call
from .views import strides


def forward(eqn, inputs, origins, order=None):
    """(batch, heads, queries, values) of its like, the dimensions in ``order``."""
    result = eqn.outvars[0].aval
    order = (0, 1, 2, 3) if order is None else order
    if order[3] != 3:
        return None
    shape = tuple(result.shape[d] for d in order)
    steps = dict(zip(order, strides(shape), strict=True))
    return [_call("ftorch_attention", eqn, inputs, origins, jax.ShapeDtypeStruct(shape, result.dtype),
                  ("query", "key", "value"), out=[steps[d] for d in range(3)])]


def gradient(eqn, inputs, origins):
    """The gradients of queries, keys and values; or that of what is added to the scores."""
    results = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.outvars]
    return _call(eqn.primitive.name, eqn, inputs, origins, results, ("grad", "query", "key", "value"))


def _call(name, eqn, inputs, origins, results, names, **attributes):
    count = len(names)
    query, key, value = inputs[count - 3 : count]
    heads, groups = query.shape[1], key.shape[1]
    counted = eqn.params.get("counted", False)
    sizes = (*query.shape[:3], key.shape[2], query.shape[3], value.shape[3], eqn.params["is_causal"], heads // groups, counted)
    operands, offsets = [], []
    for x, of in zip(inputs[:count], names, strict=True):
        source, steps, offset = _lies(x, origins)
        if steps[3] != 1 and x.shape[3] != 1:  # rows are dense
            source, steps, offset = x, strides(x.shape), 0
        operands.append(source)
        offsets.append(offset)
        attributes[of] = steps[:3]
    attributes["mask"] = []
    for mask in inputs[count : len(inputs) - counted]:
        source, steps, offset = _lies(mask, origins)
        operands.append(source)
        offsets.append(offset)
        attributes["mask"] = [0 if n == 1 else step for n, step in zip(mask.shape, steps, strict=True)]
    operands += inputs[len(inputs) - counted :]
    if any(isinstance(offset, jax.Array) or offset for offset in offsets):
        operands.append(jnp.stack([jnp.asarray(offset, np.int64) for offset in offsets]))
    return call(name, results, *operands, scale=np.float32(eqn.params["scale"]), sizes=sizes, **attributes)


def _lies(x, origins):
    """(array, steps, offset): where the elements of ``x`` are, how far apart along its dimensions, and where the first is."""
    if not isinstance(x, np.ndarray):
        return origins.part(x)
    return (x, strides(x.shape), 0) if x.flags.c_contiguous else (*origins.where(x), 0)
