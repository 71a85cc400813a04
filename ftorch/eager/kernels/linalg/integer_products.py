"""Products of integers, and of numbers with weights of eight and four bits.

Sums of products of integers are exact: int8 is multiplied as such, into int32. Narrow weights are widened in the product,
which reads them once.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.registry import op
from .._common import dtype_name, fused_multiply_add, product
from .._primitives import primitive

_BLOCK = 64  # rows of a block of packed four-bit weights: row j and row j + 32 share a byte


@op("_int_mm(Tensor self, Tensor mat2) -> Tensor", forms="function out", differentiable=False)
def int_mm(self, mat2):
    """The product of two matrices of int8, as int32 (``torch._int_mm``).

    Args:
        self: (m, k) int8. mat2: (k, n) int8.

    Raises:
        RuntimeError: for other dtypes and shapes.

    >>> import ftorch as torch
    >>> a = torch.full((2, 3), 100, dtype=torch.int8)
    >>> torch._int_mm(a, a.t())
    tensor([[30000, 30000],
            [30000, 30000]], dtype=torch.int32)
    """
    for name, x in (("self", self), ("mat2", mat2)):
        if x.ndim != 2:
            raise RuntimeError(f"int_mm_out_cpu: Expected {name} to be of dimension 2 but got {x.ndim}")
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"int_mm_out_cpu: self.size(1) needs to match mat2.size(0) but got {self.shape[1]} and {mat2.shape[0]}"
        )
    if self.dtype not in (np.int8, np.uint8):
        raise RuntimeError(f"int_mm_out_cpu: Expected self dtype to be int8 or uint8 but got {_c_name(self.dtype)}")
    if mat2.dtype != np.int8:
        raise RuntimeError(f"int_mm_out_cpu: Expected mat2 dtype to be of type int8 but got {_c_name(mat2.dtype)}")
    if self.dtype == np.int8:
        return lax.dot(self, mat2, preferred_element_type=np.int32)
    total = lax.dot(_with_sign(self), mat2, preferred_element_type=np.int32)
    return total + 128 * jnp.sum(mat2, 0, dtype=np.int32)


def _with_sign(x):
    """Bytes less 128, as int8."""
    return lax.bitcast_convert_type(x ^ np.uint8(128), np.int8)


@op("_linear_int8(Tensor self, Tensor weight, Tensor sums, Tensor shift) -> Tensor", differentiable=False)
def linear_int8(self, weight, sums, shift):
    """``(self - shift) @ weight.T`` of bytes and int8, as int32.

    Args:
        self: (..., k) uint8. weight: (n, k) int8. sums: (n,) int32, of the weight's rows. shift: () int32.

    Raises:
        RuntimeError: for sizes that do not fit.
    """
    if self.shape[-1:] != weight.shape[1:]:
        raise RuntimeError(f"The number of rows in the packB should be equal to K: {self.shape[-1]}")
    return _product_of_bytes(self, weight, sums, shift)


def _product_of_bytes(levels, weight, sums, shift):
    dims = ((levels.ndim - 1,), (1,)), ((), ())
    total = lax.dot_general(_with_sign(levels), weight, dims, preferred_element_type=np.int32)
    return total + (128 - shift) * sums


def observed_range(x):
    """(least, largest) of some numbers. Those that are none PyTorch's kernel passes over in eight lanes, each of which forgets
    what it saw before one; the first number of all is always seen.
    """
    flat = x.reshape(-1)
    whole = flat.size // 8 * 8
    none = jnp.isnan(flat)
    forgotten = lax.cummax(none[:whole].reshape(-1, 8).astype(np.int8), 0, reverse=True).reshape(-1)
    passed = jnp.concatenate([forgotten.astype(bool), none[whole:]]).at[0].set(False)
    return jnp.min(jnp.where(passed, np.inf, flat)), jnp.max(jnp.where(passed, -np.inf, flat))


def _affine_range(x, largest):
    """(scale, zero point) of bytes up to ``largest`` for the range of some numbers: PyTorch's rule, in its precision."""
    f32, f64 = np.float32, np.float64
    if not x.size:
        return jnp.asarray(0.1, f64), jnp.asarray(0, np.int32)
    low, high = observed_range(x)
    low, high = jnp.minimum(low, f32(0)), jnp.maximum(high, f32(0))
    scale = (high.astype(f64) - low.astype(f64)) / largest
    single = scale.astype(f32)
    scale = jnp.where((single == 0) | jnp.isinf(1 / single), 0.1, scale)
    least = 6.1e-5  # of scales
    is_small, factor = scale < least, f32(least) / scale.astype(f32)
    whole = f32(least * largest)
    small_low = jnp.where(low == 0, low, jnp.where(high == 0, -whole, low * factor))
    small_high = jnp.where(low == 0, whole, jnp.where(high == 0, high, high * factor))
    low, high = (jnp.where(is_small, small, x).astype(f64) for small, x in ((small_low, low), (small_high, high)))
    scale = jnp.where(is_small, least, scale)
    from_low, from_high = -low / scale, largest - high / scale
    zero_point = jnp.where(-jnp.abs(low / scale) < largest - jnp.abs(high / scale), from_low, from_high)
    point = jnp.round(jnp.clip(zero_point, 0, largest))
    return scale, jnp.where(jnp.isnan(point), np.iinfo(np.int32).min, point.astype(np.int32))


@op("_linear_dynamic_int8(Tensor self, Tensor weight, Tensor packed, Tensor sums, Tensor scales, Tensor? bias, "
    "bool reduce_range) -> Tensor", differentiable=False)
def linear_dynamic_int8(self, weight, packed, sums, scales, bias, reduce_range):
    """A linear layer of int8 weights whose input is rounded to bytes by the range that it has.

    Args:
        self: (..., k) float32. weight: (1, n, k) int8. sums: (1, n) int32, of the weight's rows. scales: (1, n) float32.
        packed: (1, n / 16, k / 4, 64) int8, the weight as the kernel for processors with instructions for bytes wants it: four
            terms of 16 rows one after the other, filled up with zeros; or nothing of it, (1, 0, 0, 64).
        bias: (1, n) float32. reduce_range: whether bytes go up to 127 only.

    Raises:
        RuntimeError: for another dtype and sizes that do not fit.
    """
    if self.dtype != np.float32:
        raise RuntimeError(f"expected scalar type Float but found {dtype_name(self.dtype)}")
    if self.shape[-1:] != weight.shape[2:]:
        raise RuntimeError(f"The number of rows in the packB should be equal to K: {self.shape[-1]}")
    rows = self if self.ndim == 3 and self.shape[0] == 1 else self.reshape(1, math.prod(self.shape[:-1]), self.shape[-1])
    operands = rows, weight, packed, sums, scales, scales if bias is None else bias
    how = {"largest": 127 if reduce_range else 255, "has_bias": bias is not None}
    found = _linear_dynamic(*operands, **how) if 0 in (rows.size, weight.size) else _LINEAR_DYNAMIC.bind(*operands, **how)[0]
    return found if rows is self else found.reshape(*self.shape[:-1], weight.shape[1])


@op("_lstm_dynamic_int8(Tensor projected, Tensor h, Tensor c, Tensor weight, Tensor packed, Tensor sums, Tensor scales, "
    "Tensor? bias, bool reduce_range) -> (Tensor, Tensor, Tensor)", differentiable=False)
def lstm_dynamic_int8(projected, h, c, weight, packed, sums, scales, bias, reduce_range):
    """The steps of an LSTM whose states are rounded to bytes by the range that they have (`linear_dynamic_int8`).

    Args:
        projected: (steps, batch, 4 * hidden) float32, of the inputs. h, c: (batch, hidden) float32.

    Returns:
        (the outputs of all steps, h, c).
    """

    def step(state, own):
        h, c = state
        i, f, g, o = jnp.split(linear_dynamic_int8.kernel(h, weight, packed, sums, scales, bias, reduce_range) + own, 4, -1)
        c = lax.logistic(f) * c + lax.logistic(i) * jnp.tanh(g)
        h = lax.logistic(o) * jnp.tanh(c)
        return (h, c), h

    (h, c), outputs = lax.scan(step, (h, c), projected)
    return outputs, h, c


def _linear_dynamic_of_one(x, weight, packed, sums, scales, bias, *, largest, has_bias):
    scale, zero_point = _affine_range(x, largest)
    scale = scale.astype(np.float32)
    inverse = (1 / scale).astype(np.float64)  # the product and the sum are rounded once
    levels = jnp.round((x.astype(np.float64) * inverse + zero_point).astype(np.float32))
    levels = jnp.where(jnp.isnan(levels), 255, jnp.clip(levels, 0, 255)).astype(np.uint8)
    total = _product_of_bytes(levels, weight, sums, zero_point)
    y, factor = total.astype(np.float32), scale * scales
    return fused_multiply_add(y, factor, bias) if has_bias else y * factor


def _linear_dynamic(*operands, **how):
    return jax.vmap(functools.partial(_linear_dynamic_of_one, **how))(*operands)


_LINEAR_DYNAMIC = primitive("linear_dynamic", _linear_dynamic, lambda x, weight, *_: [(*x.shape[:2], weight.shape[1])])


def _c_name(dtype):
    return {"int32": "int", "int16": "short int", "int64": "long int", "float32": "float", "float64": "double",
            "uint8": "unsigned char"}.get(np.dtype(dtype).name, dtype_name(dtype))


@op("_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor", differentiable=False)
def weight_int8pack_mm(self, mat2, scales):
    """``self @ (mat2 * scales).T`` for weights of int8 (``torch._weight_int8pack_mm``).

    Args:
        self: (m, k) float32, bfloat16 or float16. mat2: (n, k) int8. scales: (n,) of the dtype of ``self``.

    Raises:
        RuntimeError: for other dtypes and shapes.
    """
    name = "_weight_int8pack_mm_cpu"
    if self.ndim != 2:
        raise RuntimeError(f"{name} : expect A to be 2D tensor.")
    if not jnp.issubdtype(self.dtype, jnp.floating) or self.dtype.itemsize > 4:
        raise RuntimeError(f"{name} : expect A to be either 32-bit or 16-bit float tensor.")
    if mat2.dtype != np.int8:
        raise RuntimeError(f"{name} : expect B to be int8 tensor.")
    if mat2.ndim != 2 or mat2.shape[1] != self.shape[1]:
        raise RuntimeError(f"{name} : expect B.size(1) == {self.shape[1]}")
    if scales.ndim != 1 or scales.shape[0] != mat2.shape[0]:
        raise RuntimeError(f"{name} : expect scales to be 1d tensor with size {mat2.shape[0]}")
    if scales.dtype != self.dtype:
        raise RuntimeError(
            f"expected scalar type {dtype_name(self.dtype)} but found {dtype_name(scales.dtype)}"
        )
    x = self if self.dtype == jnp.bfloat16 else self.astype(np.float32)
    wide = _WEIGHTS8.bind(x[None], mat2[None])[0][0]
    return (wide * scales.astype(np.float32)).astype(self.dtype)


_WEIGHTS8 = primitive(
    "multiply_weights8",
    lambda x, weights: product(x.astype(np.float32), weights.astype(np.float32).mT),
    lambda x, weights: [(*x.shape[:2], weights.shape[1])],
)


def _blocks(rows):
    """(first row, rows, whether whole) of the blocks of packed weights."""
    return [(start, min(_BLOCK, rows - start), rows - start >= _BLOCK) for start in range(0, rows, _BLOCK)]


@op("_convert_weight_to_int4pack_for_cpu(Tensor self, int innerKTiles) -> Tensor", differentiable=False)
def convert_weight_to_int4pack_for_cpu(self, innerKTiles):
    """Weights of 0 to 15, two in a byte (``torch._convert_weight_to_int4pack_for_cpu``).

    Args:
        self: (n, k) int32; n a multiple of 16, k an even number.

    Returns:
        (n, k / 2) uint8: for blocks of 64 rows the bytes of each column one after the other, rows j and j + 32 in a
        byte; in the last, smaller block neighbouring rows.

    Raises:
        RuntimeError: for other dtypes and shapes.
    """
    name = "_convert_weight_to_int4pack_cpu"
    if self.dtype != np.int32:
        raise RuntimeError(f"{name} : expect weight to be kInt.")
    if self.ndim != 2:
        raise RuntimeError(f"{name} : expect weight to be 2D tensor.")
    rows, columns = self.shape
    if rows % 16:
        raise RuntimeError(f"{name} : expect N to be dividable by 16")
    if columns % 2:
        raise RuntimeError(f"{name} : expect K to be dividable by 2")
    parts = []
    for start, count, whole in _blocks(rows):
        block = self[start : start + count].astype(np.uint8)
        low, high = (block[: count // 2], block[count // 2 :]) if whole else (block[::2], block[1::2])
        parts.append((low | (high << 4)).T.reshape(-1))
    return jnp.concatenate(parts).reshape(rows, columns // 2)


def _unpacked(packed, columns):
    """The weights of `convert_weight_to_int4pack_for_cpu`: (n, k) of 0 to 15."""
    rows = packed.shape[0]
    flat, parts = packed.reshape(-1), []
    for start, count, whole in _blocks(rows):
        first, size = start * columns // 2, count * columns // 2
        block = flat[first : first + size].reshape(columns, count // 2).T
        low, high = block & 15, block >> 4
        parts.append(jnp.concatenate([low, high]) if whole
                     else jnp.stack([low, high], 1).reshape(count, columns))
    return jnp.concatenate(parts)


@op("_weight_int4pack_mm_for_cpu(Tensor self, Tensor mat2, int qGroupSize, Tensor qScaleAndZeros) -> Tensor",
    differentiable=False)
def weight_int4pack_mm_for_cpu(self, mat2, qGroupSize, qScaleAndZeros):
    """The product with packed weights of four bits (``torch._weight_int4pack_mm_for_cpu``).

    A weight ``w`` stands for ``(w - 8) * scale + zero``.

    Args:
        self: (m, k) float32, bfloat16 or float16. mat2: (n, k / 2) uint8.
        qGroupSize: so many columns share a scale and a zero.
        qScaleAndZeros: (k / qGroupSize, n, 2) of the dtype of ``self``.

    Raises:
        RuntimeError: for other dtypes and shapes.
    """
    name = "_weight_int4pack_mm_cpu"
    if self.ndim != 2 or not jnp.issubdtype(self.dtype, jnp.floating):
        raise RuntimeError(f"{name} : expect A to be either 32-bit or 16-bit float tensor.")
    if mat2.dtype != np.uint8:
        raise RuntimeError(f"{name} : expect B to be uint8 tensor.")
    columns, rows = self.shape[1], mat2.shape[0]
    if mat2.ndim != 2 or mat2.shape[1] * 2 != columns:
        raise RuntimeError(f"{name} : expect B.size(1) == {columns // 2}")
    if qGroupSize not in (32, 64, 128, 256):
        raise RuntimeError(f"{name}: expect qGroupSize to be 32, 64, 128 or 256, got {qGroupSize}")
    if qScaleAndZeros.ndim != 3 or qScaleAndZeros.shape[1] != rows or qScaleAndZeros.shape[2] != 2:
        raise RuntimeError(f"{name}: expect qScaleAndZeros to be 3d tensor with sizes [:, {rows}, 2]")
    settings = qScaleAndZeros if qScaleAndZeros.dtype == jnp.bfloat16 else qScaleAndZeros.astype(np.float32)
    operands = self.astype(np.float32), mat2, settings
    return _WEIGHTS4.bind(*(x[None] for x in operands), group=qGroupSize)[0][0].astype(self.dtype)


def _product_with_weights4(x, packed, settings, *, group):
    rows, columns = packed.shape[0], x.shape[1]
    settings = settings.astype(np.float32)
    weight = _unpacked(packed, columns).astype(np.float32) - 8
    weight = weight.reshape(rows, columns // group, group)
    weight = weight * settings[:, :, 0].T[:, :, None] + settings[:, :, 1].T[:, :, None]
    return product(x, weight.reshape(rows, columns).T)


_WEIGHTS4 = primitive(
    "multiply_weights4", lambda *operands, group: jax.vmap(functools.partial(_product_with_weights4, group=group))(*operands),
    lambda x, packed, settings: [(*x.shape[:2], packed.shape[1])],
)
