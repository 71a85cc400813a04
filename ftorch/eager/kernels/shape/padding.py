"""Padding, and images rearranged: shuffled pixels and channels, sliding blocks as columns."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.registry import op
from .._common import as_images, in_order, is_complex, is_floating, up
from ..indexing.scatter import not_implemented, number

# --- padding -------------------------------------------------------------------------


def _pairs(pad, ndim):
    """Padding (last dimension first) as (before, after) for each dimension in order."""
    pairs = list(zip(pad[::2], pad[1::2], strict=True))
    return [(0, 0)] * (ndim - len(pairs)) + pairs[::-1]


def _crop(x, pairs):
    """Negative padding: elements taken away at both ends."""
    for n, (before, after) in zip(x.shape, pairs, strict=True):
        if n + min(before, 0) + min(after, 0) < 0:
            raise RuntimeError("narrow(): length must be non-negative.")
    return x[tuple(
        slice(max(-before, 0), n - max(-after, 0))
        for n, (before, after) in zip(x.shape, pairs, strict=True)
    )]


def _positive(pairs):
    return [(max(before, 0), max(after, 0)) for before, after in pairs]


def _constant(x, pad, value):
    if len(pad) % 2:
        raise RuntimeError("Length of pad must be even but instead it equals " + str(len(pad)))
    if len(pad) > 2 * x.ndim:
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad "
            f"length is {len(pad)} while the input has {x.ndim} dimensions."
        )
    pairs = _pairs(pad, x.ndim)
    kept = _crop(x, pairs)  # first: it looks at sizes (`size_errors`)
    fill = jnp.zeros((), x.dtype) if value is None else number(value, x)
    return lax.pad(kept, fill, [(*pair, 0) for pair in _positive(pairs)])


@op("constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor", layout=as_images)
def constant_pad_nd(self, pad, value):
    """`nn.functional.pad` with a constant (``torch.constant_pad_nd``)."""
    return _constant(self, pad, value)


constant_pad_nd.fits("value")


def _check_image(x, spatial):
    """Batches may be empty, nothing else may."""
    batch = x.ndim == spatial + 2
    if x.ndim not in (spatial + 1, spatial + 2) or 0 in x.shape[batch:]:
        raise RuntimeError(
            f"Expected {spatial + 1}D or {spatial + 2}D (batch mode) tensor with possibly 0 batch "
            "size and other non-zero dimensions for input, but got: " + str(list(x.shape))
        )


_SHOWN = ("W: {}", "H: {}, W: {}", "D: {} H: {}, W: {}")


def _check_is_left(x, pairs, spatial, end=""):
    """Raises RuntimeError where negative padding leaves nothing along all dimensions."""
    sizes = [n + sum(pair) for n, pair in zip(x.shape, pairs, strict=True)][-spatial:]
    if max(sizes) < 1:
        before = _SHOWN[spatial - 1].format(*x.shape[-spatial:]) + end
        after = " ".join(f"{name}: {n}" for name, n in zip("DHW"[-spatial:], sizes, strict=True))
        raise RuntimeError(f"input ({before}) is too small. Calculated output {after}")


def _reflect(x, pairs, spatial):
    _check_image(x, spatial)
    if x.dtype == np.bool_:
        raise not_implemented(f"reflection_pad{spatial}d", x)
    for d in reversed(range(x.ndim - spatial, x.ndim)):
        before, after = pairs[d]
        if before >= x.shape[d] or after >= x.shape[d]:
            raise RuntimeError(
                f"Argument #{4 + 2 * (x.ndim - 1 - d)}: Padding size should be less than the "
                f"corresponding input dimension, but got: padding ({before}, {after}) at dimension "
                f"{d} of input {list(x.shape)}"
            )
    _check_is_left(x, pairs, spatial)
    return _crop(jnp.pad(x, _positive(pairs), mode="reflect"), pairs)


def _replicate(x, pairs, spatial):
    _check_image(x, spatial)
    if x.dtype == np.bool_:
        raise not_implemented(f"replication_pad{spatial}d", x)
    _check_is_left(x, pairs, spatial, " " if spatial == 2 else "")
    return _crop(jnp.pad(x, _positive(pairs), mode="edge"), pairs)


def _circular(x, pairs, spatial):
    for d in range(x.ndim - spatial, x.ndim):
        before, after = pairs[d]
        if before > x.shape[d] or after > x.shape[d]:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if x.shape[d] + before + after < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")
    return jnp.pad(_crop(x, pairs), _positive(pairs), mode="wrap")


_MODES = {"reflect": _reflect, "replicate": _replicate, "circular": _circular}


def _padded(inputs, static, shapes):
    if static["mode"] == "constant" and not any(static.get("pad") or (1,)):
        return in_order(inputs, static, shapes)  # a copy
    return [None] if static["mode"] == "circular" else as_images(inputs, static, shapes)


_padded.is_basic = True  # type: ignore[attr-defined]


@op('pad(Tensor input, int[] pad, str mode="constant", Scalar? value=None) -> Tensor',
    public="nn.functional", layout=_padded)
def pad(input, pad, mode, value):
    """A tensor padded at both ends of its last dimensions (``torch.nn.functional.pad``).

    Args:
        pad: how much before and after, for the last dimension first; negative numbers cut off.
        mode: "constant" (with ``value``), "reflect", "replicate" or "circular". The latter take the
            last one, two or three dimensions of images with or without batches.

    Raises:
        RuntimeError: for padding that does not fit the sizes. NotImplementedError: for numbers of
            dimensions that a mode does not take.

    >>> import ftorch as torch
    >>> torch.nn.functional.pad(torch.tensor([[1., 2., 3.]]), (1, 1), mode="reflect")
    tensor([[2., 1., 2., 3., 2.]])
    """
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * input.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} and input of dimension {input.ndim}"
        )
    if mode == "constant":
        return _constant(input, pad, value)
    if mode not in _MODES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    spatial = len(pad) // 2
    if spatial not in (1, 2, 3) or input.ndim not in (spatial + 1, spatial + 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {input.ndim}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    return _MODES[mode](input, _pairs(pad, input.ndim), spatial)


pad.fits("value")


@pad.check
def _(mode, value):
    if mode != "constant" and value:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')


@pad.check
def _(mode, value):
    if mode != "constant" and value:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')


# --- pixels and channels -------------------------------------------------------------


def _check_3d(name, x):
    if x.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {x.ndim} "
            "dimension(s)"
        )


@op("pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", public=". nn.functional", layout=as_images)
def pixel_shuffle(self, upscale_factor):
    """Channels made into pixels: (..., c r r, h, w) to (..., c, h r, w r).

    Raises:
        RuntimeError: for sizes that do not divide.

    >>> import ftorch as torch
    >>> torch.nn.functional.pixel_shuffle(torch.ones(1, 8, 2, 3), 2).shape
    torch.Size([1, 2, 4, 6])
    """
    _check_3d("pixel_shuffle", self)
    r = upscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *batch, c, h, w = self.shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    x = self.reshape(math.prod(batch), c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return x.reshape(*batch, c // (r * r), h * r, w * r)


@op("pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", public=". nn.functional", layout=as_images)
def pixel_unshuffle(self, downscale_factor):
    """Pixels made into channels: the inverse of `pixel_shuffle`.

    >>> import ftorch as torch
    >>> torch.nn.functional.pixel_unshuffle(torch.ones(1, 2, 4, 6), 2).shape
    torch.Size([1, 8, 2, 3])
    """
    _check_3d("pixel_unshuffle", self)
    r = downscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *batch, c, h, w = self.shape
    for size, side, dim in ((h, "height", -2), (w, "width", -1)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {side} to be divisible by downscale_factor, but "
                f"input.size({dim})={size} is not divisible by {r}"
            )
    x = self.reshape(math.prod(batch), c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
    return x.reshape(*batch, c * r * r, h // r, w // r)


@op("channel_shuffle(Tensor self, int groups) -> Tensor", public=". nn.functional",
    aliases="native_channel_shuffle", layout=as_images)
def channel_shuffle(self, groups):
    """Channels of several groups taken in turn (``torch.nn.functional.channel_shuffle``).

    Raises:
        RuntimeError: for channels that do not divide into so many groups.

    >>> import ftorch as torch
    >>> torch.channel_shuffle(torch.arange(4).reshape(1, 4, 1), 2).reshape(-1)
    tensor([0, 2, 1, 3])
    """
    if self.ndim <= 2:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{list(self.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    n, c, *rest = self.shape
    if c % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
        )
    return self.reshape(n, groups, c // groups, *rest).swapaxes(1, 2).reshape(self.shape)


# --- sliding blocks ------------------------------------------------------------------


def _two(name, value):
    if isinstance(value, int):
        return value, value
    if len(value) != 2:
        raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(value)}")
    return value


def _windows(kernel_size, dilation, padding, stride):
    """The four pairs of numbers, checked."""
    kernel_size, dilation = _two("kernel_size", kernel_size), _two("dilation", dilation)
    padding, stride = _two("padding", padding), _two("stride", stride)
    for pair, name, short, least in (
        (kernel_size, "kernel size", "kernel", 1), (dilation, "dilation", "dilation", 1),
        (padding, "padding", "pad", 0), (stride, "stride", "stride", 1),
    ):
        if min(pair) < least:
            kind = "greater than zero" if least else "non-negative"
            raise RuntimeError(
                f"{name} should be {kind}, but got {short}_height: {pair[0]} {short}_width: "
                f"{pair[1]}"
            )
    return kernel_size, dilation, padding, stride


def _block_counts(size, kernel_size, dilation, padding, stride):
    return [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(size, kernel_size, dilation, padding, stride, strict=True)
    ]


def _slide(x, axis, count, kernel, dilation, stride):
    """Splits an axis into (place in the block, block), by strided slices."""
    span = stride * (count - 1) + 1
    places = [
        lax.slice_in_dim(x, i * dilation, i * dilation + span, stride, axis)
        for i in range(kernel)
    ]
    return jnp.stack(places, axis)


def _unslide(x, axis, size, kernel, dilation, stride):
    """The adjoint of `_slide`: adds up the blocks at their places."""
    def at(i):
        block = lax.index_in_dim(x, i, axis, keepdims=False)
        count = block.shape[axis]
        config = [(0, 0, 0)] * block.ndim
        span = stride * (count - 1) + 1
        config[axis] = (i * dilation, size - i * dilation - span, stride - 1)
        return lax.pad(block, jnp.zeros((), x.dtype), config)

    total = at(0)
    for i in range(1, kernel):
        total = total + at(i)
    return total


def _check_dtype(name, x):
    if not (is_floating(x) or is_complex(x) or x.dtype == np.bool_):
        raise not_implemented(name, x)


@op("im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) "
    "-> Tensor", public="_C._nn")
def im2col(self, kernel_size, dilation, padding, stride):
    kernel_size, dilation, padding, stride = _windows(kernel_size, dilation, padding, stride)
    if self.ndim < 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-self.ndim}, {self.ndim - 1}], "
            f"but got {self.ndim})"
        )
    _check_image(self, 2)
    counts = _block_counts(self.shape[-2:], kernel_size, dilation, padding, stride)
    if min(counts) < 1:
        raise RuntimeError(
            f"Given input with spatial size {self.shape[-2:]}, kernel_size={tuple(kernel_size)}, "
            f"dilation={tuple(dilation)}, padding={tuple(padding)}, calculated shape of the array "
            f"of sliding blocks as {tuple(counts)}, but its components must be at least one."
        )
    _check_dtype("im2col_out_cpu", self)
    x = self if self.ndim == 4 else self[None]
    x = jnp.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    for axis, i in ((3, 1), (2, 0)):
        x = _slide(x, axis, counts[i], kernel_size[i], dilation[i], stride[i])
    # Now (batch, channel, row in block, block row, column in block, block column).
    n, c = x.shape[:2]
    x = x.transpose(0, 1, 2, 4, 3, 5).reshape(n, c * math.prod(kernel_size), math.prod(counts))
    return x if self.ndim == 4 else x[0]


@op("col2im(Tensor self, int[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, "
    "int[2] stride) -> Tensor", public="_C._nn")
def col2im(self, output_size, kernel_size, dilation, padding, stride):
    output_size = tuple(_two("output_size", output_size))
    kernel_size, dilation, padding, stride = _windows(kernel_size, dilation, padding, stride)
    batched = self.ndim == 3
    if self.ndim not in (2, 3) or 0 in self.shape[batched:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(self.shape)}"
        )
    x = self if batched else self[None]
    dim = self.ndim - 2
    block = math.prod(kernel_size)
    if x.shape[1] % block:
        raise RuntimeError(
            f"Expected size of input's dimension {dim} to be divisible by the product of "
            f"kernel_size, but got input.size({dim})={x.shape[1]} and "
            f"kernel_size={tuple(kernel_size)}."
        )
    counts = _block_counts(output_size, kernel_size, dilation, padding, stride)
    if math.prod(counts) != x.shape[2]:
        raise RuntimeError(
            f"Given output_size={output_size}, kernel_size={tuple(kernel_size)}, "
            f"dilation={tuple(dilation)}, padding={tuple(padding)}, stride={tuple(stride)}, "
            f"expected size of input's dimension {dim + 1} to match the calculated number of "
            f"sliding blocks {counts[0]} * {counts[1]} = {math.prod(counts)}, but got "
            f"input.size({dim + 1})={x.shape[2]}."
        )
    if min(counts) < 1:
        raise RuntimeError(
            f"Given output_size={output_size}, kernel_size={tuple(kernel_size)}, dilation={tuple(dilation)}, "
            f"padding={tuple(padding)}, stride={tuple(stride)}, calculated shape of the array of sliding blocks as "
            f"{tuple(counts)}, which is too small (non-positive)"
        )
    _check_dtype("col2im_out_cpu", self)
    n, channels = x.shape[0], x.shape[1] // block
    x = up(x).reshape(n, channels, *kernel_size, *counts).transpose(0, 1, 2, 4, 3, 5)
    for axis, i in ((2, 0), (3, 1)):
        size = output_size[i] + 2 * padding[i]
        x = _unslide(x, axis, size, kernel_size[i], dilation[i], stride[i])
    (top, left), (height, width) = padding, output_size
    x = x[:, :, top : top + height, left : left + width].astype(self.dtype)
    return x if batched else x[0]
