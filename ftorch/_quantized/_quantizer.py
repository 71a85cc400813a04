"""Quantizers: how integers stand for real numbers, ``real = (integer - zero_point) * scale``.

The arithmetic is that of PyTorch's kernels in single precision, step by step: a number is multiplied by the
reciprocal of the scale, shifted, rounded half to even and clipped.
"""

from __future__ import annotations

import numpy as np

from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from ..eager.core import formats

# The dtype that a quantized dtype keeps its integers in, and the integers' limits.
INTEGERS = {
    _dtype.quint8: _dtype.uint8, _dtype.qint8: _dtype.int8, _dtype.qint32: _dtype.int32,
    _dtype.quint4x2: _dtype.uint8, _dtype.quint2x4: _dtype.uint8,
}
LIMITS = {
    _dtype.quint8: (0, 255), _dtype.qint8: (-128, 127), _dtype.qint32: (-(2**31), 2**31 - 1),
    _dtype.quint4x2: (0, 15), _dtype.quint2x4: (0, 3),
}
QUANTIZED = {_dtype.uint8: _dtype.quint8, _dtype.int8: _dtype.qint8, _dtype.int32: _dtype.qint32}
PER_BYTE = {_dtype.quint4x2: 2, _dtype.quint2x4: 4}


def single(x) -> float:
    """A number rounded to single precision."""
    return float(np.float32(x))


def reciprocal(scale) -> float:
    """``1 / scale`` as the kernels have it: a quotient in single precision."""
    with np.errstate(divide="ignore"):
        return float(np.float32(1) / np.float32(scale))


def clipped(levels, dtype, none_is_low=False):
    """Levels as the integers of a quantized dtype: clipped, and cast.

    NaN becomes the largest integer, as it does in PyTorch's vector kernels; elsewhere (``none_is_low``), and among 32 bits, the
    least.
    """
    low, high = LIMITS[dtype]
    if dtype is _dtype.qint32:  # single precision does not have its largest number
        levels = levels.double()
    none = low if none_is_low or dtype is _dtype.qint32 else high
    levels = torch.nan_to_num(levels, nan=none, posinf=high, neginf=low)
    return torch.clamp(levels, low, high).to(INTEGERS[dtype])


def fused(x, factor, shift):
    """``x * factor + shift`` rounded once to single precision, as processors do it in one instruction.

    The product of two numbers of single precision is exact in double precision.
    """
    return (x.double() * factor + shift).to(_dtype.float32)


class PerTensor:
    """One scale and one zero point (``torch.per_tensor_affine``)."""

    scheme = formats.per_tensor_affine

    def __init__(self, scale: float, zero_point: int):
        self.scale, self.zero_point = float(scale), int(zero_point)

    def __eq__(self, other):
        return (isinstance(other, PerTensor) and self.scale == other.scale
                and self.zero_point == other.zero_point)

    __hash__ = None  # type: ignore[assignment]

    def quantized(self, x, dtype):
        """The integers nearest to real numbers."""
        if dtype in PER_BYTE:
            return clipped(torch.round(x * reciprocal(self.scale)) + self.zero_point, dtype)
        return clipped(torch.round(fused(x, reciprocal(self.scale), self.zero_point)), dtype)

    def real(self, ints):
        """The numbers that integers stand for."""
        return (ints.to(_dtype.int32) - self.zero_point).to(_dtype.float32) * single(self.scale)

    def vector_real(self, ints):
        """The numbers that integers stand for, as PyTorch's vector kernels have them."""
        scale = np.float32(self.scale)
        return fused(ints, float(scale), float(scale * np.float32(-self.zero_point)))

    def elementwise_quantized(self, vector, scalar, dtype):
        """The integers of results of a function of single elements.

        PyTorch rounds whole vectors before it adds the zero point, and what is left over afterwards.

        Args:
            vector: the results by `vector_real`.
            scalar: the results by `real`.
        """
        size = 64 // INTEGERS[dtype].itemsize
        whole = vector.numel() // size * size
        inverse = reciprocal(self.scale)
        in_vectors = torch.round(vector * inverse) + self.zero_point
        if whole == vector.numel():
            return clipped(in_vectors, dtype)
        single_ones = torch.round(scalar * inverse + self.zero_point)
        if whole:
            position = torch.arange(vector.numel()).reshape(vector.shape)
            single_ones = torch.where(position < whole, in_vectors, single_ones)
        return clipped(single_ones, dtype)

    def shifted(self, ints, dtype=_dtype.float32):
        """The integers without the zero point, as numbers of a dtype that holds them exactly."""
        return ints.to(dtype) - self.zero_point

    def arguments(self):
        """What files keep of it."""
        return self.scheme, self.scale, self.zero_point

    def check(self, shape):
        """Nothing: it fits every shape."""

    def copy(self):
        """Itself: it never changes."""
        return self


class PerChannel:
    """A scale and a zero point for each index of a dimension (``torch.per_channel_affine``).

    With zero points that are no integers it is ``torch.per_channel_affine_float_qparams``.

    Attributes:
        scales: float64 (float32 with such zero points), one for each index of dimension ``axis``.
        zero_points: int64 (float32).
    """

    def __init__(self, scales, zero_points, axis: int):
        self.floating = zero_points.is_floating_point()
        self.scales = scales.to(_dtype.float32 if self.floating else _dtype.float64)
        self.zero_points = zero_points.to(_dtype.float32 if self.floating else _dtype.int64)
        self.axis = int(axis)

    @property
    def scheme(self):
        """``torch.per_channel_affine`` or the scheme of zero points that are no integers."""
        if self.floating:
            return formats.per_channel_affine_float_qparams
        return formats.per_channel_affine

    def __eq__(self, other):
        return (
            isinstance(other, PerChannel) and self.axis == other.axis and self.floating == other.floating
            and torch.equal(self.scales, other.scales)
            and torch.equal(self.zero_points, other.zero_points)
        )

    __hash__ = None  # type: ignore[assignment]

    def along(self, values, ndim):
        """Values of the channels, so that they broadcast over a tensor."""
        shape = [1] * ndim
        shape[self.axis] = -1
        return values.reshape(shape)

    def quantized(self, x, dtype):
        """The integers nearest to real numbers."""
        self.check(x.shape)
        inverse = 1.0 / self.along(self.scales, x.dim()).to(_dtype.float32)
        zero = self.along(self.zero_points, x.dim()).to(_dtype.float32)
        levels = torch.round(x * inverse + zero)
        if self.floating:  # the lower 32 bits of integers of 64, of which the least, zero in these, is what does not fit
            fitting = torch.where(torch.abs(levels) < 2.0**63, levels, 0.0)
            levels = fitting.to(_dtype.int64).to(_dtype.int32).to(_dtype.float64)
        return clipped(levels, dtype, True)

    def real(self, ints):
        """The numbers that integers stand for."""
        self.check(ints.shape)
        scale = self.along(self.scales, ints.dim()).to(_dtype.float32)
        if self.floating:
            return (ints.to(_dtype.float32) - self.along(self.zero_points, ints.dim())) * scale
        zero = self.along(self.zero_points, ints.dim()).to(_dtype.int32)
        return (ints.to(_dtype.int32) - zero).to(_dtype.float32) * scale

    def shifted(self, ints, dtype=_dtype.float32):
        """The integers without the zero points, as numbers of a dtype that holds them exactly."""
        return ints.to(dtype) - self.along(self.zero_points, ints.dim()).to(dtype)

    def arguments(self):
        """What files keep of it."""
        return self.scheme, self.scales, self.zero_points, self.axis

    def check(self, shape):
        """Raises RuntimeError unless there is a scale for each channel of a tensor of a shape."""
        if len(shape) <= self.axis:
            raise RuntimeError("Channel axis out of range in per channel affine quantization.")
        channels = shape[self.axis]
        for name, values in (("scales", self.scales), ("zero_points", self.zero_points)):
            if values.numel() != channels:
                raise RuntimeError(
                    f"length of {name} must equal to channel, expected {channels} got, {values.numel()}"
                )

    def copy(self):
        """A quantizer whose tensors are its own."""
        return PerChannel(self.scales.clone(), self.zero_points.clone(), self.axis)


# --- several integers in a byte ------------------------------------------------------


def pack(ints, dtype):
    """Integers of fewer than eight bits, several in a byte, the first in the lowest bits: one dimension."""
    count = PER_BYTE[dtype]
    bits = 8 // count
    flat = ints.reshape(-1)
    rest = -flat.numel() % count
    if rest:
        flat = torch.cat([flat, flat.new_zeros(rest)])
    parts = flat.reshape(-1, count)
    packed = parts[:, 0]
    for i in range(1, count):
        packed = packed | (parts[:, i] << (bits * i))
    return packed


def unpack(packed, dtype, shape):
    """The inverse of `pack`: integers of a shape."""
    count = PER_BYTE[dtype]
    bits = 8 // count
    parts = [(packed >> (bits * i)) & (2**bits - 1) for i in range(count)]
    flat = torch.stack(parts, -1).reshape(-1)
    numel = 1
    for n in shape:
        numel *= n
    return flat[:numel].reshape(tuple(shape))
