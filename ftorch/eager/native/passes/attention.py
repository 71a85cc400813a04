"""Attention (``attention.cpp``): the primitives of `ftorch.eager.kernels.nn.attention` as custom calls."""

from __future__ import annotations

import jax
import numpy as np

from .. import call
from .views import strides


def forward(eqn, inputs, origins, order=None):
    """(batch, heads, queries, values) of its like, the dimensions in ``order``."""
    shape = eqn.outvars[0].aval.shape
    order = (0, 1, 2, 3) if order is None else order
    if order[3] != 3:
        return None
    shape = tuple(shape[d] for d in order)
    steps = dict(zip(order, strides(shape), strict=True))
    return [_call("ftorch_attention", eqn, inputs, origins, jax.ShapeDtypeStruct(shape, np.float32),
                  ("query", "key", "value"), out=[steps[d] for d in range(3)])]


def gradient(eqn, inputs, origins):
    """The gradients of queries, keys and values."""
    results = [jax.ShapeDtypeStruct(x.shape, np.float32) for x in inputs[1:]]
    return _call("ftorch_attention_gradient", eqn, inputs, origins, results, ("grad", "query", "key", "value"))


def _call(name, eqn, inputs, origins, results, names, **attributes):
    query, key, value = inputs[-3:]
    sizes = (*query.shape[:3], key.shape[2], query.shape[3], value.shape[3], eqn.params["is_causal"])
    operands = []
    for x, of in zip(inputs, names, strict=True):
        view = origins.get(x, "transpose")
        if view is not None and view.params["permutation"][3] == 3:  # read where it lies
            own = strides(view.source.shape)
            x, steps = view.source, [own[d] for d in view.params["permutation"]]
        else:
            steps = strides(x.shape)
        operands.append(x)
        attributes[of] = steps[:3]
    return call(name, results, *operands, sizes=sizes, scale=np.float32(eqn.params["scale"]), **attributes)
