"""Products of integers, and of numbers with weights of eight and four bits.

Sums of products of integers are exact: they are computed in single precision over so many terms as it holds, and
added as integers. Narrow weights are widened in the product, which reads them once.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ...core.registry import op
from .._common import dtype_name

_TERMS = 2**24 // 128**2  # so many products of int8 single precision sums exactly
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
    terms = _TERMS if self.dtype == np.int8 else _TERMS // 2
    a, b = self.astype(np.float32), mat2.astype(np.float32)
    total = jnp.zeros((self.shape[0], mat2.shape[1]), np.int32)
    for start in range(0, self.shape[1], terms):
        part = a[:, start : start + terms] @ b[start : start + terms]
        total = total + part.astype(np.int32)
    return total


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
    wide = self.astype(np.float32) @ mat2.astype(np.float32).T
    return (wide * scales.astype(np.float32)).astype(self.dtype)


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
    settings = qScaleAndZeros.astype(np.float32)
    weight = _unpacked(mat2, columns).astype(np.float32) - 8
    weight = weight.reshape(rows, columns // qGroupSize, qGroupSize)
    weight = weight * settings[:, :, 0].T[:, :, None] + settings[:, :, 1].T[:, :, None]
    return (self.astype(np.float32) @ weight.reshape(rows, columns).T).astype(self.dtype)
