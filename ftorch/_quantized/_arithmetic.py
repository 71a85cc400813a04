"""Sums and products of quantized tensors (``torch.ops.quantized.add`` and its kin)."""

from __future__ import annotations

import numpy as np

from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from . import _quantizer as q
from ._attributes import number
from ._tensor import QuantizedTensor, build, elementwise, integers, per_tensor, quantized


def _pair(qa, qb, name):
    for t in (qa, qb):
        per_tensor(t, name)
    if qa.dtype is not qb.dtype:
        raise RuntimeError(f"{name} operands should have same data type.")
    return qa._quantizer, qb._quantizer


def add(qa, qb, scale, zero_point, relu=False):
    """The sum of two tensors in a quantizer; no number below zero with ``relu``."""
    _pair(qa, qb, "Add")

    def total(a, b):
        return torch.relu(a + b) if relu else a + b

    return elementwise(total, (qa, qb), q.PerTensor(scale, zero_point), qa.dtype)


def requantized(levels, multiplier, zero_point, dtype, relu=False):
    """Integers times a factor in single precision, rounded, shifted and clipped."""
    out = torch.round(levels.to(_dtype.float32) * multiplier) + zero_point
    if relu:
        out = torch.clamp(out, min=zero_point)
    return build(q.clipped(out, dtype), None, dtype)


def mul(qa, qb, scale, zero_point, relu=False):
    """The product of two tensors in a quantizer; no number below zero with ``relu``."""
    a, b = _pair(qa, qb, "Mul")
    f32 = np.float32
    multiplier = float(f32(a.scale) * f32(b.scale) * f32(q.reciprocal(scale)))
    levels = a.shifted(integers(qa), _dtype.int32) * b.shifted(integers(qb), _dtype.int32)
    out = requantized(levels, multiplier, zero_point, qa.dtype, relu)
    out._quantizer = q.PerTensor(scale, zero_point)
    return out


def add_scalar(qa, b, relu=False):
    """A tensor and a number: the zero point moves, and the scale where that does not suffice."""
    quantizer = per_tensor(qa, "add_scalar")._quantizer
    low, high = q.LIMITS[qa.dtype]
    scale, zero = quantizer.scale, quantizer.zero_point
    shift = int(np.rint(number_of(b) / scale))
    ints = integers(qa)
    if low > zero - shift or high < zero - shift:
        if low > zero - shift:
            new_scale, new_zero = (float(high) - (zero - shift)) / (float(high) - low) * scale, low
        else:
            new_scale, new_zero = (float(zero - shift) - low) / (float(high) - low) * scale, high
        f32 = np.float32
        multiplier = float(f32(scale) * f32(q.reciprocal(new_scale)))
        levels = quantizer.shifted(ints, _dtype.int32) + shift
        out = requantized(levels, multiplier, new_zero, qa.dtype, relu)
        out._quantizer = q.PerTensor(new_scale, new_zero)
        return out
    target = q.PerTensor(scale, zero - shift)
    ints = torch.clamp(ints, min=target.zero_point) if relu else ints.clone()
    return build(ints, target)


def mul_scalar(qa, b, relu=False):
    """A tensor times a number: only the quantizer changes, and the integers' order for negative ones."""
    quantizer = per_tensor(qa, "mul_scalar")._quantizer
    low, high = q.LIMITS[qa.dtype]
    ints, b = integers(qa), number_of(b)
    if b > 0:
        target, ints = q.PerTensor(quantizer.scale * b, quantizer.zero_point), ints.clone()
    elif b == 0:
        target, ints = q.PerTensor(1.0, 0), torch.zeros_like(ints)
    else:
        target = q.PerTensor(quantizer.scale * abs(b), high + low - quantizer.zero_point)
        ints = (high + low - ints.to(_dtype.int32)).to(ints.dtype)
    return build(torch.clamp(ints, min=target.zero_point) if relu else ints, target)


def number_of(b) -> float:
    """A number, or a tensor of one, as a Python float."""
    return number(b) if hasattr(b, "item") else float(b)


def matmul(qa, qb, scale, zero_point):
    """The matrix product of two tensors in a quantizer, or of each of a batch."""
    _pair(qa, qb, "matmul")
    # PyTorch's kernel multiplies what both stand for: the sums are those of a product in single precision.
    numbers = torch.matmul(qa.dequantize(), qb.dequantize())
    return quantized(numbers, q.PerTensor(scale, zero_point), qa.dtype)


def with_tensors(tensor_form, scalar_form):
    """An operator of two tensors in a quantizer, or of a tensor and a number."""

    def operator(qa, qb, scale=None, zero_point=None, **kwargs):
        for name in ("qa", "qb", "b"):  # the schema's names
            kwargs.pop(name, None)
        if scale is None:
            return scalar_form(qa, qb) if isinstance(qa, QuantizedTensor) else scalar_form(qb, qa)
        return tensor_form(qa, qb, scale, zero_point)

    return operator
