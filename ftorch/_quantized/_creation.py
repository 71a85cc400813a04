"""Making quantized tensors, and choosing their scales."""

from __future__ import annotations

import numpy as np

from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from ..eager.core import formats
from ..eager.tensor import Tensor
from . import _quantizer as q
from ._tensor import QuantizedTensor, build, quantized, real


def _check_input(x, dtype):
    if dtype not in q.INTEGERS:
        raise RuntimeError(f"ScalarType {dtype.scalar_name} is not supported in new_qtensor.")
    if x.dtype is not _dtype.float32:
        raise RuntimeError(f"Quantize only works on Float Tensor, got {x.dtype.scalar_name}")


def _check_zero_point(zero_point, dtype, name):
    low, high = q.LIMITS[_dtype.quint8 if dtype in q.PER_BYTE else dtype]
    if zero_point > high:
        raise RuntimeError(f"{name} zero_point {zero_point} is above upper bound.")
    if zero_point < low:
        raise RuntimeError(f"{name} zero_point {zero_point} is below lower bound.")


def quantize_per_tensor(input, scale, zero_point, dtype):
    """One tensor, or several with a tensor of scales and one of zero points."""
    if isinstance(input, (list, tuple)):
        pairs = zip(input, scale.tolist(), zero_point.tolist())
        return tuple(quantize_per_tensor(x, s, z, dtype) for x, s, z in pairs)
    scale = scale.item() if isinstance(scale, Tensor) else scale
    zero_point = zero_point.item() if isinstance(zero_point, Tensor) else zero_point
    _check_input(input, dtype)
    _check_zero_point(zero_point, dtype, "quantize_tensor_per_tensor_affine")
    return quantized(input, q.PerTensor(scale, zero_point), dtype)


def quantize_per_channel(input, scales, zero_points, axis, dtype):
    """A tensor with a scale for each index of a dimension."""
    _check_input(input, dtype)
    if scales.dim() != 1:
        raise RuntimeError("scale tensor must have dimension 1")
    if zero_points.dim() != 1:
        raise RuntimeError("zero_points tensor must have dimension 1")
    if scales.numel() != zero_points.numel():
        raise RuntimeError("number of elements in scales and zero_points must match")
    if not 0 <= axis < max(input.dim(), 1):
        raise RuntimeError(
            f"Channel axis out of range in per channel affine quantization. Got: {axis}"
            f"Expected: [0, {input.dim()})"
        )
    quantizer = q.PerChannel(scales, zero_points, axis)
    quantizer.check(input.shape)
    return quantized(input, quantizer, dtype)


def quantize_per_tensor_dynamic(input, dtype, reduce_range):
    """A tensor with the scale and zero point that its own range asks for."""
    if dtype not in (_dtype.qint8, _dtype.quint8, _dtype.float16):
        raise RuntimeError(
            f"dtype {dtype.scalar_name} not supported"
        )
    if dtype is _dtype.float16:
        return input.to(dtype)
    reduce_range = bool(reduce_range) and _reduces_range()
    low, high = (float(v) for v in torch.aminmax(input.detach()))
    bounds = q.LIMITS[dtype]
    if reduce_range:
        bounds = (bounds[0] // 2, bounds[1] // 2)
    if not low <= high:
        raise RuntimeError("In ChooseQuantizationParams, min should be less than or equal to max")
    scale, zero_point = choose_parameters(low, high, *bounds)
    return quantize_per_tensor(input, scale, zero_point, dtype)


def _reduces_range():
    from ..backends import quantized as backend

    return backend.engine in ("x86", "fbgemm", "onednn", "none")


def dequantize(input):
    """Numbers of one tensor or several."""
    if isinstance(input, (list, tuple)):
        return tuple(map(dequantize, input))
    return real(input) if isinstance(input, QuantizedTensor) else input.to(_dtype.float32)


def make_per_tensor(input, scale, zero_point):
    """The quantized tensor of given integers (``torch._make_per_tensor_quantized_tensor``)."""
    return build(_integers(input).clone(), q.PerTensor(scale, zero_point))


def make_per_channel(input, scale, zero_point, axis):
    """The same with a scale for each channel (``torch._make_per_channel_quantized_tensor``)."""
    quantizer = q.PerChannel(scale, zero_point, axis)
    quantizer.check(input.shape)
    return build(_integers(input).clone(), quantizer)


def _integers(x):
    if x.dtype not in q.QUANTIZED:
        raise RuntimeError(f"ScalarType {x.dtype.scalar_name} is not supported in new_qtensor.")
    return x


def empty_affine(size, *, scale=1.0, zero_point=0, dtype=_dtype.quint8, device=None, memory_format=None, **_):
    """A quantized tensor without values (``torch._empty_affine_quantized``)."""
    shape = (size,) if isinstance(size, int) else tuple(size)
    return _empty(shape, q.PerTensor(scale, zero_point), dtype, device, memory_format)


def empty_per_channel(size, *, scales, zero_points, axis, dtype, device=None, memory_format=None, **_):
    """The same with a scale for each channel (``torch._empty_per_channel_affine_quantized``)."""
    quantizer = q.PerChannel(scales, zero_points, axis)
    quantizer.check(tuple(size))
    return _empty(tuple(size), quantizer, dtype, device, memory_format)


def _empty(shape, quantizer, dtype, device, memory_format):
    if dtype not in q.INTEGERS:
        raise RuntimeError("Creation of quantized tensor requires quantized dtype like torch.quint8")
    if dtype in q.PER_BYTE:
        numel = int(np.prod(shape, dtype=np.int64))
        packed = torch.zeros(-(-numel // q.PER_BYTE[dtype]), dtype=_dtype.uint8, device=device)
        return build(packed, quantizer, dtype, shape)
    ints = torch.zeros(shape, dtype=q.INTEGERS[dtype], device=device)
    return build(ints if memory_format is None else ints.contiguous(memory_format=memory_format), quantizer)


# --- files ---------------------------------------------------------------------------


def quantizer_of(arguments):
    """The quantizer that a file describes."""
    scheme, *values = arguments
    if scheme is formats.per_tensor_affine:
        return q.PerTensor(*values)
    if scheme in (formats.per_channel_affine, formats.per_channel_affine_float_qparams):
        scales, zero_points, axis = values
        if isinstance(scales, list):
            scales = torch.tensor(scales, dtype=_dtype.float64)
            zero_points = torch.tensor(zero_points, dtype=_dtype.int64)
        return q.PerChannel(scales, zero_points, axis)
    raise RuntimeError(f"Can't deserialize quantized tensor with qscheme {scheme}")


def rebuild(storage, storage_offset, size, stride, arguments, dtype=None):
    """The quantized tensor in a storage that was read (``torch._utils._rebuild_qtensor``)."""
    dtype = dtype or storage.dtype
    quantizer = quantizer_of(arguments)
    if dtype in q.PER_BYTE:
        flat = storage.as_tensor(_dtype.uint8, 0, (storage.nbytes(),), (1,))
        return build(flat, quantizer, dtype, tuple(size))
    return build(storage.as_tensor(q.INTEGERS[dtype], storage_offset, size, stride), quantizer)


def rebuilt_from_integers(ints, dtype, arguments, shape, attributes):
    """What a pickle of another module than `torch.save`'s holds."""
    t = build(ints, quantizer_of(arguments), dtype, shape)
    t.__dict__.update(attributes or {})
    return t


# --- scales --------------------------------------------------------------------------


@np.errstate(all="ignore")
def choose_parameters(low, high, qmin, qmax, preserve_sparsity=False, force_power_of_two=False, *, single=False):
    """The scale and zero point of a range of numbers, by the rule of PyTorch's CPU kernels.

    Args:
        single: by the rule of the moving averages' kernel, whose zero point is that of the scale in single precision.

    Returns:
        (scale, zero_point): the scale as the double that single precision has.
    """
    f32 = np.float32
    low, high = f32(low), f32(high)
    if low < 0 and high > 0 and preserve_sparsity:
        symmetric_min, symmetric_max = -((qmax - qmin) // 2 + 1), (qmax - qmin) // 2
        largest = max(abs(float(low) / symmetric_min), abs(float(high) / symmetric_max))
        low, high = f32(largest * symmetric_min), f32(largest * symmetric_max)
    low, high = min(low, f32(0)), max(high, f32(0))
    scale = (float(high) - float(low)) / (qmax - qmin)
    if f32(scale) == 0 or np.isinf(f32(1) / f32(scale)):
        scale = 0.1
    if force_power_of_two:
        scale = float(2.0 ** np.ceil(np.log2(scale))) if scale < 1 else float(2.0 ** np.floor(np.log2(scale)))
    smallest = float(f32(6.1e-5))
    if scale < smallest:
        original, scale = f32(scale), smallest
        if low == 0:
            high = f32(smallest * (qmax - qmin))
        elif high == 0:
            low = f32(-smallest * (qmax - qmin))
        else:
            factor = f32(smallest / original)
            low, high = f32(low * factor), f32(high * factor)
    scale = float(f32(scale)) if single else scale
    from_min = qmin - float(low) / scale
    from_max = qmax - float(high) / scale
    sign = 1 if single else -1
    min_error = abs(qmin) + sign * abs(float(low) / scale)
    max_error = abs(qmax) + sign * abs(float(high) / scale)
    initial = from_min if min_error < max_error else from_max
    if low < 0 and high > 0 and preserve_sparsity:
        initial = (qmin + qmax) / 2.0
    if initial != initial:  # as the processor converts it
        return float(scale), -(2**31)
    zero_point = qmin if initial < qmin else qmax if initial > qmax else int(np.rint(initial))
    return float(scale), zero_point


def choose_qparams_per_tensor(input, reduce_range=False):
    """(scale, zero point) for quint8 of a tensor's range (``torch._choose_qparams_per_tensor``)."""
    low, high = (float(v) for v in torch.aminmax(input)) if input.numel() else (0.0, 0.0)
    if not low <= high:
        raise RuntimeError("In ChooseQuantizationParams, min should be less than or equal to max")
    reduce_range = reduce_range and _reduces_range()
    return choose_parameters(low, high, 0, 127 if reduce_range else 255)


def observed_range(x):
    """(least, largest) of some numbers as PyTorch's kernels of dynamic layers find it (`integer_products.observed_range`)."""
    flat = np.asarray(x.detach().numpy()).reshape(-1)
    none, whole = np.isnan(flat), flat.size // 8 * 8
    if not none.any():
        return (flat.min(), flat.max()) if flat.size else (0.0, 0.0)
    none[:whole] = np.maximum.accumulate(none[:whole].reshape(-1, 8)[::-1], 0)[::-1].reshape(-1)
    if flat[0] != flat[0]:
        raise RuntimeError("In ChooseQuantizationParams, min should be less than or equal to max")
    none[0] = False
    return flat[~none].min(), flat[~none].max()


def choose_qparams_optimized(input, numel, n_bins, ratio, bit_width):
    """(largest, smallest) number of the range that a search finds to lose least (``choose_qparams_optimized``)."""
    if numel < 0 or numel > input.numel():
        raise RuntimeError("numel is out of the bound of input tensor")
    f32 = np.float32
    x = np.asarray(input.detach().reshape(-1)[:numel].numpy(), f32)
    low, high = x.min(), x.max()
    step = f32(f32(high - low) / f32(n_bins))
    width = f32(f32(int(f32(n_bins) * (f32(1) - f32(ratio)))) * step)
    a, b, now = low, high, _loss(x, low, high, bit_width)
    best = now
    while f32(a + width) < b:
        from_left, from_right = _loss(x, f32(a + step), b, bit_width), _loss(x, a, f32(b - step), bit_width)
        if now < from_left and now < from_right and now < best:  # a local optimum, the best one so far
            best, low, high = now, a, b
        if from_left < from_right:
            a, now = f32(a + step), from_left
        else:
            b, now = f32(b - step), from_right
    make = lambda v: torch.tensor([float(v)], dtype=_dtype.float32, device=input.device)  # noqa: E731
    return make(high), make(low)


def _loss(x, low, high, bit_width):
    """The norm of what is lost when numbers are rounded to a range whose start and step are numbers of half precision."""
    f32 = np.float32
    low = f32(np.float16(low))
    span = f32(high - low)
    top = f32((1 << bit_width) - 1)
    scale = f32(1) if span == 0 else f32(np.float16(f32(span / top)))
    inverse = f32(1) if scale == 0 else f32(f32(1) / scale)
    levels = np.clip(np.rint((x - low) * inverse), 0, top).astype(f32)
    error = (x - (levels * scale + low)).astype(f32)
    return np.sqrt(np.cumsum(error * error, dtype=f32)[-1]) if x.size else f32(0)  # one after the other
