"""Adaptive pooling: a given number of windows, as evenly spread as they can be."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from ...core.registry import op
from .._common import as_lines, up
from .._primitives import table_of
from ._windows import ntuple, sizes
from .pooling import (
    Window,
    check_dtype,
    gather,
    max_of_tables,
    max_with_indices,
    scatter_to_maxima,
    window_sums,
)


def _adaptive_tables(extent, out):
    """Window elements where windows run from floor(o n / out) to ceil((o + 1) n / out)."""
    return [(table_of(_places, n, o), table_of(_exist, n, o)) for n, o in zip(extent, out, strict=True)]


def _places(n, out):
    """The indices of the elements of each window, of as many as the widest may have."""
    return np.clip(_starts(n, out) + np.arange(-(-n // max(out, 1)) + 1), 0, max(n - 1, 0))


def _exist(n, out):
    """Which of `_places` are elements of the window."""
    stops = -(-(np.arange(out) + 1) * n // max(out, 1))
    return _starts(n, out) + np.arange(-(-n // max(out, 1)) + 1) < stops[:, None]


def _starts(n, out):
    return (np.arange(out) * n // max(out, 1))[:, None]


def _even_window(extent, out):
    """The ordinary window that adaptive pooling is where every extent divides, else None."""
    if any(o == 0 or n % o for n, o in zip(extent, out, strict=True)):
        return None
    kernel = tuple(n // o for n, o in zip(extent, out, strict=True))
    nd = len(extent)
    return Window(kernel, kernel, (0,) * nd, (1,) * nd, extent, out)


def _check_adaptive(name, x, output_size, nd):
    out = ntuple(output_size, nd) if nd == 1 or isinstance(output_size, int) else output_size
    is_max = "max" in name
    if nd == 1 and len(out) != 1:
        raise RuntimeError(
            f"{name}() argument 'output_size' should contain one int (got {len(out)})"
        )
    if nd == 1 and x.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {x.ndim}-dimensional tensor for argument #1 "
            f"'self' (while checking arguments for {name})"
        )
    if x.ndim not in (nd + 1, nd + 2):
        raise RuntimeError(
            f"{name}(): Expected {nd + 1}D or {nd + 2}D tensor, but got{':' if is_max else ''} "
            f"{sizes(x.shape)}"
        )
    if len(out) != nd:
        internal = f"(): internal error: output_size.size() must be {nd}"
        raise RuntimeError(name + (internal if is_max else f": output_size must be {nd}"))
    _check_adaptive_extents(name, x, nd, is_max)
    if any(o < 0 for o in out):
        padded = (1, *out) if nd == 1 else tuple(out)
        if is_max:
            shape = sizes((*x.shape[: x.ndim - nd], *padded))
            negative = next(o for o in padded if o < 0)
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {negative}: {shape}"
            )
        listed = "{" + ", ".join(map(str, padded[:2])) + "".join(f",{o}" for o in padded[2:]) + "}"
        raise RuntimeError(
            f"{name.replace('1d', '2d')}: elements of output_size must be greater than or equal to "
            f"0 but received {listed}"
        )
    _check_countable((*x.shape[: x.ndim - nd], *out), x.dtype.itemsize, is_max)
    kernel_name = f"{name}_cpu" if nd == 3 else name.replace("1d", "2d")
    check_dtype(kernel_name, x, integers=())
    return tuple(out)


def _check_countable(shape, itemsize, is_max):
    count = math.prod([n for n in shape if isinstance(n, int)])  # sizes of an export may be symbols
    if count >= 1 << 63 and not is_max:
        raise RuntimeError("numel: integer multiplication overflow")
    if count * itemsize >= 1 << 63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={sizes(shape)}")


def _check_adaptive_extents(name, x, nd, is_max):
    # Channels count where PyTorch says so: everywhere but in average pooling of planes.
    first = x.ndim - nd - (1 if is_max or nd == 3 else 0)
    first = max(first, 1) if x.ndim == nd + 2 else (1 if x.ndim == nd + 1 else first)
    axis = next((i for i in range(first, x.ndim) if x.shape[i] == 0), None)
    if axis is None:
        return
    shape = x.shape
    if nd == 1 and not is_max:  # runs as two-dimensional
        name, shape, axis = "adaptive_avg_pool2d", (*shape[:-1], 1, shape[-1]), axis + 1
    raise RuntimeError(
        f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has "
        f"sizes {sizes(shape)} with dimension {axis} being empty"
    )


def _adaptive_avg(nd, name, x, output_size):
    out = _check_adaptive(name, x, output_size, nd)
    lead, extent = x.shape[: x.ndim - nd], x.shape[x.ndim - nd :]
    if 0 in out or 0 in lead:
        return jnp.zeros((*lead, *out), x.dtype)
    y = up(x)
    window = _even_window(extent, out)
    if window is not None:
        y = window_sums(y, window)
        return (y / np.asarray(math.prod(window.kernel), y.dtype)).astype(x.dtype)
    for i, table in enumerate(_adaptive_tables(extent, out)):
        axis = len(lead) + i
        values, mask = gather(jnp.moveaxis(y, axis, -1), [table])
        sums = jnp.where(mask, values, jnp.zeros((), y.dtype)).sum(-1, dtype=y.dtype)
        y = jnp.moveaxis(sums / mask.sum(-1).astype(y.dtype), -1, axis)
    return y.astype(x.dtype)


def _adaptive_max(nd, name, x, output_size):
    out = _check_adaptive(name, x, output_size, nd)
    lead, extent = x.shape[: x.ndim - nd], x.shape[x.ndim - nd :]
    if 0 in out or 0 in lead:
        return jnp.zeros((*lead, *out), x.dtype), jnp.zeros((*lead, *out), jnp.int64)
    if all(o == 1 for o in out):
        flat = x.reshape(*lead, math.prod(extent))
        which = jnp.argmax(flat, -1, keepdims=True)
        best = jnp.take_along_axis(flat, which, -1)
        return tuple([y.reshape(*lead, *out) for y in (best, which.astype(np.int64))])
    window = _even_window(extent, out)
    if window is not None:
        return max_with_indices(x, window)
    return max_of_tables(x, _adaptive_tables(extent, out), extent)


def _declare_adaptive(nd):
    average, maximum = f"adaptive_avg_pool{nd}d", f"adaptive_max_pool{nd}d"
    layout = {1: as_lines, 2: "channels", 3: "contiguous"}[nd]

    @op(f"{average}(Tensor self, int[{nd}] output_size) -> Tensor",
        public=". nn.functional" if nd == 1 else "_C._nn", layout=layout)
    def adaptive_avg_pool(self, output_size):
        return _adaptive_avg(nd, average, self, output_size)

    @op(f"{maximum}(Tensor self, int[{nd}] output_size) -> (Tensor, Tensor)",
        public="." if nd == 1 else "_C._nn", layout=layout)
    def adaptive_max_pool(self, output_size):
        return _adaptive_max(nd, maximum, self, output_size)

    for pool in (adaptive_avg_pool, adaptive_max_pool):

        @pool.by_regime
        def _(self, output_size):
            out = ntuple(output_size, nd) if isinstance(output_size, int) else output_size
            return all(o > 0 and n % o == 0 for n, o in zip(self.shape[self.ndim - nd :], out))

    @adaptive_max_pool.derivative
    def _(grad, self, result, output_size):
        return scatter_to_maxima(grad[0], result[1], self, nd)


for _nd in (1, 2, 3):
    _declare_adaptive(_nd)
