"""Pooling and interpolation of quantized tensors."""

from __future__ import annotations

from ..eager.bindings.publishing import function
from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from . import _quantizer as q
from ._tensor import QuantizedTensor, build, integers, not_run, per_tensor, quantized_op


def _on_levels(input, computed):
    """A linear function of the numbers, computed on integers without the zero point and rounded."""
    quantizer = per_tensor(input, "pooling")._quantizer
    levels = quantizer.shifted(integers(input))
    return build(q.clipped(torch.round(computed(levels) + quantizer.zero_point), input.dtype), quantizer)


def _pooling(name):
    def pool(input, *args, **kwargs):
        return _on_levels(input, lambda x: getattr(torch.nn.functional, name)(x, *args, **kwargs))

    quantized_op(name)(pool)


for _name in ("avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
              "adaptive_avg_pool3d"):
    _pooling(_name)


@quantized_op()
def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest of neighbours: a row of `max_pool2d`."""
    def row(x, beside):
        return [beside, *x] if isinstance(x, (list, tuple)) else [beside, x]

    step = kernel_size if stride in (None, [], ()) else stride
    rows = torch.nn.functional.max_pool2d(
        input.unsqueeze(-2), row(kernel_size, 1), row(step, 1), row(padding, 0), row(dilation, 1), ceil_mode
    )
    return rows.squeeze(-2)


@quantized_op("interpolate", "upsample")
def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, **kwargs):
    """Other sizes: by the nearest element, or between elements."""
    def run(x):
        return torch.nn.functional.interpolate(x, size, scale_factor, mode, align_corners, **kwargs)

    if mode.startswith("nearest"):
        ints = integers(input)
        return build(run(ints.to(_dtype.float32)).to(ints.dtype), input._quantizer)
    if mode == "bilinear" and input.dim() == 4 and not kwargs.get("antialias"):
        sizes = tuple(run(torch.empty(input.shape, device="meta")).shape[2:])
        return _bilinear(input, sizes, scale_factor, align_corners, kwargs)
    return _on_levels(input, run)


@quantized_op()
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Values between elements at the places of a grid, of images of ``quint8``.

    Raises:
        NotImplementedError: for volumes, and other dtypes.
        RuntimeError: in another mode, or for a quantized grid.
        ValueError: in a mode that there is not.
    """
    if input.dim() != 4:
        raise not_run("grid_sampler_3d")
    of_shapes = [torch.empty(t.shape, device="meta") for t in (input, grid)]
    torch.nn.functional.grid_sample(*of_shapes, mode, padding_mode, align_corners)  # which looks at all that it is given
    if isinstance(grid, QuantizedTensor):
        raise RuntimeError(f"expected scalar type Float but found {grid.dtype.scalar_name}")
    if input.dtype is not _dtype.quint8:
        kind = {"qint8": "QInt8", "qint32": "QInt32"}.get(str(input.dtype).partition(".")[2], str(input.dtype))
        raise NotImplementedError(f'"grid_sampler_2d_cpu_kernel_impl" not implemented for \'{kind}\'')
    if mode != "bilinear":
        raise RuntimeError("_grid_sampler_2d_cpu_quantized(): only bilinear interpolation supported")
    found = torch.nn.functional.grid_sample(input.dequantize(), grid, mode, padding_mode, bool(align_corners))
    return build(input._quantizer.quantized(found, input.dtype), input._quantizer)


def _between(size, out, scale, corners):
    """For each place of a result: the elements before and behind it, and how much the latter counts."""
    place = torch.arange(out, dtype=_dtype.float32)
    if corners:
        place = place * (torch.tensor(float(size - 1)) / (out - 1) if out > 1 else 0.0)
    else:
        step = torch.tensor(1 / scale) if scale else torch.tensor(float(size)) / out
        place = (step * (place + 0.5) - 0.5).clamp(min=0)
    before = place.long()
    return before, (before + 1).clamp(max=size - 1), place - before


def _bilinear(input, sizes, scale_factor, corners, options):
    """Between four elements, in the order of PyTorch's sums, which decides about the last bit."""
    quantizer = per_tensor(input, "interpolate")._quantizer
    x, point = integers(input).to(_dtype.float32), float(quantizer.zero_point)
    scales = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * 2
    if options.get("recompute_scale_factor"):
        scales = (None, None)
    (top, bottom, down), (left, right, across) = map(_between, x.shape[2:], sizes, scales, (corners,) * 2)

    def row(of):
        of = x[:, :, of]
        return (1 - across) * of[..., left] + across * of[..., right]

    down = down.unsqueeze(-1)
    out = ((1 - down) * row(top) + down * row(bottom) - point) + point
    return build(q.clipped(torch.round(out), input.dtype), quantizer)


@quantized_op()
def upsample_nearest(input, size=None, scale_factor=None):
    """Other sizes, by the nearest element."""
    return interpolate(input, size, scale_factor, "nearest")


@quantized_op()
def upsample_bilinear(input, size=None, scale_factor=None):
    """Other sizes, between elements, the corners kept."""
    return interpolate(input, size, scale_factor, "bilinear", True)


def _named(dims):
    def run(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        if not input.is_quantized:
            raise not_run(f"quantized_max_pool{dims}d", "CPU")
        pool = getattr(torch.nn.functional, f"max_pool{dims}d")
        return pool(input, kernel_size, stride or None, padding, dilation, ceil_mode)

    run.__name__ = run.__qualname__ = f"quantized_max_pool{dims}d"
    run.__doc__ = f"""`torch.nn.functional.max_pool{dims}d` of a quantized tensor."""
    return function(run, ".")


quantized_max_pool1d, quantized_max_pool2d, quantized_max_pool3d = map(_named, (1, 2, 3))
