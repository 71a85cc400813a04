"""Quantized tensors: integers that stand for real numbers, and what can be done with them.

The engine's functions ask for this package when they are first given or asked for a quantized tensor; ordinary
tensors never come here. `_quantizer` says how integers and numbers are related, `_tensor` what a quantized tensor is and
the table of its functions, the others fill the table. The operators of ``torch.ops.quantized`` are in `_operators`.
"""
# ruff: noqa: F401

from . import (
    _activations,
    _arithmetic,
    _attributes,
    _embedding,
    _layers,
    _movement,
    _normalization,
    _pooling,
    _recurrent,
)
from ._creation import (
    choose_qparams_optimized,
    choose_qparams_per_tensor,
    dequantize,
    empty_affine,
    empty_per_channel,
    make_per_channel,
    make_per_tensor,
    quantize_per_channel,
    quantize_per_tensor,
    quantize_per_tensor_dynamic,
    rebuild,
)
from ._observing import choose_by_averages, observe_moving_average
from ._tensor import QuantizedTensor, not_run
