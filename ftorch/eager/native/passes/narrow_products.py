"""Low-precision products of numbers of 16 bits and of int8, and convolutions of bfloat16, by kernels of this package."""

from __future__ import annotations

import jax
import numpy as np

from .. import call, multiplies_bfloat16
from .views import in_three_dimensions

# Rows up to which numbers of 16 bits are read as they are.
_FEW_ROWS = 8
_NARROW = (np.dtype(jax.numpy.bfloat16), np.dtype(np.float16))


def is_narrow(left, right, out):
    """Whether a product with operands and result of these dtypes is one of numbers of 16 bits."""
    return left == right and left in _NARROW and out in (left, np.float32)


def is_product_of_bytes(left, right, out):
    """Whether a product with operands and result of these dtypes is one of int8 as int32."""
    return left == right == np.int8 and out == np.int32


def product(operands, attributes, shape, dtype):
    """A product of numbers of 16 bits, summed in float32; XLA's own code for vectors rounds every step."""
    (m, _, depth), outer, right = attributes["sizes"], attributes["outer"], attributes["right"][2:]
    a, b = operands
    if multiplies_bfloat16 and a.dtype == _NARROW[0] and depth > 1:
        return call(
            "ftorch_multiply_bfloat16", jax.ShapeDtypeStruct(shape, dtype), a, b, **attributes
        )
    if m <= _FEW_ROWS and list(outer) == [1, 1] and 1 in right:
        result = call(
            "ftorch_multiply_narrow",
            jax.ShapeDtypeStruct(shape, np.float32),
            a.astype(np.float32),
            b,
            sizes=attributes["sizes"],
            left=attributes["left"][2:],
            right=right,
        )
        return result.astype(dtype)
    a, b = a.astype(np.float32), b.astype(np.float32)
    if depth == 1:
        return call(
            "ftorch_outer", jax.ShapeDtypeStruct(shape, np.float32), a, b, **attributes
        ).astype(dtype)
    return call(
        "ftorch_multiply",
        jax.ShapeDtypeStruct(shape, np.float32),
        a,
        b,
        **attributes,
        after=(),
        places=(),
    ).astype(dtype)


def convolution(eqn, inputs, origins):
    """A convolution of bfloat16 with its bias (``kernels/nn/conv_cpu.py``), or several of different weights."""
    params, out = eqn.params, eqn.outvars[0].aval
    x, weight, _ = inputs
    groups, (outputs, own, *window) = params["groups"], weight.shape[1:]
    spatial = in_three_dimensions(
        extent=(x.shape[3:], 1), out=(out.shape[3:], 1), window=(window, 1), stride=(params["stride"], 1),
        low=([low for low, _ in params["pads"]], 0), dilation=(params["dilation"], 1),
    )
    sizes = x.shape[1], groups, own, outputs // groups, params["has_bias"]

    def convolve(*operands):
        each = jax.ShapeDtypeStruct((1, *out.shape[1:]), out.dtype)
        return call("ftorch_convolve_pairs", each, *operands, sizes=sizes, **spatial)

    if len(x) == 1:
        return [convolve(*inputs)]
    found = [convolve(*(v[i : i + 1] for v in inputs)) for i in range(len(x))]
    return [(np if isinstance(x, np.ndarray) else jax.numpy).concatenate(found)]
