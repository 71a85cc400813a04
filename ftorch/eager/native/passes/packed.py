"""Weight-only quantization: products with weights of eight and four bits (``packed.cpp``, ``dynamic.cpp``)."""

from __future__ import annotations

from .. import call


def weights8(eqn, inputs, origins):
    """The product of a matrix of float32 or bfloat16 and int8 weights."""
    x, weights = inputs
    if x.shape[0] != 1 or 0 in (*x.shape, *weights.shape):
        return None
    sizes = (x.shape[1], *weights.shape[1:])
    return [call("ftorch_multiply_weights8", eqn.outvars[0].aval, x, weights, sizes=sizes)]


def weights4(eqn, inputs, origins):
    """The product of a matrix of float32 and packed weights of four bits, with scales and zeros for groups of columns."""
    x, weights, settings = inputs
    if x.shape[0] != 1 or 0 in (*x.shape, *weights.shape):
        return None
    sizes = (x.shape[1], weights.shape[1], x.shape[2], eqn.params["group"])
    return [call("ftorch_multiply_weights4", eqn.outvars[0].aval, x, weights, settings, sizes=sizes)]


def linear_dynamic(eqn, inputs, origins):
    """Linear layers whose input is rounded to bytes by the range that it has."""
    x, weights = inputs[:2]
    sizes = (*x.shape[:2], *weights.shape[1:], eqn.params["largest"], eqn.params["has_bias"])
    return [call("ftorch_linear_dynamic", eqn.outvars[0].aval, *inputs, sizes=sizes)]
