"""torchvision's operators on boxes and regions (its library ``_C``), in JAX.

``nms``, ``roi_align``, ``roi_pool``, ``ps_roi_align``, ``ps_roi_pool`` and ``deform_conv2d``, each with the operator
that torchvision's own autograd formulas call: that is JAX's derivative of the first. Regions are computed a few
at a time, so that memory does not grow with their number.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

import ftorch as torch

from ._registering import define, kernel

_REGIONS = 16  # computed at once


def _each(function, rois):
    return jax.lax.map(function, rois, batch_size=_REGIONS)


# --- non-maximum suppression ------------------------------------------------------------


def nms(dets, scores, iou_threshold):
    """The indices of boxes that overlap no better one by more than a threshold, best first.

    How many there are depends on values: it is computed with NumPy.
    """
    if dets.dim() != 2:
        raise RuntimeError(f"boxes should be a 2d tensor, got {dets.dim()}D")
    if dets.size(1) != 4:
        raise RuntimeError(f"boxes should have 4 elements in dimension 1, got {dets.size(1)}")
    if scores.dim() != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {scores.dim()}D")
    if dets.size(0) != scores.size(0):
        raise RuntimeError(
            "boxes and scores should have same number of elements in dimension 0, got "
            f"{dets.size(0)} and {scores.size(0)}"
        )
    wide = torch.float32 if dets.dtype in (torch.float16, torch.bfloat16) else dets.dtype
    boxes = np.asarray(dets.detach().to(wide).cpu().numpy())
    x1, y1, x2, y2 = boxes.T
    areas = (x2 - x1) * (y2 - y1)
    best = np.asarray(torch.argsort(scores.detach(), stable=True, descending=True).cpu().numpy())
    kept = []
    while best.size:
        i, best = best[0], best[1:]
        kept.append(i)
        width = np.minimum(x2[i], x2[best]) - np.maximum(x1[i], x1[best])
        height = np.minimum(y2[i], y2[best]) - np.maximum(y1[i], y1[best])
        inter = np.maximum(width, 0) * np.maximum(height, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            overlap = inter / (areas[i] + areas[best] - inter)
        best = best[~(overlap > iou_threshold)]
    return torch.tensor(np.array(kept, np.int64), device=dets.device)


# --- sampling ---------------------------------------------------------------------------


def _line(at, size):
    """Where a coordinate lies between two elements: (low, high, weight of high, whether it is inside)."""
    inside = (at >= -1) & (at <= size)
    at = jnp.maximum(at, 0)
    low = jnp.minimum(jnp.floor(at).astype(jnp.int32), size - 1)
    high = jnp.minimum(low + 1, size - 1)
    weight = jnp.where(low >= size - 1, 0, at - low).astype(at.dtype)
    return low, high, weight, inside


def _sampled(image, y, x):
    """An image (C, H, W) at the crossings of rows ``y`` (P,) and columns ``x`` (Q,): (C, P, Q)."""
    top, bottom, wy, iny = _line(y, image.shape[1])
    left, right, wx, inx = _line(x, image.shape[2])
    rows = (
        image[:, top] * (1 - wy)[None, :, None] + image[:, bottom] * wy[None, :, None]
    ) * iny[None, :, None]
    return (rows[:, :, left] * (1 - wx) + rows[:, :, right] * wx) * inx


def _grid(rois, scale, pooled, ratio, offset, least):
    """The starts and sizes of bins, and the samples of each along a dimension, by region: (K, 2) each."""
    start = rois[:, jnp.array([2, 1])] * scale - offset
    end = rois[:, jnp.array([4, 3])] * scale - offset
    size = end - start if least is None else jnp.maximum(end - start, least)
    bins = size / jnp.array(pooled, rois.dtype)
    counts = jnp.full(bins.shape, ratio) if ratio > 0 else jnp.ceil(bins).astype(jnp.int32)
    return start, bins, counts


def _places(start, size, count, pooled, most):
    """The samples' coordinates along a dimension: (pooled, most), and which of them count."""
    n = jnp.arange(most)
    share = jnp.maximum(count, 1).astype(start.dtype)
    at = start + jnp.arange(pooled)[:, None] * size + (n + 0.5).astype(start.dtype) * size / share
    return at, n < count


def _most_samples(rois, scale, pooled, ratio, least):
    """The largest number of samples of a bin along each dimension: a static size."""
    if ratio > 0:
        return ratio, ratio
    if not rois.shape[0]:
        return 1, 1
    boxes = np.asarray(rois.detach().cpu().double().numpy()) * scale
    sizes = np.stack([boxes[:, 4] - boxes[:, 2], boxes[:, 3] - boxes[:, 1]], 1)
    sizes = sizes if least is None else np.maximum(sizes, least)
    most = np.maximum(np.ceil(sizes / np.array(pooled)).max(0), 1).astype(int) + 1
    # The numbers vary with every batch: sizes are rounded up, so that few programs are compiled.
    return tuple(1 << int(n - 1).bit_length() for n in most)


def _roi_align(input, rois, *, scale, pooled, ratio, aligned, most):
    rois = rois.astype(input.dtype)
    start, bins, counts = _grid(rois, scale, pooled, ratio, 0.5 if aligned else 0, None if aligned else 1.0)

    def one(region):
        number, start, size, count = region
        y, countsy = _places(start[0], size[0], count[0], pooled[0], most[0])
        x, countsx = _places(start[1], size[1], count[1], pooled[1], most[1])
        found = _sampled(input[number], y.reshape(-1), x.reshape(-1))
        found = found.reshape(-1, pooled[0], most[0], pooled[1], most[1])
        found = found * (countsy[:, None, None] & countsx).astype(found.dtype)
        return found.sum((2, 4)) / jnp.maximum(count[0] * count[1], 1).astype(found.dtype)

    return _each(one, (rois[:, 0].astype(jnp.int32), start, bins, counts))


def _roi_pool(input, rois, *, scale, pooled):
    rois = rois.astype(input.dtype)
    _, _, height, width = input.shape
    corners = jnp.trunc(jnp.where(rois >= 0, jnp.floor(rois * scale + 0.5), jnp.ceil(rois * scale - 0.5)))
    start = corners[:, jnp.array([2, 1])]
    size = jnp.maximum(corners[:, jnp.array([4, 3])] - start + 1, 1) / jnp.array(pooled, rois.dtype)

    def span(start, size, pooled, length):
        n = jnp.arange(pooled)
        first = jnp.clip(jnp.floor(n * size) + start, 0, length)
        last = jnp.clip(jnp.ceil((n + 1) * size) + start, 0, length)
        at = jnp.arange(length)
        return (at >= first[:, None]) & (at < last[:, None])  # (pooled, length)

    def one(region):
        number, start, size = region
        rows = span(start[0], size[0], pooled[0], height)
        columns = span(start[1], size[1], pooled[1], width)

        def bin_of(at):
            inside = rows[at // pooled[1]][:, None] & columns[at % pooled[1]]
            values = jnp.where(inside, input[number], -jnp.inf).reshape(-1, height * width)
            where = jnp.argmax(values, 1).astype(jnp.int32)
            found = jnp.take_along_axis(values, where[:, None], 1)[:, 0]
            some = inside.any()
            return jnp.where(some, found, 0), jnp.where(some, where, -1)

        found, where = jax.lax.map(bin_of, jnp.arange(pooled[0] * pooled[1]))
        return tuple(t.T.reshape(-1, *pooled) for t in (found, where))

    return jax.lax.map(one, (rois[:, 0].astype(jnp.int32), start, size))


def _channels(count, pooled):
    """Which channel of the input each bin of each channel of the result reads."""
    return np.arange(count).reshape(count // (pooled[0] * pooled[1]), *pooled)


def _ps_roi_align(input, rois, *, scale, pooled, ratio, most):
    rois = rois.astype(input.dtype)
    start, bins, counts = _grid(rois, scale, pooled, ratio, 0.5, None)
    mapping = _channels(input.shape[1], pooled)

    def one(region):
        number, start, size, count = region
        y, countsy = _places(start[0], size[0], count[0], pooled[0], most[0])
        x, countsx = _places(start[1], size[1], count[1], pooled[1], most[1])

        def bin_of(p, q):
            found = _sampled(input[number][mapping[:, p, q]], y[p], x[q])
            return (found * (countsy[:, None] & countsx).astype(found.dtype)).sum((1, 2))

        rows = [jnp.stack([bin_of(p, q) for q in range(pooled[1])], 1) for p in range(pooled[0])]
        return jnp.stack(rows, 1) / jnp.maximum(count[0] * count[1], 1).astype(input.dtype)

    return _each(one, (rois[:, 0].astype(jnp.int32), start, bins, counts))


def _ps_roi_pool(input, rois, *, scale, pooled):
    rois = rois.astype(input.dtype)
    _, _, height, width = input.shape
    corners = jnp.trunc(jnp.where(rois >= 0, jnp.floor(rois * scale + 0.5), jnp.ceil(rois * scale - 0.5)))
    start = corners[:, jnp.array([2, 1])]
    size = jnp.maximum(corners[:, jnp.array([4, 3])] - start, 1) / jnp.array(pooled, rois.dtype)
    mapping = _channels(input.shape[1], pooled)

    def span(start, size, pooled, length):
        n = jnp.arange(pooled)
        first = jnp.clip(jnp.floor(n * size) + start, 0, length - 1)
        last = jnp.clip(jnp.ceil((n + 1) * size) + start, 0, length - 1)
        at = jnp.arange(length)
        return ((at >= first[:, None]) & (at < last[:, None])).astype(input.dtype)

    def one(region):
        number, start, size = region
        rows = span(start[0], size[0], pooled[0], height)
        columns = span(start[1], size[1], pooled[1], width)
        image = input[number][mapping]  # (C, P, Q, H, W)
        total = jnp.einsum("cpqhw,ph,qw->cpq", image, rows, columns)
        return total / jnp.maximum(rows.sum(1)[:, None] * columns.sum(1), 1)

    return jax.lax.map(one, (rois[:, 0].astype(jnp.int32), start, size))


def _mapping(result, channels, pooled):
    """What torchvision returns beside: the channel that each element was read from, int32."""
    found = torch.tensor(_channels(channels, pooled).astype(np.int32), device=result.device)
    return found.expand(result.shape[0], *found.shape).contiguous()


def _gradient(function, rest=0):
    """The kernel of the gradient by the input: (grad, input's shape, rois, ...)."""

    def gradient(grad, rois, *, shape, **static):
        _, pull = jax.vjp(lambda x: _first(function(x, rois, **static)), jnp.zeros(shape, grad.dtype))
        return pull(grad)[0]

    return gradient


def _first(out):
    return out[0] if isinstance(out, tuple) else out


def _region_op(name, function, static, more=""):
    forward = kernel(*static)(function)
    backward = kernel("shape", *static)(_gradient(function))
    return forward, backward


_align, _align_backward = _region_op("roi_align", _roi_align, ("scale", "pooled", "ratio", "aligned", "most"))
_pool, _ = _region_op("roi_pool", _roi_pool, ("scale", "pooled"))
_ps_align, _ps_align_backward = _region_op("ps_roi_align", _ps_roi_align, ("scale", "pooled", "ratio", "most"))
_ps_pool, _ps_pool_backward = _region_op("ps_roi_pool", _ps_roi_pool, ("scale", "pooled"))


def _empty(input, rois, pooled, channels):
    """The result without regions, or None; checks that regions have five numbers."""
    if rois.dim() != 2 or rois.size(1) != 5:
        raise RuntimeError("rois must have shape as Tensor[K, 5]")
    if rois.size(0) and input.numel():
        return None
    return input.new_zeros((rois.size(0), channels, *pooled))


def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    """Averages of samples in the bins of regions."""
    pooled = (pooled_height, pooled_width)
    empty = _empty(input, rois, pooled, input.size(1))
    if empty is not None:
        return empty
    most = _most_samples(rois, spatial_scale, pooled, sampling_ratio, None if aligned else 1.0)
    return _align(input, rois, scale=spatial_scale, pooled=pooled, ratio=sampling_ratio, aligned=aligned, most=most)


def roi_align_backward(grad, rois, spatial_scale, pooled_height, pooled_width, batch_size, channels, height,
                       width, sampling_ratio, aligned):
    """The gradient of `roi_align` by its input."""
    pooled, shape = (pooled_height, pooled_width), (batch_size, channels, height, width)
    if not rois.size(0):
        return grad.new_zeros(shape)
    most = _most_samples(rois, spatial_scale, pooled, sampling_ratio, None if aligned else 1.0)
    return _align_backward(grad, rois, shape=shape, scale=spatial_scale, pooled=pooled, ratio=sampling_ratio,
                           aligned=aligned, most=most)


def roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    """The largest elements in the bins of regions, and where they are."""
    pooled = (pooled_height, pooled_width)
    empty = _empty(input, rois, pooled, input.size(1))
    if empty is not None:
        return empty, torch.zeros_like(empty, dtype=torch.int32)
    return _pool(input, rois, scale=spatial_scale, pooled=pooled)


def roi_pool_backward(grad, rois, argmax, spatial_scale, pooled_height, pooled_width, batch_size, channels,
                      height, width):
    """The gradient of `roi_pool`: each bin's goes to the element that it took."""
    flat = grad.new_zeros((batch_size, channels, height * width + 1))
    number = rois[:, 0].long()[:, None, None, None].expand_as(grad)
    channel = torch.arange(channels, device=grad.device)[None, :, None, None].expand_as(grad)
    place = torch.where(argmax < 0, height * width, argmax).long()
    flat = torch.index_put(flat, (number, channel, place), grad, accumulate=True)
    return flat[..., :-1].reshape(batch_size, channels, height, width)


def _check_channels(input, pooled):
    if input.size(1) % (pooled[0] * pooled[1]):
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")
    return input.size(1) // (pooled[0] * pooled[1])


def ps_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    """`roi_align` of which each bin has channels of its own; and the channels that were read."""
    pooled = (pooled_height, pooled_width)
    out = _empty(input, rois, pooled, _check_channels(input, pooled))
    if out is None:
        most = _most_samples(rois, spatial_scale, pooled, sampling_ratio, None)
        out = _ps_align(input, rois, scale=spatial_scale, pooled=pooled, ratio=sampling_ratio, most=most)
    return out, _mapping(out, input.size(1), pooled)


def ps_roi_align_backward(grad, rois, channel_mapping, spatial_scale, pooled_height, pooled_width,
                          sampling_ratio, batch_size, channels, height, width):
    """The gradient of `ps_roi_align` by its input."""
    pooled, shape = (pooled_height, pooled_width), (batch_size, channels, height, width)
    if not rois.size(0):
        return grad.new_zeros(shape)
    most = _most_samples(rois, spatial_scale, pooled, sampling_ratio, None)
    return _ps_align_backward(grad, rois, shape=shape, scale=spatial_scale, pooled=pooled,
                              ratio=sampling_ratio, most=most)


def ps_roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    """Averages over the bins of regions, of which each has channels of its own; and those channels."""
    pooled = (pooled_height, pooled_width)
    out = _empty(input, rois, pooled, _check_channels(input, pooled))
    if out is None:
        out = _ps_pool(input, rois, scale=spatial_scale, pooled=pooled)
    return out, _mapping(out, input.size(1), pooled)


def ps_roi_pool_backward(grad, rois, channel_mapping, spatial_scale, pooled_height, pooled_width, batch_size,
                         channels, height, width):
    """The gradient of `ps_roi_pool` by its input."""
    shape = (batch_size, channels, height, width)
    if not rois.size(0):
        return grad.new_zeros(shape)
    return _ps_pool_backward(grad, rois, shape=shape, scale=spatial_scale, pooled=(pooled_height, pooled_width))


# --- deformable convolution -------------------------------------------------------------


def _corner(images, y, x):
    """Elements (N, G, C, P) of images (N, G, C, H, W) at whole coordinates (N, G, P); zero outside."""
    height, width = images.shape[-2:]
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    flat = jnp.clip(y, 0, height - 1) * width + jnp.clip(x, 0, width - 1)
    found = jnp.take_along_axis(images.reshape(*images.shape[:3], -1), flat[:, :, None], 3)
    return found * inside[:, :, None].astype(images.dtype)


def _deform(input, weight, offset, mask, bias, *, stride, padding, dilation, groups, offset_groups, use_mask):
    batch, channels, height, width = input.shape
    outputs, _, kh, kw = weight.shape
    oh = (height + 2 * padding[0] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (width + 2 * padding[1] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    offset = offset.reshape(batch, offset_groups, kh * kw, 2, oh, ow)
    taps_y, taps_x = (t.reshape(-1, 1, 1) for t in jnp.meshgrid(
        jnp.arange(kh) * dilation[0], jnp.arange(kw) * dilation[1], indexing="ij"))
    y = offset[:, :, :, 0] + (taps_y + jnp.arange(oh)[:, None] * stride[0] - padding[0]).astype(input.dtype)
    x = offset[:, :, :, 1] + (taps_x + jnp.arange(ow) * stride[1] - padding[1]).astype(input.dtype)
    images = input.reshape(batch, offset_groups, channels // offset_groups, height, width)
    inside = ((y > -1) & (y < height) & (x > -1) & (x < width)).astype(input.dtype)
    y, x, inside = (t.reshape(batch, offset_groups, -1) for t in (y, x, inside))
    top, left = jnp.floor(y), jnp.floor(x)
    wy, wx = (y - top)[:, :, None], (x - left)[:, :, None]
    top, left = top.astype(jnp.int32), left.astype(jnp.int32)
    columns = (
        _corner(images, top, left) * (1 - wy) * (1 - wx)
        + _corner(images, top, left + 1) * (1 - wy) * wx
        + _corner(images, top + 1, left) * wy * (1 - wx)
        + _corner(images, top + 1, left + 1) * wy * wx
    ) * inside[:, :, None]
    if use_mask:
        columns = columns * mask.reshape(batch, offset_groups, 1, -1)
    columns = columns.reshape(batch, groups, channels // groups, kh * kw, oh * ow)
    kernels = weight.reshape(groups, outputs // groups, channels // groups, kh * kw)
    out = jnp.einsum("ngckp,gock->ngop", columns, kernels).reshape(batch, outputs, oh, ow)
    return out + bias[:, None, None]


_DEFORM = ("stride", "padding", "dilation", "groups", "offset_groups", "use_mask")
_deform_forward = kernel(*_DEFORM)(_deform)


@functools.partial(kernel, *_DEFORM)()
def _deform_backward(grad, input, weight, offset, mask, bias, **static):
    _, pull = jax.vjp(functools.partial(_deform, **static), input, weight, offset, mask, bias)
    return pull(grad)


def _settings(stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups, use_mask):
    return dict(
        stride=(stride_h, stride_w), padding=(pad_h, pad_w), dilation=(dilation_h, dilation_w), groups=groups,
        offset_groups=offset_groups, use_mask=use_mask,
    )


def deform_conv2d(input, weight, offset, mask, bias, *settings):
    """A convolution whose taps are moved by offsets and weighted by a mask."""
    named = _settings(*settings)
    taps = 2 * named["offset_groups"] * weight.size(2) * weight.size(3)
    if offset.size(1) != taps:
        raise RuntimeError(
            f"offset.shape[1] is not valid: got: {offset.size(1)} expected: {taps}"
        )
    return _deform_forward(input, weight, offset, mask, bias, **named)


def deform_conv2d_backward(grad, input, weight, offset, mask, bias, *settings):
    """The gradients of `deform_conv2d` by its five tensors."""
    return _deform_backward(grad, input, weight, offset, mask, bias, **_settings(*settings))


def qnms(dets, scores, iou_threshold):
    """`nms` of quantized boxes."""
    return nms(dets.dequantize(), scores.dequantize(), iou_threshold)


def qroi_align(input, rois, *settings):
    """`roi_align` of a quantized image, quantized as it is."""
    out = roi_align(input.dequantize(), rois.dequantize(), *settings)
    return torch.quantize_per_tensor(out, input.q_scale(), input.q_zero_point(), input.dtype)


_REGION = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_BACK = "Tensor grad, Tensor rois, {}float spatial_scale, SymInt pooled_height, SymInt pooled_width, {}"
_SHAPE = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_CONVOLUTION = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask"
)
_MAP = "Tensor channel_mapping, "
for _schema, _function in {
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": nms,
    f"roi_align({_REGION}, int sampling_ratio, bool aligned) -> Tensor": roi_align,
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": qnms,
    f"qroi_align({_REGION}, int sampling_ratio, bool aligned) -> Tensor": qroi_align,
    f"_roi_align_backward({_BACK.format('', _SHAPE)}, int sampling_ratio, bool aligned) -> Tensor":
        roi_align_backward,
    f"roi_pool({_REGION}) -> (Tensor, Tensor)": roi_pool,
    f"_roi_pool_backward({_BACK.format('Tensor argmax, ', _SHAPE)}) -> Tensor": roi_pool_backward,
    f"ps_roi_align({_REGION}, int sampling_ratio) -> (Tensor, Tensor)": ps_roi_align,
    f"_ps_roi_align_backward({_BACK.format(_MAP, 'int sampling_ratio, ' + _SHAPE)}) -> Tensor":
        ps_roi_align_backward,
    f"ps_roi_pool({_REGION}) -> (Tensor, Tensor)": ps_roi_pool,
    f"_ps_roi_pool_backward({_BACK.format(_MAP, _SHAPE)}) -> Tensor": ps_roi_pool_backward,
    f"deform_conv2d({_CONVOLUTION}) -> Tensor": deform_conv2d,
    f"_deform_conv2d_backward(Tensor grad, {_CONVOLUTION}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)":
        deform_conv2d_backward,
    "_cuda_version() -> int": lambda: -1,
}.items():
    define(f"torchvision::{_schema}", _function)
