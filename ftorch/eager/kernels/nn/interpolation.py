"""Resampling: interpolation to a new size, and sampling at the points of a grid.

Interpolation is separable: along each dimension every result is a weighted sum of a few inputs. A
mode is therefore a table of input indices and weights, made with NumPy in the precision that
PyTorch computes them in. For what is traced for many sizes at once, the tables are values (`_column`).
"""

from __future__ import annotations

import functools
import math
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.registry import op
from ...native import computed_once
from .._common import dtype_name, from_both_ends, is_floating, opmath, up
from .._primitives import is_for_all_sizes, table_of
from ._windows import sizes

HIGHEST = lax.Precision.HIGHEST  # whatever products are set to: to PyTorch resizing is none

_NAMES = {
    "nearest": "upsample_nearest{n}d", "nearest-exact": "_upsample_nearest_exact{n}d",
    "linear": "upsample_linear1d", "bilinear": "upsample_bilinear2d",
    "trilinear": "upsample_trilinear3d", "bicubic": "upsample_bicubic2d",
    "lanczos": "upsample_lanczos2d",
}


# --- tables ------------------------------------------------------------------------------


def _step(n, out, scale, align_corners, kind):
    """How far apart in the input two neighbouring results are."""
    if align_corners:
        return kind(n - 1) / kind(out - 1) if out > 1 else kind(0)
    return kind(1.0 / scale) if scale else kind(n) / kind(out)


def _nearest_table(n, out, scale, exact, image, kind):
    """Positions are rounded to float32, as PyTorch has them; those of images are computed in it.

    An image of once or twice the size repeats its rows, whatever the scale was.
    """
    if image and not exact and out in (n, 2 * n):
        return (np.arange(out) // (out // n))[:, None], None
    kind = np.float64 if kind is np.float64 and not image else np.float32
    places = np.arange(out, dtype=kind) + kind(0.5 if exact else 0)
    positions = (places * _step(n, out, scale, False, kind)).astype(np.float32)
    return np.minimum(positions.astype(np.int64), n - 1)[:, None], None


def _positions(n, out, scale, align_corners, kind):
    step = _step(n, out, scale, align_corners, kind)
    places = np.arange(out, dtype=kind)
    return step * places if align_corners else step * (places + kind(0.5)) - kind(0.5)


def _linear_table(n, out, scale, align_corners, kind):
    if n == out:
        return np.arange(n)[:, None], None
    position = np.maximum(_positions(n, out, scale, align_corners, kind), 0)
    low = np.minimum(position.astype(np.int64), n - 1)
    share = np.clip(position - low.astype(kind), 0, 1)
    return np.stack([low, np.minimum(low + 1, n - 1)], 1), np.stack([1 - share, share], 1)


def _cubic_weights(t, a):
    """Weights of the four neighbours of a point ``t`` past the second one."""
    near = [((a + 2) * x - (a + 3)) * x * x + 1 for x in (t, 1 - t)]
    far = [((a * x - 5 * a) * x + 8 * a) * x - 4 * a for x in (t + 1, 2 - t)]
    return [far[0], near[0], near[1], far[1]]


def _cubic_table(n, out, scale, align_corners, kind):
    position = _positions(n, out, scale, align_corners, kind)
    low = np.floor(position)
    index = low.astype(np.int64)[:, None] + np.arange(-1, 3)
    weights = _cubic_weights(position - low, kind(-0.75))
    return np.clip(index, 0, n - 1), np.stack(weights, 1).astype(kind)


def _triangle(x):
    return np.maximum(1 - np.abs(x), 0)


def _cubic(x):
    a, x = -0.5, np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _lanczos(x):
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


_FILTERS = {"bilinear": (_triangle, 2), "bicubic": (_cubic, 4), "lanczos": (_lanczos, 6)}


def _filter_table(n, out, scale, align_corners, kind, mode):
    """Antialiased: a filter as wide as the distance of the results, cut off at the borders."""
    shape, taps = _FILTERS[mode]
    step = _step(n, out, scale, align_corners, kind)
    stretch = max(step, kind(1))
    support = kind(taps / 2) * stretch
    center = step * (np.arange(out, dtype=kind) + kind(0.5))
    start = np.maximum((center - support + kind(0.5)).astype(np.int64), 0)
    stop = np.minimum((center + support + kind(0.5)).astype(np.int64), n)
    index = start[:, None] + np.arange(max(int((stop - start).max()), 1))
    weights = shape((index - center[:, None] + kind(0.5)) / stretch)
    weights = np.where(index < stop[:, None], weights, 0)
    weights = weights / weights.sum(1, keepdims=True)
    return np.clip(index, 0, n - 1), weights.astype(kind)


def _table(n, out, scale, mode, align_corners, antialias, kind):
    if antialias:
        return _filter_table(n, out, scale, align_corners, kind, mode)
    make = _cubic_table if mode == "bicubic" else _linear_table
    return make(n, out, scale, align_corners, kind)


# --- interpolation -----------------------------------------------------------------------


_FEW_TAPS = 4  # summed one by one


def _resample(x, axis, index, weights):
    """Weighted sums of the entries of one axis."""
    n, (out, taps) = x.shape[axis], index.shape
    if weights is None:
        if out % n == 0 and (index[:, 0] == np.arange(out) // (out // n)).all():
            return jnp.repeat(x, out // n, axis=axis) if out != n else x
        return jnp.take(x, index[:, 0], axis=axis)
    weights = weights.astype(x.dtype)
    shape = (-1, *(1,) * (x.ndim - axis - 1))
    if taps <= _FEW_TAPS:
        return sum(
            jnp.take(x, index[:, k], axis=axis) * weights[:, k].reshape(shape) for k in range(taps)
        )
    return jnp.moveaxis(jnp.tensordot(x, _matrix(n, index, weights), (axis, 1), precision=HIGHEST), -1, axis)


def _resample_bytes(x, axis, index, weights):
    """The same of bytes, rounded to bytes: weights are integers of 16 bits, as Pillow has them."""
    if weights is None:
        return _resample(x, axis, index, None)
    index, weights = _merged(index, weights)
    precision = 0
    while precision < 22 and int(0.5 + weights.max() * (1 << (precision + 1))) < 1 << 15:
        precision += 1
    weights = np.trunc(weights * (1 << precision) + np.copysign(0.5, weights))
    exact = np.int32 if index.shape[1] <= _FEW_TAPS else np.float64
    total = _resample(x.astype(exact), axis, index, weights) + (1 << precision >> 1)
    return jnp.clip(total // (1 << precision), 0, 255).astype(jnp.uint8)


def _merged(index, weights):
    """A table in which no entry occurs twice in a row: borders that stand for what is outside."""
    weights = weights.copy()
    for k in range(1, index.shape[1] if index.shape[1] <= _FEW_TAPS else 0):
        for j in range(k):
            same = index[:, j] == index[:, k]
            weights[same, j] += weights[same, k]
            weights[same, k] = 0
    return index, weights


def _matrix(n, index, weights):
    """The table as a dense (out, n) matrix."""
    dense = np.zeros((index.shape[0], n), weights.dtype)
    np.add.at(dense, (np.arange(index.shape[0])[:, None], index), weights)
    return dense


def _spread(grad, axis, n, index, weights):
    """The adjoint of `_resample`: a product with the transposed matrix, not a scatter."""
    out = index.shape[0]
    if weights is None and out == n and (index[:, 0] == np.arange(n)).all():
        return grad
    if weights is None and out % n == 0 and (index[:, 0] == np.arange(out) // (out // n)).all():
        tiles = grad.reshape(*grad.shape[:axis], n, out // n, *grad.shape[axis + 1 :])
        return tiles.sum(axis + 1, dtype=grad.dtype)
    weights = np.ones(index.shape, grad.dtype) if weights is None else weights.astype(grad.dtype)
    dense = _matrix(n, index, weights)
    return jnp.moveaxis(jnp.tensordot(grad, dense, (axis, 0), precision=HIGHEST), -1, axis)


def _tables(shape, size, mode, align_corners, scales, antialias, dtype):
    kind = np.dtype(opmath(dtype)).type if jnp.issubdtype(dtype, jnp.floating) else np.float64
    axes = zip(shape[2:], size, scales or (None,) * len(size), strict=True)
    if mode in ("nearest", "nearest-exact"):
        exact, image = mode == "nearest-exact", len(size) == 2
        return [_nearest_table(n, out, s, exact, image, np.dtype(dtype).type) for n, out, s in axes]
    return [_table(n, out, s, mode, align_corners, antialias, kind) for n, out, s in axes]


# --- the same for all sizes --------------------------------------------------------------


_MOST_ROWS = 1 << 14  # of a table that is kept: a MB


def _made(n, out, *mode):
    """A table, of which several parts are asked for, one after the other."""
    return (_kept_table if out <= _MOST_ROWS else _kept_table.__wrapped__)(n, out, *mode)


@functools.lru_cache(16)
def _kept_table(n, out, scale, mode, align_corners, kind, image):
    if mode.startswith("nearest"):
        index, weights = _nearest_table(n, out, scale, mode == "nearest-exact", image, kind)
    else:
        index, weights = _table(n, out, scale, mode, align_corners, False, kind)
        if weights is None:
            weights = np.ones(index.shape, kind)
        if mode != "bicubic" and index.shape[1] == 1:
            index, weights = np.repeat(index, 2, 1), np.concatenate([weights, 0 * weights], 1)
    for x in (index, weights):
        if x is not None:
            x.flags.writeable = False
    return index, weights


@functools.lru_cache(256)
def _column(what, place, *mode):
    """The function of (length, length of the result) that makes a part of a table: column ``place`` of its index or
    weights, or its matrix."""

    def part(n, out):
        index, weights = _made(n, out, *mode)
        if what == "index":
            return index[:, place]
        if what == "weights":
            return weights[:, place]
        return _matrix(n, index, np.ones(index.shape, mode[3]) if weights is None else weights)

    return part


def _modes(size, mode, align_corners, scales, dtype):
    """What a table is made from besides sizes, for each dimension behind the second."""
    is_nearest = mode.startswith("nearest")
    kind = np.dtype(dtype if is_nearest else opmath(dtype)).type
    return [(scale, mode, bool(align_corners), kind, len(size) == 2) for scale in scales or (None,) * len(size)]


def _resample_for_all_sizes(x, axis, out, mode):
    n = x.shape[axis]
    taps = 1 if mode[1].startswith("nearest") else 4 if mode[1] == "bicubic" else 2
    total = 0
    for k in range(taps):
        part = jnp.take(x, table_of(_column("index", k, *mode), n, out), axis=axis, mode="clip")
        if taps == 1:
            return part
        weights = table_of(_column("weights", k, *mode), n, out).astype(x.dtype)
        total = total + part * weights.reshape(-1, *(1,) * (x.ndim - axis - 1))
    return total


def _spread_for_all_sizes(grad, axis, n, mode):
    dense = table_of(_column("matrix", 0, *mode), n, grad.shape[axis]).astype(grad.dtype)
    return jnp.moveaxis(jnp.tensordot(grad, dense, (axis, 0), precision=HIGHEST), -1, axis)


# --- calls -------------------------------------------------------------------------------


def _check_interpolation(x, size, mode):
    axes = ("D", "H", "W")[3 - len(size) :]
    if any(n <= 0 for n in (*x.shape[2:], *size)):
        given, wanted = (
            ", ".join(f"{a}: {n}" for a, n in zip(axes, values, strict=True))
            for values in (x.shape[2:], size)
        )
        joined = "and " if len(size) == 1 else ""
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({given}) {joined}output "
            f"({wanted})"
        )
    if x.shape[1] == 0:
        raise RuntimeError(
            f"Non-empty {x.ndim}D data tensor expected but got a tensor with sizes {sizes(x.shape)}"
        )
    if x.dtype == jnp.uint8 and mode in ("linear", "trilinear"):
        raise NotImplementedError("\"compute_indices_weights_linear\" not implemented for 'Byte'")
    if not is_floating(x) and x.dtype != jnp.uint8:
        name = _NAMES[mode].format(n=len(size))
        last = "_channels_last" if len(size) == 2 and mode != "bicubic" else ""
        raise NotImplementedError(f"\"{name}{last}\" not implemented for '{dtype_name(x.dtype)}'")


@op("_interpolate(Tensor input, int[] size, str mode, bool align_corners, float[]? scales, "
    "bool antialias) -> Tensor", layout="channels")
def interpolate(input, size, mode, align_corners, scales, antialias):
    """Resamples the dimensions behind the second to ``size``."""
    _check_interpolation(input, size, mode)
    if is_for_all_sizes() and not antialias and is_floating(input):
        y = input if mode.startswith("nearest") else up(input)
        modes = _modes(size, mode, align_corners, scales, input.dtype)
        axes = range(2, y.ndim) if mode.startswith("nearest") else range(y.ndim - 1, 1, -1)
        for axis in axes:
            y = _resample_for_all_sizes(y, axis, size[axis - 2], modes[axis - 2])
        return y.astype(input.dtype)
    tables = _tables(input.shape, size, mode, align_corners, scales, antialias, input.dtype)
    if mode.startswith("nearest"):
        for axis, table in enumerate(tables, 2):
            input = _resample(input, axis, *table)
        return input
    resample, y = (_resample_bytes, input) if input.dtype == jnp.uint8 else (_resample, up(input))
    # The last dimension first: rows are contiguous.
    for axis in range(input.ndim - 1, 1, -1):
        y = resample(y, axis, *tables[axis - 2])
    return y.astype(input.dtype)


@interpolate.derivative
def _(grad, input, size, mode, align_corners, scales, antialias):
    if is_for_all_sizes() and not antialias:
        y = up(grad)
        for axis, how in enumerate(_modes(size, mode, align_corners, scales, input.dtype), 2):
            y = _spread_for_all_sizes(y, axis, input.shape[axis], how)
        return y.astype(input.dtype)
    tables = _tables(input.shape, size, mode, align_corners, scales, antialias, input.dtype)
    grad = up(grad)
    for axis, table in enumerate(tables, 2):
        grad = _spread(grad, axis, input.shape[axis], *table)
    return grad.astype(input.dtype)


# --- grids -------------------------------------------------------------------------------


# Both in the order of the numbers that ATen has for them.
SAMPLINGS = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
_ALIGN_WARNING = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. "
    "Please specify align_corners=True if the old behavior is desired. See the documentation of "
    "grid_sample for details."
)


def _check_grid(x, grid, mode, padding_mode):
    if mode not in SAMPLINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    if x.shape[:1] != grid.shape[:1]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with "
            f"sizes {sizes(x.shape)} and grid with sizes {sizes(grid.shape)}"
        )
    if grid.shape[-1] != x.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {x.ndim - 2} in last dimension, but got "
            f"grid with sizes {sizes(grid.shape)}"
        )
    for axis in range(2, x.ndim):
        if x.shape[axis] == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input "
                f"has sizes {sizes(x.shape)} with dimension {axis} being empty"
            )
    if x.ndim not in (4, 5) or grid.ndim != x.ndim:
        kind = "4D" if x.ndim == 4 else "5D" if x.ndim == 5 else "4D or 5D"
        raise RuntimeError(
            f"grid_sampler(): expected {kind} input and grid with same number of dimensions, but "
            f"got input with sizes {sizes(x.shape)} and grid with sizes {sizes(grid.shape)}"
        )
    if x.ndim == 5 and mode == "bicubic":
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if x.dtype != grid.dtype:
        want, have = dtype_name(x.dtype), dtype_name(grid.dtype)
        raise RuntimeError(f"expected scalar type {want} but found {have}")
    if not is_floating(x):
        kind = "2d" if x.ndim == 4 else "3d"
        raise NotImplementedError(
            f"\"grid_sampler_{kind}_cpu_kernel_impl\" not implemented for '{dtype_name(x.dtype)}'"
        )


def _unnormalize(coordinate, n, align_corners):
    if align_corners:
        return (coordinate + 1) / 2 * (n - 1)
    return ((coordinate + 1) * n - 1) / 2


def _clip(coordinate, n):
    """Into [0, n - 1], nan to 0; no gradient where it clips."""
    top = jnp.asarray(n - 1, coordinate.dtype)
    zero = jnp.zeros((), coordinate.dtype)
    return jnp.where(coordinate > 0, jnp.where(coordinate < top, coordinate, top), zero)


def _reflect(coordinate, n, align_corners):
    low, span = (0.0, float(n - 1)) if align_corners else (-0.5, float(n))
    if span == 0:
        return jnp.zeros_like(coordinate)
    distance = jnp.abs(coordinate - low)
    flips = jnp.floor(distance / span)
    extra = distance - flips * span
    return jnp.where(flips % 2 == 0, extra + low, span - extra + low)


def _padded(coordinate, n, padding_mode, align_corners):
    if padding_mode == "border":
        return _clip(coordinate, n)
    if padding_mode == "reflection":
        return _clip(_reflect(coordinate, n, align_corners), n)
    return coordinate


def _read(rows, corner, extent, weight):
    """Values (N, P, C) of (N, elements, C) at integer corners (N, P) given per dimension, times weights
    (N, P); 0 outside."""
    inside = jnp.ones((), bool)
    index = jnp.zeros((), jnp.int32)
    for c, n in zip(corner, extent, strict=True):
        inside = inside & (c >= 0) & (c <= n - 1)
        index = index * n + jnp.clip(jnp.nan_to_num(c), 0, n - 1).astype(jnp.int32)
    # Computed once, not for every channel.
    index, inside, weight = computed_once((index, inside, weight))
    values = jax.vmap(lambda image, i: jnp.take(image, i, axis=0, mode="clip"))(rows, index)
    return jnp.where(inside[..., None], values, jnp.zeros((), rows.dtype)) * weight[..., None]


def _sample_linear(rows, places, extent):
    places, low = computed_once((places, [jnp.floor(p) for p in places]))
    total = 0
    for corner in product((0, 1), repeat=len(extent)):
        weight = 1
        for c, p, a in zip(corner, places, low, strict=True):
            weight = weight * ((p - a) if c else (a + 1 - p))
        where = [a + c for a, c in zip(low, corner, strict=True)]
        total = total + _read(rows, where, extent, weight)
    return total


def _sample_cubic(rows, places, extent, padding_mode, align_corners):
    low = [jnp.floor(p) for p in places]
    weights = [_cubic_weights(p - a, -0.75) for p, a in zip(places, low, strict=True)]
    total = 0
    for i, j in product(range(4), repeat=2):
        where = [
            _padded(a + (k - 1), n, padding_mode, align_corners)
            for a, k, n in zip(low, (i, j), extent, strict=True)
        ]
        total = total + _read(rows, where, extent, weights[0][i] * weights[1][j])
    return total


@op('grid_sample(Tensor input, Tensor grid, str mode="bilinear", str padding_mode="zeros", '
    "bool? align_corners=None) -> Tensor", public="nn.functional")
def grid_sample(input, grid, mode, padding_mode, align_corners):
    """Values of ``input`` at the points of ``grid``, whose coordinates run from -1 to 1."""
    _check_grid(input, grid, mode, padding_mode)
    extent = input.shape[2:]
    out = grid.shape[1:-1]
    points = up(grid).reshape(grid.shape[0], math.prod(out), grid.shape[-1])
    rows = up(input).reshape(*input.shape[:2], math.prod(extent)).swapaxes(1, 2)
    rows = computed_once(rows)
    # The last coordinate of a point belongs to the first spatial dimension.
    places = [
        _unnormalize(points[..., len(extent) - 1 - i], n, bool(align_corners))
        for i, n in enumerate(extent)
    ]
    if mode == "bicubic":
        y = _sample_cubic(rows, places, extent, padding_mode, bool(align_corners))
    else:
        places = [
            _padded(p, n, padding_mode, bool(align_corners))
            for p, n in zip(places, extent, strict=True)
        ]
        if mode == "nearest":
            y = _read(rows, [jnp.round(p) for p in places], extent, jnp.ones_like(places[0]))
        else:
            y = _sample_linear(rows, places, extent)
    return y.swapaxes(1, 2).reshape(*input.shape[:2], *out).astype(input.dtype)


@grid_sample.notice
def _(mode, padding_mode, align_corners):
    known = mode in SAMPLINGS and padding_mode in PADDINGS
    return _ALIGN_WARNING if align_corners is None and known else None


def _check_affine(theta, size):
    if not is_floating(theta):
        from ...core.dtype import from_numpy

        raise ValueError(
            f"Expected theta to have floating point type, but got {from_numpy(theta.dtype)}"
        )
    if len(size) not in (4, 5):
        listed = ", ".join(map(str, size))
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size ({listed}{',' if len(size) == 1 else ''})."
        )
    nd = len(size) - 2
    if theta.ndim != 3 or theta.shape[1:] != (nd, nd + 1):
        raise ValueError(
            f"Expected a batch of {nd}D affine matrices of shape Nx{nd}x{nd + 1} for size "
            f"{tuple(size)}. Got torch.Size({sizes(theta.shape)})."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    if theta.shape[0] != size[0]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{size[0]}, {nd + 1}] "
            f"but got: [{theta.shape[0]}, {nd + 1}]."
        )


@op("affine_grid(Tensor theta, int[] size, bool? align_corners=None) -> Tensor",
    public="nn.functional")
def affine_grid(theta, size, align_corners):
    """The grid of points that affine maps take a regular grid to."""
    _check_affine(theta, size)
    dtype = np.dtype(opmath(theta.dtype))
    axes, one = [], jnp.ones((), dtype)
    for n in size[2:]:
        steps = from_both_ends(-one, one, n) if n > 1 else jnp.zeros(1, dtype)
        axes.append(steps if align_corners else steps * (n - 1) / lax.optimization_barrier(one * n))
    points = jnp.stack([*reversed(jnp.meshgrid(*axes, indexing="ij")), jnp.ones(size[2:], dtype)], -1)
    base = points.reshape(-1, len(size) - 1)
    grid = jnp.matmul(base, up(theta).swapaxes(1, 2), precision=HIGHEST)
    return grid.reshape(size[0], *size[2:], len(size) - 2).astype(theta.dtype)


@affine_grid.notice
def _(align_corners, size):
    if align_corners and min(size[2:]) == 1:
        return (
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. This is not an "
            "intended use case of affine_grid. See the documentation of affine_grid for details."
        )
    return _ALIGN_WARNING if align_corners is None else None
