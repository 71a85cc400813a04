"""Depthwise convolutions on the CPU: one kernel per channel, as sums of shifted products.

XLA would compute the gradient of the weight by one pass over the images for each of its elements, and
write a shifted copy of the images for each pass. The three functions here, the convolution and its two
gradients, are primitives that are each other's transposes, so that the gradient of the weight is one
pass that sums for all elements at once, whoever differentiates.
"""

from __future__ import annotations

import functools
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ...core.jax_internals import called_again

_AT_ONCE = 9  # sums that are computed in one pass


def out_extent(extent, window, stride, dilation):
    """The extent of a convolution's result, without padding."""
    return tuple(
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(extent, window, stride, dilation, strict=True)
    )


def slices(x, window, stride, dilation, out):
    """For each kernel offset the elements of ``x`` under it, (..., *out)."""
    lead = x.ndim - len(window)
    head = x.shape[:lead]
    for offset in product(*map(range, window)):
        start = [j * d for j, d in zip(offset, dilation, strict=True)]
        stop = [a + (o - 1) * s + 1 for a, o, s in zip(start, out, stride, strict=True)]
        yield lax.slice(x, (0,) * lead + tuple(start), (*head, *stop), (1,) * lead + tuple(stride))


def _forward(x, weight, *, extent, window, stride, dilation):
    """(N, C, *extent) with (C, 1, *window)."""
    out = out_extent(extent, window, stride, dilation)
    taps = weight.reshape(weight.shape[0], -1)
    total = 0
    for k, part in enumerate(slices(x, window, stride, dilation, out)):
        total = total + part * taps[:, k].reshape(-1, *(1,) * len(out))
    return total


def _of_input(grad, weight, *, extent, **how):
    """The input's gradient, from the result's."""
    x = jax.ShapeDtypeStruct((*grad.shape[:2], *extent), grad.dtype)
    apply = functools.partial(_forward, weight=weight, extent=extent, **how)
    return jax.linear_transpose(apply, x)(grad)[0]


def _sums(values):
    """The sums over all dimensions behind the second, in one pass."""
    zero = np.zeros((), values[0].dtype)
    return lax.reduce(
        values, [zero] * len(values), lambda a, b: [x + y for x, y in zip(a, b, strict=True)],
        tuple(range(2, values[0].ndim)),
    )


def _of_weight(x, grad, *, extent, window, stride, dilation):
    """The weight's gradient, from the input and the result's."""
    parts = list(slices(x, window, stride, dilation, grad.shape[2:]))
    sums = []
    for i in range(0, len(parts), _AT_ONCE):
        sums += _sums([part * grad for part in parts[i : i + _AT_ONCE]])
    return jnp.stack(sums, -1).sum(0).reshape(x.shape[1], 1, *window)


def _of_weight_plainly(x, grad, **how):
    """`_of_weight` of operations that JAX can differentiate."""
    weight = jax.ShapeDtypeStruct((x.shape[1], 1, *how["window"]), x.dtype)
    return jax.linear_transpose(functools.partial(_forward, x, **how), weight)(grad)[0]


def _primitive(name, function, plain):
    primitive = Primitive(f"ftorch_{name}")
    primitive.meaning = plain  # type: ignore[attr-defined]
    primitive.def_impl(called_again(lambda a, b, **how: jax.jit(functools.partial(function, **how))(a, b)))

    @primitive.def_abstract_eval
    def _(a, b, **how):
        shaped = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in (a, b)]
        result = jax.eval_shape(functools.partial(plain, **how), *shaped)
        return jax.core.ShapedArray(result.shape, result.dtype)

    def batched(operands, axes, **how):
        return jax.vmap(functools.partial(plain, **how), axes)(*operands), 0

    batching.primitive_batchers[primitive] = batched
    mlir.register_lowering(primitive, mlir.lower_fun(function, multiple_results=False))
    return primitive


_conv = _primitive("depthwise", _forward, _forward)
_input_gradient = _primitive("depthwise_input", _of_input, _of_input)
_weight_gradient = _primitive("depthwise_weight", _of_weight, _of_weight_plainly)

ad.defbilinear(
    _conv,
    lambda ct, x, weight, **how: _input_gradient.bind(ct, weight, **how),
    lambda ct, x, weight, **how: _weight_gradient.bind(x, ct, **how),
)
ad.defbilinear(
    _input_gradient,
    lambda ct, grad, weight, **how: _conv.bind(ct, weight, **how),
    lambda ct, grad, weight, **how: _weight_gradient.bind(ct, grad, **how),
)
ad.defbilinear(
    _weight_gradient,
    lambda ct, x, grad, **how: _input_gradient.bind(grad, ct, **how),
    lambda ct, x, grad, **how: _conv.bind(x, ct, **how),
)


def convolve(x, weight, stride, dilation):
    """Cross-correlation of ``(N, C, ...)``, padded, with ``(C * m, 1, ...)``."""
    n, channels, *extent = x.shape
    window, outputs = weight.shape[2:], weight.shape[0]
    if outputs != channels:  # several kernels per channel: the images are repeated
        x = jnp.broadcast_to(x[:, :, None], (n, channels, outputs // channels, *extent))
        x = x.reshape(n, outputs, *extent)
    return _conv.bind(
        x, weight, extent=tuple(extent), window=tuple(window), stride=tuple(stride),
        dilation=tuple(dilation),
    )

