"""Convolutions on the CPU.

In float32, and where there is little to do, they are XLA's operation, which programs have this package's
kernels for in float32 (`ftorch.eager.native`).
XLA itself hands dense convolutions of one and two dimensions to Eigen, and runs grouped ones and those
with a dilated input (as transposed convolutions and some weight gradients have it) as plain loops,
10 to 300 times slower than PyTorch. So in other dtypes, or without those kernels, they are composed;
what was measured to be fastest, with the gradients in mind:

- one channel per group (depthwise): a sum of shifted products (`conv_depthwise`);
- kernels of one element: a matrix product;
- few elements under the kernel (an image's first layer, many small groups): these gathered into
  columns (im2col), and one matrix product per group;
- a few large groups: one convolution each;
- three dimensions: a sum of two-dimensional convolutions, one per kernel plane;
- transposed with a stride: a matrix product, its results added into place;
- everything else: XLA's convolution.
"""

from __future__ import annotations

import functools
import math
from itertools import product

import jax.numpy as jnp
from jax import lax

from ... import native
from .._common import up
from .._primitives import primitive
from . import conv_depthwise, conv_xla
from .conv_depthwise import out_extent, slices

# Below this many elements under the kernel, gathering them beats Eigen's convolution.
_FEW = 32
# Above this many groups one convolution each costs more than gathering.
_MANY = 16


# Below this many products XLA's operation is compiled sooner than a composition has run.
_SMALL = 1 << 15


def _is_one_operation(x, weight):
    if native.available and x.dtype == jnp.float32:
        return True
    return not jnp.issubdtype(x.dtype, jnp.complexfloating) and (
        x.size * weight.size // max(x.shape[1], 1) <= _SMALL
    )


def convolve(x, weight, stride, pads, dilation, groups):
    """Cross-correlation of ``(N, C, ...)`` with ``(O, C / groups, ...)``."""
    x, weight = up(x), up(weight)
    if _is_one_operation(x, weight):
        return conv_xla.convolve(x, weight, stride, pads, dilation, groups)
    window = weight.shape[2:]
    taps = math.prod(window)
    if weight.shape[1] == 1 and groups > 1:
        return conv_depthwise.convolve(_padded(x, pads), weight, stride, dilation)
    if taps == 1 and groups == 1:
        return _pointwise(_padded(x, pads), weight, stride)
    if weight.shape[1] * taps <= _FEW or groups > _MANY:
        return _as_product(_padded(x, pads), weight, stride, dilation, groups)
    if groups > 1:
        parts = zip(jnp.split(x, groups, 1), jnp.split(weight, groups), strict=True)
        return jnp.concatenate([convolve(a, w, stride, pads, dilation, 1) for a, w in parts], 1)
    if len(window) == 3:
        return _by_planes(x, weight, stride, pads, dilation)
    return conv_xla.convolve(x, weight, stride, pads, dilation, groups)


def convolve_narrow(x, weight, bias, stride, pads, dilation, groups):
    """A convolution of bfloat16 with its bias by processors that multiply pairs of channels; None where it is not worth it."""
    own, outputs = weight.shape[1], weight.shape[0] // groups
    if not native.multiplies_bfloat16 or x.dtype != jnp.bfloat16 or own < 2 or outputs < _VECTOR or x.ndim > 5:
        return None
    if min(map(min, pads)) < 0 or (bias is not None and bias.dtype != x.dtype):
        return None
    operands = x, weight, weight if bias is None else bias
    how = {"stride": stride, "pads": tuple(map(tuple, pads)), "dilation": dilation, "groups": groups}
    return _PAIRS.bind(*(operand[None] for operand in operands), **how, has_bias=bias is not None)[0][0]


_VECTOR = 16  # outputs of a vector


def _narrow(x, weight, bias, *, has_bias, **how):
    if x.shape[0] != 1:
        one = functools.partial(_narrow, has_bias=has_bias, **how)
        return jnp.concatenate([one(*(v[i : i + 1] for v in (x, weight, bias))) for i in range(x.shape[0])])
    y = convolve(x[0], weight[0], **how)
    if has_bias:
        y = y + up(bias[0]).reshape(-1, *(1,) * (y.ndim - 2))
    return y.astype(x.dtype)[None]


_PAIRS = primitive("convolve_pairs", _narrow)


def _padded(x, pads):
    return jnp.pad(x, [(0, 0), (0, 0), *pads])


def _pointwise(x, weight, stride):
    x = lax.slice(x, (0,) * x.ndim, x.shape, (1, 1, *stride))
    n, channels, *extent = x.shape
    y = jnp.matmul(weight.reshape(-1, channels), x.reshape(n, channels, -1))
    return y.reshape(n, -1, *extent)


def _by_planes(x, weight, stride, pads, dilation):
    x = jnp.pad(x, [(0, 0), (0, 0), pads[0], (0, 0), (0, 0)]).swapaxes(1, 2)
    depth = out_extent(x.shape[1:2], weight.shape[2:3], stride[:1], dilation[:1])[0]
    n, _, channels, *extent = x.shape
    total = 0
    for k in range(weight.shape[2]):
        first = k * dilation[0]
        planes = x[:, first : first + (depth - 1) * stride[0] + 1 : stride[0]]
        total = total + conv_xla.convolve(
            planes.reshape(n * depth, channels, *extent), weight[:, :, k], stride[1:], pads[1:],
            dilation[1:], 1,
        )
    return total.reshape(n, depth, *total.shape[1:]).swapaxes(1, 2)


def _as_product(x, weight, stride, dilation, groups):
    n, channels = x.shape[:2]
    window, outputs = weight.shape[2:], weight.shape[0]
    out = out_extent(x.shape[2:], window, stride, dilation)
    # Channels outermost: every offset is then a block of rows of the matrix.
    x = x.swapaxes(0, 1).reshape(groups, channels // groups, n, *x.shape[2:])
    parts = list(slices(x, window, stride, dilation, out))
    columns = jnp.stack(parts, 1).reshape(groups, -1, n * math.prod(out))
    w = weight.reshape(groups, outputs // groups, channels // groups, -1).swapaxes(2, 3)
    y = jnp.matmul(w.reshape(groups, outputs // groups, -1), columns)
    return y.reshape(outputs, n, *out).swapaxes(0, 1)


def convolve_transposed(x, weight, stride, pads, dilation, groups):
    """The adjoint of a convolution with ``(C, O / groups, ...)``.

    ``pads`` pad the full result (negative: crop it) in front and behind.
    """
    x, weight = up(x), up(weight)
    if _is_one_operation(x, weight):
        return conv_xla.convolve_transposed(x, weight, stride, pads, dilation, groups)
    n, channels, *extent = x.shape
    window, outputs = weight.shape[2:], weight.shape[1]
    w = weight.reshape(groups, channels // groups, -1).swapaxes(1, 2)
    x = x.swapaxes(0, 1).reshape(groups, channels // groups, -1)
    y = jnp.matmul(w, x).reshape(groups, outputs, math.prod(window), n, *extent)
    # The whole result first, cropped or padded once: XLA miscompiles sums of pads that crop.
    total = 0
    zero = jnp.zeros((), y.dtype)
    full = [
        s * (m - 1) + d * (k - 1) + 1
        for s, m, d, k in zip(stride, extent, dilation, window, strict=True)
    ]
    for k, offset in enumerate(product(*map(range, window))):
        config = [
            (j * d, f - j * d - s * (m - 1) - 1, s - 1)
            for j, d, f, s, m in zip(offset, dilation, full, stride, extent, strict=True)
        ]
        total = total + lax.pad(y[:, :, k], zero, [(0, 0, 0)] * 3 + config)
    kept = tuple(
        slice(max(-low, 0), f - max(-high, 0)) for (low, high), f in zip(pads, full, strict=True)
    )
    total = total.reshape(groups * outputs, n, *full)[(..., *kept)].swapaxes(0, 1)
    return jnp.pad(total, [(0, 0)] * 2 + [(max(low, 0), max(high, 0)) for low, high in pads])
