"""Fractional max pooling, and the inverse of max pooling."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from ...core import determinism
from ...core.registry import op
from .._common import dtype_name, is_floating
from ..reduction.reductions import put_along
from ._windows import ntuple, sizes
from .pooling import scatter_to_maxima

_AXES = {2: ("height", "width"), 3: ("time", "height", "width")}


# --- unpooling ---------------------------------------------------------------------------


def _check_unpool(nd, x, indices, output_size):
    if indices.dtype != jnp.int64:
        found = dtype_name(indices.dtype)
        raise RuntimeError(f"elements in indices should be type int64 but got: {found}")
    if len(output_size) != nd:
        counted = "two (height, width)" if nd == 2 else "three (depth, height, width)"
        raise RuntimeError(
            f"There should be exactly {counted} elements in output_size, but got "
            f"{len(output_size)} elements."
        )
    if x.ndim not in (nd + 1, nd + 2):
        raise RuntimeError(
            f"Input to max_unpooling{nd}d should be a {nd + 1}d or {nd + 2}d Tensor, but got a "
            f"tensor with {x.ndim} dimensions."
        )
    if x.shape != indices.shape:
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({sizes(x.shape)}) but got indices tensor with shape: {sizes(indices.shape)}"
        )
    for axis in range(1, x.ndim):
        if x.shape[axis] == 0:
            raise RuntimeError(
                f"max_unpooling{nd}d(): Expected input to have non-zero size for non-batch "
                f"dimensions, but got {sizes(x.shape)} with dimension {axis} being empty."
            )


def _unpool(nd, x, indices, output_size):
    lead = x.shape[: x.ndim - nd]
    rows = math.prod(lead)
    plane = jnp.zeros((rows, math.prod(output_size)), x.dtype)
    flat = indices.reshape(rows, math.prod(indices.shape[x.ndim - nd :]))
    plane = put_along("set", plane, flat, x.reshape(flat.shape), 1)
    return plane.reshape(*lead, *output_size)


def _unpool_gradient(nd, grad, indices):
    rows = math.prod(indices.shape[: indices.ndim - nd])
    plane, flat = (a.reshape(rows, math.prod(a.shape[a.ndim - nd :])) for a in (grad, indices))
    picked = jnp.take_along_axis(plane, flat, axis=1, mode="clip")
    return picked.reshape(indices.shape)


def _check_unpool_indices(indices, output_size):
    wrong = (indices < 0) | (indices >= math.prod(output_size))
    if wrong.any():
        volume = "x".join(map(str, output_size))
        raise RuntimeError(
            f"Found an invalid max index: {indices[wrong].flat[0]} (output volumes are of size "
            f"{volume})"
        )


@op("max_unpool2d(Tensor self, Tensor indices, int[2] output_size) -> Tensor", public="_C._nn", layout="channels")
def max_unpool2d(self, indices, output_size):
    _check_unpool(2, self, indices, output_size)
    return _unpool(2, self, indices, output_size)


@op("max_unpool3d(Tensor self, Tensor indices, int[3] output_size, int[3] stride, int[3] padding)"
    " -> Tensor", public="_C._nn")
def max_unpool3d(self, indices, output_size, stride, padding):
    _check_unpool(3, self, indices, output_size)
    if min(stride) <= 0:
        raise RuntimeError(f"strides should be greater than zero, but got stride: {sizes(stride)}")
    return _unpool(3, self, indices, output_size)


def _finish_unpool(unpooling, nd):
    @unpooling.derivative
    def _(grad, indices):
        return _unpool_gradient(nd, grad, indices), None

    @unpooling.check
    def _(indices, output_size):
        _check_unpool_indices(indices, output_size)

    unpooling.notice(lambda: determinism.alert(f"max_unpooling{nd}d_forward_out"))


_finish_unpool(max_unpool2d, 2)
_finish_unpool(max_unpool3d, 3)


# --- fractional max pooling --------------------------------------------------------------


def _check_fractional(nd, x, kernel, output_size, samples):
    name = f"fractional_max_pool{nd}d"
    for argument, value in (("kernel_size", kernel), ("output_size", output_size)):
        if len(value) != nd:
            raise RuntimeError(
                f"{name}: {argument} must either be a single Int or tuple of {'three ' if nd == 3 else ''}Ints"
            )
    if x.ndim not in (nd + 1, nd + 2):
        raise RuntimeError(
            f"{name}(): Expected {nd + 1}D or {nd + 2}D tensor, but got: {sizes(x.shape)}"
        )
    for axis in range(x.ndim - nd - 1, x.ndim):
        if x.shape[axis] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but "
                f"got{sizes(x.shape)} with dimension {axis} being empty."
            )
    if not is_floating(x):
        raise NotImplementedError(
            f"\"check_uniform_bounds\" not implemented for '{dtype_name(x.dtype)}'"
        )
    where = f"{name}(): pool" if nd == 2 else f"{name}_out(): pool"
    extents = zip(_AXES[nd], x.shape[-nd:], kernel, output_size, strict=True)
    for axis, n, k, o in extents:
        if o + k - 1 > n:
            raise RuntimeError(f"{where} {axis} {k} too large relative to input {axis} {n}")
    _check_samples(nd, x, samples)


def _check_samples(nd, x, samples):
    if samples.dtype != x.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples.ndim != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions got {samples.ndim}")
    batch = x.shape[0] if x.ndim == nd + 2 else 1
    if samples.shape[0] < batch:
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if samples.shape[1] != x.shape[-nd - 1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if samples.shape[2] != nd:
        raise RuntimeError(
            f"Expect _random_samples.size(2) equals to {nd}; got {samples.shape[2]}."
        )


def _starts(sample, n, out, kernel):
    """Where the windows of one dimension start, for samples (...): (..., out)."""
    if out == 1:
        return jnp.full((*sample.shape, 1), n - kernel, jnp.int32)
    alpha = np.asarray((n - kernel) / (out - 1), sample.dtype)
    steps = jnp.arange(out - 1, dtype=sample.dtype)
    drawn = ((steps + sample[..., None]) * alpha).astype(jnp.int32)
    drawn = drawn - (sample * alpha).astype(jnp.int32)[..., None]
    last = jnp.full((*sample.shape, 1), n - kernel, jnp.int32)
    return jnp.concatenate([drawn, last], -1)


def _fractional(nd, x, kernel_size, output_size, samples):
    kernel, out = (ntuple(n, nd) if isinstance(n, int) else tuple(n) for n in (kernel_size, output_size))
    _check_fractional(nd, x, kernel, out, samples)
    lead, extent = x.shape[: x.ndim - nd], x.shape[x.ndim - nd :]
    if 0 in out:
        return jnp.zeros((*lead, *out), x.dtype), jnp.zeros((*lead, *out), jnp.int64)
    samples = samples[: lead[0]] if len(lead) == 2 else samples[0]
    flat = jnp.zeros((), jnp.int32)
    for i, (n, k, o) in enumerate(zip(extent, kernel, out, strict=True)):
        # In two dimensions the first random number is the width's.
        sample = samples[..., nd - 1 - i if nd == 2 else i]
        index = _starts(sample, n, o, k)[..., None] + jnp.arange(k, dtype=jnp.int32)
        shape = [*lead, *(1,) * 2 * nd]
        shape[len(lead) + i], shape[len(lead) + nd + i] = o, k
        flat = flat * n + index.reshape(shape)
    flat = flat.reshape(*lead, math.prod(out), math.prod(kernel))
    plane = x.reshape(*lead, 1, math.prod(extent))
    listed = flat.reshape(*lead, 1, math.prod(flat.shape[-2:]))
    values = jnp.take_along_axis(plane, listed, -1).reshape(flat.shape)
    which = jnp.argmax(values, -1)[..., None]
    best, where = (jnp.take_along_axis(a, which, -1) for a in (values, flat))
    return best.reshape(*lead, *out), where.reshape(*lead, *out).astype(jnp.int64)


def _declare_fractional(nd):
    @op(f"fractional_max_pool{nd}d(Tensor self, int[{nd}] kernel_size, int[{nd}] output_size, "
        "Tensor random_samples) -> (Tensor, Tensor)", public="_C._nn")
    def fractional_max_pool(self, kernel_size, output_size, random_samples):
        return _fractional(nd, self, kernel_size, output_size, random_samples)

    @fractional_max_pool.derivative
    def _(grad, self, result):
        return scatter_to_maxima(grad[0], result[1], self, nd), None


for _nd in (2, 3):
    _declare_fractional(_nd)
