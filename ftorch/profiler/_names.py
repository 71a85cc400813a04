"""What calls are called in profiles, and what they compute."""

from __future__ import annotations

import functools
import math

from .._ops import ops
from ..eager.tensor import TensorBase

# Kernels whose call is an op of another name in PyTorch.
_NAMES = {
    "_batch_norm_eval": "native_batch_norm", "_batch_norm_train": "native_batch_norm",
    "_index_newaxis": "unsqueeze", "_index_select": "select", "_index_slice": "slice",
    "_lstm_layer": "lstm", "_rnn_layer": "rnn_tanh", "cross_entropy": "cross_entropy_loss",
    "_scaled_dot_product_attention": "scaled_dot_product_attention",
}


def aten_name(name: str) -> str:
    """``"aten::select"`` of a kernel's or function's name."""
    return f"aten::{_NAMES.get(name, name)}"


@functools.cache
def is_aten(name: str) -> bool:
    """Whether a function of several ops is one of PyTorch's ops."""
    return name in _NAMES or getattr(ops.aten, name, None) is not None


_PRODUCTS = frozenset("matmul mm bmm addmm baddbmm linear".split())


def flops_of(name: str, operands, result) -> int:
    """The floating point operations of products, convolutions, sums and products of elements; else 0."""
    tensors = [o for o in operands if isinstance(o, TensorBase)] if isinstance(operands, tuple) else []
    if not isinstance(result, TensorBase) or not tensors:
        return 0
    if name in ("add", "mul"):
        return result.numel()
    if name in _PRODUCTS:
        left = tensors[1] if name in ("addmm", "baddbmm") else tensors[0]
        return 2 * result.numel() * left.shape[-1] if left.dim() else 0
    if name == "conv2d":
        return 2 * result.numel() * math.prod(tensors[1].shape[1:])
    return 0


__all__ = ["aten_name", "flops_of", "is_aten"]
