"""``torch.ops.sparse``: linear layers whose weights have zeros in blocks.

The packed weights know their blocks; products are those of dense weights, which have the same integers.
"""

from __future__ import annotations

import functools

import numpy as np

from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from . import _layers as layers
from . import _quantizer as q
from ._operators import operator
from ._tensor import build, integers


class LinearPackedParamsBase(layers.LinearPackedParamsBase):
    """The weight and bias of a sparse linear layer, and the sizes of its blocks."""

    _qualified = "__torch__.torch.classes.sparse.LinearPackedParamsBase"

    def __init__(self, weight, bias=None, out_features_block_size=1, in_features_block_size=4):
        super().__init__(weight, bias)
        self.blocks = (int(out_features_block_size), int(in_features_block_size))

    def __getstate__(self):
        return self.weight, self.bias, *self.blocks


def _engine(name, *fits):
    """The engine of an operator; RuntimeError for one that lacks it."""
    found = layers.engine()
    if found not in fits:
        space = " " if name == "qlinear_prepack" else ""
        raise RuntimeError(f"Didn't find engine for operation ao::sparse::{name}{space}{found.upper()}")
    return found


def prepack(W, B, out_features_block_size, in_features_block_size):
    """The packed weights of a sparse linear layer.

    Raises:
        RuntimeError: unless the weight is a qint8 matrix, for FBGEMM without zero points and in blocks of 1 x 4.
    """
    engine = _engine("qlinear_prepack", "fbgemm", "qnnpack")
    if W.dim() != 2:
        raise RuntimeError(f"The weight tensor for ao::sparse::qlinear_prepack ({engine}) should be 2-dimensional.")
    rows, columns = int(out_features_block_size), int(in_features_block_size)
    if engine == "fbgemm" and (rows, columns) != (1, 4):
        raise RuntimeError("The out and in features block sizes for ao::sparse::qlinear_prepack (fbgemm) should be "
                           f"1 and 4 respectively (got {rows} and {columns})")
    if W.dtype is not _dtype.qint8:
        raise RuntimeError(f"expected scalar type QInt8 but found {W.dtype.scalar_name}")
    quantizer = W._quantizer
    is_one = isinstance(quantizer, q.PerTensor)
    if B is not None and (B.dim() != 1 or B.numel() != W.shape[0]):
        if engine == "qnnpack":
            raise RuntimeError(
                "ao::sparse::qlinear_prepack (qnnpack): Given weight of size "
                f"{list(W.shape)}, expected bias to be 1-dimensional with {W.shape[0]} elements, but got bias of size "
                f"{list(B.shape)} instead"
            )
        raise RuntimeError(
            f"bias should have N elements: {W.shape[0]}" if B.dim() == 1 else "bias should be a vector (1D Tensor)"
        )
    if engine == "qnnpack":
        B = torch.zeros(W.shape[0]) if B is None else B
    elif quantizer.zero_point != 0 if is_one else bool((quantizer.zero_points != 0).any()):
        raise RuntimeError("zero point(s) should be 0 for the weight tensor of ao::sparse::qlinear op")
    return LinearPackedParamsBase(W, B, rows, columns)


def unpack(W_prepack):
    """(weight, bias, [rows, columns] of a block); the scale has been one of single precision."""
    weight = W_prepack.weight
    if isinstance(weight._quantizer, q.PerTensor):
        weight = build(integers(weight), q.PerTensor(float(np.float32(weight._quantizer.scale)), weight._quantizer.zero_point))
    return weight, W_prepack.bias, list(W_prepack.blocks)


def linear(X, W_prepack, output_scale, output_zero_point, relu=False):
    """A sparse linear layer of quantized inputs and results."""
    if _engine("qlinear", "fbgemm", "qnnpack") == "qnnpack":
        raise RuntimeError("Static quantized sparse linear unimplemented on QNNPACK")
    return layers.linear(X, W_prepack, output_scale, output_zero_point, relu)


def linear_dynamic(X, W_prepack, relu=False):
    """A sparse linear layer that quantizes its input by the input's own range; float32 results."""
    _engine("qlinear_dynamic", "qnnpack")
    return layers.linear_dynamic(X, W_prepack, False, relu)


_BLOCKS = "out_features_block_size in_features_block_size"
operator(f"qlinear_prepack W B {_BLOCKS}", prepack, namespace="sparse")
operator("qlinear_unpack W_prepack", unpack, namespace="sparse")
for _suffix, _relu in (("", False), ("_relu", True)):
    operator(f"qlinear{_suffix} X W_prepack output_scale_i output_zero_point_i",
             functools.partial(linear, relu=_relu), namespace="sparse")
    operator(f"qlinear{_suffix}_dynamic X W_prepack", functools.partial(linear_dynamic, relu=_relu),
             namespace="sparse")
