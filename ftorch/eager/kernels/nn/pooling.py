"""Max and average pooling."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.registry import op
from ...native import computed_once
from .._common import as_lines, as_volumes, dtype_name, is_complex, is_integral, up
from .._primitives import is_for_all_sizes, primitive, table_of
from ..reduction.reductions import put_along
from ._windows import ntuple, sizes

# Beyond this many elements a window is gathered, not unrolled into slices.
_UNROLL = 64
_FEW = 8  # elements of a stride that are put next to each other one by one
_AXES = {1: "W", 2: "HW", 3: "THW"}
_WORDS = {1: "one", 2: "two", 3: "three"}


class Window(NamedTuple):
    """Where the windows of a pooling lie, by spatial dimension."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    extent: tuple[int, ...]  # of the input
    out: tuple[int, ...]  # how many windows

    @property
    def pads(self):
        """Padding before and after (negative: what no window reaches)."""
        return [
            (p, (o - 1) * s + d * (k - 1) + 1 - n - p)
            for k, s, p, d, n, o in zip(*self, strict=True)
        ]

    def tables(self):
        """For each dimension the input index of (window, element), and whether there is one."""
        found = []
        for k, s, p, d, n, o in zip(*self, strict=True):
            index = np.arange(o)[:, None] * s - p + np.arange(k) * d
            found.append((np.clip(index, 0, n - 1), (index >= 0) & (index < n)))
        return found


def _output_extent(n, k, s, p, d, ceil_mode):
    """Number of windows: rounded up, the last one must still start inside the left-padded input."""
    out = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
    return out - 1 if ceil_mode and (out - 1) * s >= n + p else out


# --- argument checks ---------------------------------------------------------------------


def _window(name, x, kernel_size, stride, padding, dilation, ceil_mode, nd, indices=False):
    """The window of a pooling after PyTorch's checks of its arguments."""
    kernel = _per_dimension(name, "kernel_size", kernel_size, nd)
    stride = _per_dimension(name, "stride", stride, nd) if stride not in (None, (), []) else kernel
    padding = _per_dimension(name, "padding", padding, nd)
    dilation = _per_dimension(name, "dilation", dilation, nd)
    if name == "max_pool1d":
        _check_max_pool1d(x, kernel[0], stride[0], padding[0], dilation[0])
    else:
        _check_rank(name, x, nd)
        _check_values(kernel, stride, padding, dilation)
        _check_nonempty(name, x, nd)
    extent = x.shape[x.ndim - nd :]
    out = tuple(
        _output_extent(n, k, s, p, d, ceil_mode)
        for n, k, s, p, d in zip(extent, kernel, stride, padding, dilation, strict=True)
    )
    _check_output(name, x, out, nd, kernel, indices)
    return Window(kernel, stride, padding, dilation, extent, out)


def _per_dimension(name, argument, value, nd):
    values = ntuple(value, nd)
    if len(values) == nd:
        return values
    if name == "max_pool1d":
        none = "None, an int, list of ints, or" if argument == "stride" else "an int, list of ints"
        none = none + "," if argument == "padding" else none
        tail = " tuple of ints" if argument in ("stride",) else " or tuple of ints"
        raise RuntimeError(
            f"max_pool1d() {argument} must be {none}{tail} of size 1 but got size {len(values)}"
        )
    if nd == 1:
        raise RuntimeError(
            f"{name}() argument '{argument}' should contain one int (got {len(values)})"
        )
    either = "" if name == "avg_pool3d" else "either "
    omitted = "omitted, " if argument == "stride" else ""
    must = f"be {either}" if argument == "dilation" else f"{either}be "
    raise RuntimeError(
        f"{name}: {argument} must {must}{omitted}a single int, or a tuple of {_WORDS[nd]} ints"
    )


def _check_max_pool1d(x, kernel, stride, padding, dilation):
    if x.ndim not in (2, 3) or 0 in x.shape[-2:]:
        raise RuntimeError(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{sizes(x.shape)}"
        )
    for argument, value in (("kernel_size", kernel), ("stride", stride), ("dilation", dilation)):
        if value <= 0:
            raise RuntimeError(f"max_pool1d() {argument} must be greater than zero, but got {value}")
    _check_padding(kernel, padding, dilation)


def _check_rank(name, x, nd):
    if nd == 1 and x.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {x.ndim}-dimensional tensor for argument #1 "
            f"'self' (while checking arguments for {name})"
        )
    if x.ndim not in (nd + 1, nd + 2):
        raise RuntimeError(
            f"non-empty {nd + 1}D or {nd + 2}D (batch mode) tensor expected for input"
        )


def _check_nonempty(name, x, nd):
    if 0 not in x.shape[-nd - 1 :]:
        return
    if nd == 3:
        where = "max_pool3d_with_indices_out_cpu_template" if "max" in name else name
        axis = x.shape[-nd - 1 :].index(0)
        raise RuntimeError(
            f"{where}(): Expected input's non-batch dimensions to have positive length, but input "
            f"has a shape of {sizes(x.shape)} and non-batch dimension {axis} has length zero!"
        )
    shape = x.shape if nd == 2 else (*x.shape[:-1], 1, x.shape[-1])
    raise RuntimeError(
        "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but "
        f"got:{sizes(shape)}"
    )


def _check_values(kernel, stride, padding, dilation):
    axes = _AXES[len(kernel)]

    def listed(prefix, values):
        return " ".join(f"{prefix}{a}: {v}" for a, v in zip(axes, values, strict=True))

    if 0 in stride:
        raise RuntimeError("stride should not be zero")
    for prefix, name, values in (
        ("k", "kernel size", kernel), ("d", "stride", stride), ("dilation", "dilation", dilation)
    ):
        if any(v <= 0 for v in values):
            raise RuntimeError(
                f"{name} should be greater than zero, but got {listed(prefix, values)}"
            )
    for k, p, d in zip(kernel, padding, dilation, strict=True):
        _check_padding(k, p, d)


def _check_padding(kernel, pad, dilation):
    if pad < 0:
        raise RuntimeError(f"pad must be non-negative, but got pad: {pad}")
    if pad > (dilation * (kernel - 1) + 1) // 2:
        raise RuntimeError(
            f"pad should be at most half of effective kernel size, but got pad={pad}, "
            f"kernel_size={kernel} and dilation={dilation}"
        )


def _check_output(name, x, out, nd, kernel, indices=False):
    if all(o >= 1 for o in out):
        return
    if name == "max_pool1d" and not indices:
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {out[0]}")
    if name == "avg_pool3d":
        image, window = (
            " ".join(f"{p}{a}: {v}" for a, v in zip("THW", values, strict=True))
            for p, values in (("", x.shape[-3:]), ("k", kernel))
        )
        raise RuntimeError(f"input image ({image}) smaller than kernel size ({window})")
    channels, one = x.shape[-nd - 1], (1,) if nd == 1 else ()
    given, calculated = (
        "x".join(map(str, (channels, *one, *v))) for v in (x.shape[-nd:], out)
    )
    raise RuntimeError(
        f"Given input size: ({given}). Calculated output size: ({calculated}). Output size is too "
        "small"
    )


def check_dtype(kernel_name, x, *, integers):
    """Raises PyTorch's error for a dtype its kernel does not exist for."""
    if is_complex(x) or x.dtype == jnp.bool_ or (is_integral(x) and x.dtype not in integers):
        raise NotImplementedError(f"\"{kernel_name}\" not implemented for '{dtype_name(x.dtype)}'")


# --- windows as slices or as gathered elements -------------------------------------------


def _pad(x, pads, value):
    if not any(map(any, pads)) and not is_for_all_sizes():
        return x
    lead = [(0, 0, 0)] * (x.ndim - len(pads))
    return lax.pad(x, jnp.asarray(value, x.dtype), [*lead, *((a, b, 0) for a, b in pads)])


def _slices(padded, window):
    """The elements of all windows, one array per offset in the window, in row-major order."""
    nd = len(window.kernel)
    lead = padded.shape[: padded.ndim - nd]
    for offset in np.ndindex(*window.kernel):
        start = [j * d for j, d in zip(offset, window.dilation, strict=True)]
        stop = [a + (o - 1) * s + 1 for a, o, s in zip(start, window.out, window.stride, strict=True)]
        yield lax.slice(
            padded, (0,) * len(lead) + tuple(start), (*lead, *stop), (1,) * len(lead) + window.stride
        )


def gather(x, tables):
    """The elements of all windows, (..., *out, K), and whether they exist, (*out, K)."""
    nd = len(tables)
    lead = x.ndim - nd
    mask = np.ones((1,) * 2 * nd, bool)
    for i, (index, valid) in enumerate(tables):
        x = jnp.take(x, index, axis=lead + 2 * i)
        shape = [1] * 2 * nd
        shape[i], shape[nd + i] = valid.shape
        mask = mask & valid.reshape(shape)
    order = [*range(lead), *range(lead, x.ndim, 2), *range(lead + 1, x.ndim, 2)]
    x = x.transpose(order)
    return x.reshape(*x.shape[: lead + nd], -1), mask.reshape(*mask.shape[:nd], -1)


def _flat_index(tables, extent):
    """The index in the flattened spatial plane of every window element, (*out, K)."""
    nd = len(tables)
    flat = np.zeros((1,) * 2 * nd, np.int64)
    for i, (index, _) in enumerate(tables):
        shape = [1] * 2 * nd
        shape[i], shape[nd + i] = index.shape
        flat = flat * extent[i] + index.reshape(shape)
    return flat.reshape(*flat.shape[:nd], -1)


def lowest_value(dtype):
    return np.iinfo(dtype).min if jnp.issubdtype(dtype, jnp.integer) else -np.inf


# --- max pooling -------------------------------------------------------------------------


def _exceeds(value, best):
    """Whether a later element replaces the maximum: nan does, an equal one does not.

    Written with `where`: compiled loops over what depends on an "or" here take one element at a time.
    """
    return (value > best) if is_integral(value) else jnp.where(jnp.isnan(value), True, value > best)


def _max_values(x, window):
    if math.prod(window.kernel) > _UNROLL:
        return max_of_tables(x, window.tables(), window.extent)[0]
    best = None
    for value in _slices(_pad(x, window.pads, lowest_value(x.dtype)), window):
        best = value if best is None else jnp.where(_exceeds(value, best), value, best)
    return best


def _max_choice(x, window):
    """Maxima, and which element of its window each is (a number below the window's size)."""
    first = np.argmax(_mask(window), -1).astype(np.int32)
    best = which = None
    for k, value in enumerate(_slices(_pad(x, window.pads, lowest_value(x.dtype)), window)):
        if best is None:
            best, which = value, jnp.broadcast_to(first, value.shape)
            continue
        better = _exceeds(value, best)
        best, which = jnp.where(better, value, best), jnp.where(better, np.int32(k), which)
    return best, which


def _mask(window):
    nd = len(window.kernel)
    mask = np.ones((1,) * 2 * nd, bool)
    for i, (_, valid) in enumerate(window.tables()):
        shape = [1] * 2 * nd
        shape[i], shape[nd + i] = valid.shape
        mask = mask & valid.reshape(shape)
    return mask.reshape(*mask.shape[:nd], -1)


def max_of_tables(x, tables, extent):
    """Maxima and their flat indices, for windows given element by element."""
    values, mask = gather(x, tables)
    lowest = jnp.asarray(lowest_value(x.dtype), x.dtype)
    values = jnp.where(mask, values, lowest)
    which = jnp.argmax(values, -1)
    best = jnp.take_along_axis(values, which[..., None], -1)[..., 0]
    which = jnp.where(best == lowest, mask.argmax(-1), which)
    flat = jnp.broadcast_to(_flat_index(tables, extent), values.shape)
    return best, jnp.take_along_axis(flat, which[..., None], -1)[..., 0]


def max_with_indices(x, window, dtype=np.int64):
    if math.prod(window.kernel) > _UNROLL:
        return max_of_tables(x, window.tables(), window.extent)
    best, which = _max_choice(x, window)
    flat = jnp.zeros((), dtype)
    position = jnp.unravel_index(which.astype(dtype), window.kernel)
    nd = len(window.kernel)
    for i, (j, s, p, d, n) in enumerate(
        zip(position, window.stride, window.padding, window.dilation, window.extent, strict=True)
    ):
        starts = (np.arange(window.out[i]) * s - p).reshape(-1, *(1,) * (nd - i - 1)).astype(dtype)
        flat = flat * n + (starts + j * d)
    return best, flat


def scatter_to_maxima(grad, indices, x, nd):
    """Sums ``grad`` into an array shaped like ``x`` at flat spatial indices."""
    lead = x.shape[: x.ndim - nd]
    zeros = jnp.zeros((math.prod(lead), math.prod(x.shape[x.ndim - nd :])), grad.dtype)
    flat = indices.reshape(zeros.shape[0], math.prod(indices.shape[x.ndim - nd :]))
    return put_along("add", zeros, flat, grad.reshape(flat.shape), 1).reshape(x.shape)


def _gradient_of_disjoint_windows(grad, x, window):
    """The gradient of windows that do not overlap: each element is met by one at most."""
    which = computed_once(_max_choice(x, window)[1])
    zero = jnp.zeros((), grad.dtype)
    parts = [
        jnp.where(which == np.ravel_multi_index(j, window.kernel), grad, zero)
        if all(a < k for a, k in zip(j, window.kernel, strict=True)) else jnp.zeros_like(grad)
        for j in np.ndindex(*window.stride)
    ]
    lead = x.ndim - len(window.kernel)
    for i in reversed(range(len(window.kernel))):  # the elements of a stride come between the windows
        s = window.stride[i]
        shape = list(parts[0].shape)
        shape[lead + i] *= s
        groups = [parts[j : j + s] for j in range(0, len(parts), s)]
        parts = [jnp.stack(group, lead + i + 1).reshape(shape) for group in groups]
    pads = [
        (-p, n + p - o * s)
        for n, p, o, s in zip(window.extent, window.padding, window.out, window.stride, strict=True)
    ]
    return _pad(parts[0], pads, 0)


def _max_gradient(grad, x, window):
    steps = zip(window.kernel, window.stride, window.dilation, strict=True)
    if all(k <= s and d == 1 for k, s, d in steps) and math.prod(window.stride) <= _FEW:
        return _gradient_of_disjoint_windows(grad, x, window)
    dtype = np.int32 if math.prod(window.extent) < 2**31 else np.int64
    return scatter_to_maxima(grad, max_with_indices(x, window, dtype)[1], x, len(window.kernel))


_planes = primitive("max_pool", _max_values)
_planes_gradient = primitive(
    "max_pool_gradient", _max_gradient, lambda grad, x: [jax.ShapeDtypeStruct(x.shape, grad.dtype)]
)


def _pooled(x, window):
    """The maxima of windows; a primitive of planes where the package has a kernel."""
    if x.dtype != np.float32 or x.size == 0:
        return _max_values(x, window)
    lead = x.shape[: x.ndim - len(window.extent)]
    return _planes.bind(x.reshape(-1, *window.extent), window=window)[0].reshape(*lead, *window.out)


def _pooled_gradient(grad, x, window):
    if x.dtype != np.float32 or grad.dtype != np.float32 or x.size == 0:
        return _max_gradient(grad, x, window)
    grad = grad.reshape(-1, *window.out)
    return _planes_gradient.bind(grad, x.reshape(-1, *window.extent), window=window)[0].reshape(x.shape)


def _declare_max_pool(nd):
    tail = (
        f"(Tensor self, int[{nd}] kernel_size, int[{nd}] stride=[], int[{nd}] padding=0, "
        f"int[{nd}] dilation=1, bool ceil_mode=False)"
    )
    name = f"max_pool{nd}d"
    dtypes = () if nd == 1 else (np.int64, np.int32, np.int16, np.int8, np.uint8)

    def prepare(self, *arguments, indices=False):
        window = _window(name, self, *arguments, nd, indices)
        check_dtype("max_pool1d_impl" if nd == 1 else name, self, integers=dtypes)
        return window

    @op(f"{name}{tail} -> Tensor", layout=as_volumes if nd == 3 else "channels")
    def max_pool(self, kernel_size, stride, padding, dilation, ceil_mode):
        return _pooled(self, prepare(self, kernel_size, stride, padding, dilation, ceil_mode))

    @max_pool.derivative
    def _(grad, self, kernel_size, stride, padding, dilation, ceil_mode):
        window = prepare(self, kernel_size, stride, padding, dilation, ceil_mode)
        return _pooled_gradient(grad, self, window)

    @op(f"{name}_with_indices{tail} -> (Tensor, Tensor)", public="." if nd == 1 else "_C._nn",
        layout={1: as_lines, 2: "channels", 3: as_volumes}[nd])
    def max_pool_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode):
        window = prepare(self, kernel_size, stride, padding, dilation, ceil_mode, indices=True)
        return max_with_indices(self, window)

    @max_pool_with_indices.derivative
    def _(grad, self, kernel_size, stride, padding, dilation, ceil_mode):
        window = prepare(self, kernel_size, stride, padding, dilation, ceil_mode)
        return _pooled_gradient(grad[0], self, window)


# --- average pooling ---------------------------------------------------------------------


def window_sums(x, window):
    """Sums over the windows: at once over all dimensions that have one window, then over one after the other."""
    lead = x.ndim - len(window.kernel)
    single = [i for i, count in enumerate(window.out) if count == 1]
    if single:
        pads = [pad if i in single else (0, 0) for i, pad in enumerate(window.pads)]
        x = _pad(x, pads, 0).sum([lead + i for i in single], keepdims=True, dtype=x.dtype)
    for i, (k, s, p, _, n, o) in enumerate(zip(*window, strict=True)):
        if o == 1:
            continue
        axis, one = lead + i, Window((k,), (s,), (p,), (1,), (n,), (o,))
        x = jnp.moveaxis(x, axis, -1)
        x = _pad(x, one.pads, 0)
        if k > _UNROLL:
            index = np.arange(o)[:, None] * s + np.arange(k)
            x = jnp.take(x, index, axis=-1).sum(-1, dtype=x.dtype)
        else:
            x = sum(_slices(x, one))
        x = jnp.moveaxis(x, -1, axis)
    return x


def _window_counts(window, count_include_pad):
    """How many elements the average of each window divides by, (*out)."""
    counts = np.ones((), np.int64)
    for k, s, p, _, n, o in zip(*window, strict=True):
        counts = counts[..., None] * table_of(_counts(k, s, p, count_include_pad), n, o)
    return counts


@functools.cache
def _counts(k, s, p, count_include_pad):
    """The function of a dimension's size and number of windows that gives the windows' counts along it."""

    def counts(n, o):
        start = np.arange(o) * s - p
        stop = np.minimum(start + k, n + p)
        if not count_include_pad:
            start, stop = np.maximum(start, 0), np.minimum(stop, n)
        return stop - start

    return counts


def _avg_pool(nd, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor):
    window = _window(f"avg_pool{nd}d", self, kernel_size, stride, padding, 1, ceil_mode, nd)
    kernel_name = "avg_pool3d_out_frame" if nd == 3 else "avg_pool2d"
    check_dtype(kernel_name, self, integers=(np.int64,))
    if divisor == 0:
        raise RuntimeError("divisor must be not zero")
    if divisor is not None:
        counts = divisor
    elif not any(window.padding) and not ceil_mode:
        counts = math.prod(window.kernel)
    else:
        counts = _window_counts(window, count_include_pad)
    sums = window_sums(up(self), window)
    counts = jnp.asarray(counts, sums.dtype)
    return lax.div(sums, jnp.broadcast_to(counts, sums.shape)).astype(self.dtype)


_AVG = "int[{n}] kernel_size, int[{n}] stride=[], int[{n}] padding=0, bool ceil_mode=False, " \
       "bool count_include_pad=True"


def _single_windows(nd, x, kernel_size, stride, padding, ceil_mode):
    """Which dimensions have one window: a way that average pooling goes."""
    try:
        out = _window(f"avg_pool{nd}d", x, kernel_size, stride, padding, 1, ceil_mode, nd).out
    except RuntimeError:
        return None
    return tuple([o == 1 for o in out])


@op(f"avg_pool1d(Tensor self, {_AVG.format(n=1)}) -> Tensor", public=". nn.functional", layout=as_lines)
def avg_pool1d(self, kernel_size, stride, padding, ceil_mode, count_include_pad):
    return _avg_pool(1, self, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@avg_pool1d.by_regime
def _(self, kernel_size, stride, padding, ceil_mode):
    return _single_windows(1, self, kernel_size, stride, padding, ceil_mode)


def _declare_avg_pool(nd):
    @op(f"avg_pool{nd}d(Tensor self, {_AVG.format(n=nd)}, int? divisor_override=None) -> Tensor",
        forms="function out", public="nn.functional _C._nn", layout="contiguous" if nd == 3 else "channels")
    def avg_pool(self, kernel_size, stride, padding, ceil_mode, count_include_pad,
                 divisor_override):
        return _avg_pool(
            nd, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )

    @avg_pool.by_regime
    def _(self, kernel_size, stride, padding, ceil_mode):
        return _single_windows(nd, self, kernel_size, stride, padding, ceil_mode)


for _nd in (1, 2, 3):
    _declare_max_pool(_nd)
for _nd in (2, 3):
    _declare_avg_pool(_nd)
