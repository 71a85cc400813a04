"""PyTorch's first quantized layers (``torch.fbgemm_*``), and the recurrent cells made of them.

They take weights packed into tensors of bytes. Here those bytes are the matrix itself behind a head of its sizes: copies of
such a tensor, files and other processes have the weights, too.
"""

from __future__ import annotations

import functools

import numpy as np

from ..eager.bindings.publishing import function
from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from ..eager.core.user_warnings import warn_once, warn_user
from . import _quantizer as q
from ._creation import choose_parameters, observed_range
from ._layers import dynamically_quantized
from ._recurrent import gru_step, lstm_step
from ._tensor import integers

_public = functools.partial(function, path=".")

_HEAD = 24  # bytes: eight that say what follows, and two sizes
_MARKS = {_dtype.int8: b"fbgemm8\0", _dtype.float16: b"fbgemm16"}
_LARGEST = 65504.0  # of half precision


def _deprecated(name):
    warn_once(f"{name} is deprecated and will be removed in a future PyTorch release.")


def _holds(condition, words):
    if not condition:
        raise RuntimeError(f"Expected {words} to be true, but got false.  (Could this error message be improved?  If so, "
                           "please report an enhancement request to PyTorch.)")


def _is(x, dtype):
    if x.dtype is not dtype:
        raise RuntimeError(f"expected scalar type {dtype.scalar_name} but found {x.dtype.scalar_name}")


def _tensor(x, function, name, position):
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{function}(): argument '{name}' (position {position}) must be Tensor, not {type(x).__name__}")


def _packed(matrix):
    head = np.frombuffer(_MARKS[matrix.dtype], np.uint8).tolist() + np.array(matrix.shape, "<i8").view(np.uint8).tolist()
    return torch.cat([torch.tensor(head, dtype=_dtype.uint8), matrix.contiguous().reshape(-1).view(_dtype.uint8)])


def _unpacked(packed, dtype):
    head = packed[:_HEAD].numpy().tobytes() if packed.dtype is _dtype.uint8 and packed.dim() == 1 else b""
    if len(head) < _HEAD or not head.startswith(_MARKS[dtype]):
        raise RuntimeError("Expected temporary cpp type wrapper")
    sizes = np.frombuffer(head, "<i8", offset=8).tolist()
    return packed[_HEAD:].clone().view(dtype).reshape(sizes)  # a copy starts where wide numbers may


@_public
def fbgemm_linear_quantize_weight(input):
    """A matrix as int8, for `fbgemm_linear_int8_weight`.

    Args:
        input: float32 (outputs, inputs).

    Returns:
        (int8 (outputs, inputs); int32 (outputs,), the sums of its rows without the zero point; the scale; the zero point).

    Raises:
        RuntimeError: for another dtype.

    >>> import ftorch as torch
    >>> torch.fbgemm_linear_quantize_weight(torch.tensor([[0.0, 255.0]]))
    (tensor([[-128,  127]], dtype=torch.int8), tensor([255], dtype=torch.int32), 1.0, -128)
    """
    _deprecated("fbgemm_linear_quantize_weight")
    _is(input, _dtype.float32)
    weight = input.detach().contiguous()
    scale, zero_point = choose_parameters(*observed_range(weight), -128, 127)
    scale, zero_point = float(np.float32(scale)), int(zero_point)
    inputs = weight.size(1)
    levels = q.PerTensor(scale, zero_point).quantized(weight, _dtype.qint8)
    sums = levels.sum(1, dtype=_dtype.int32) - zero_point * inputs
    return levels, sums, scale, zero_point


@_public
def fbgemm_pack_quantized_matrix(input, K=None, N=None):
    """An int8 matrix of weights as the bytes that `fbgemm_linear_int8_weight` takes.

    Args:
        input: int8 (outputs, inputs). K, N: the inputs and outputs, by default those.

    Raises:
        RuntimeError: for another dtype.
    """
    _deprecated("fbgemm_pack_quantized_matrix")
    _is(input, _dtype.int8)
    return _packed(input if K is None else input.reshape(N, K))


@_public
def fbgemm_linear_int8_weight_fp32_activation(input, weight, packed, col_offsets, weight_scale, weight_zero_point, bias):
    """A linear layer of int8 weights, whose input is quantized to bytes by its own range. Nothing of it has a gradient.

    Args:
        input: float32 (..., inputs), of two dimensions or more.
        weight, col_offsets, weight_scale, weight_zero_point: of `fbgemm_linear_quantize_weight`.
        packed: of `fbgemm_pack_quantized_matrix`.
        bias: float32 (outputs,).

    Returns:
        float32 (..., outputs).

    Raises:
        RuntimeError: for dtypes and sizes that do not fit.

    >>> import ftorch as torch
    >>> w, sums, scale, zero_point = torch.fbgemm_linear_quantize_weight(torch.tensor([[0.0, 255.0]]))
    >>> packed = torch.fbgemm_pack_quantized_matrix(w)
    >>> torch.fbgemm_linear_int8_weight(torch.tensor([[0.0, 255.0]]), w, packed, sums, scale, zero_point, torch.ones(1))
    tensor([[65026.]])
    """
    _tensor(bias, "fbgemm_linear_int8_weight_fp32_activation", "bias", 7)
    return _int8(input, weight, packed, col_offsets, weight_scale, weight_zero_point, bias)


@_public
def fbgemm_linear_int8_weight(input, weight, packed, col_offsets, weight_scale, weight_zero_point, bias):
    """`fbgemm_linear_int8_weight_fp32_activation` by its older name."""
    _tensor(bias, "fbgemm_linear_int8_weight", "bias", 7)
    return _int8(input, weight, packed, col_offsets, weight_scale, weight_zero_point, bias)


def _int8(input, weight, packed, col_offsets, weight_scale, weight_zero_point, bias):
    _deprecated("fbgemm_linear_int8_weight_fp32_activation")
    _is(input, _dtype.float32)
    _holds(input.dim() >= 2, "input.dim() >= 2")
    outputs, inputs = weight.shape
    _holds(input.size(-1) == inputs, "K == weight.size(1)")
    _holds(bias.dim() == 1, "bias.dim() == 1")
    _holds(bias.size(0) == outputs, "bias.size(0) == N")
    matrix = _unpacked(packed, _dtype.int8)
    x = dynamically_quantized(input.detach())
    levels = integers(x).double()  # in which all sums are exact
    total = torch.nn.functional.linear(levels, matrix.double()) - int(weight_zero_point) * levels.sum(-1, keepdim=True)
    total = (total - x._quantizer.zero_point * col_offsets.detach()).to(_dtype.int32).to(_dtype.float32)
    factor = float(np.float32(x._quantizer.scale) * np.float32(weight_scale))
    return q.fused(total, factor, bias.detach())


@_public
def fbgemm_pack_gemm_matrix_fp16(input):
    """A matrix as the bytes that `fbgemm_linear_fp16_weight` takes: half precision, where larger numbers become its largest.

    Args:
        input: float32 (outputs, inputs).

    Raises:
        RuntimeError: for another dtype.
    """
    _deprecated("fbgemm_pack_gemm_matrix_fp16")
    _is(input, _dtype.float32)
    weight = input.detach()
    if bool((weight.abs() > _LARGEST).any()):
        warn_user("FOUND weight out of range ", UserWarning)
    return _packed(weight.clamp(-_LARGEST, _LARGEST).to(_dtype.float16))


@_public
def fbgemm_linear_fp16_weight_fp32_activation(input, packed_weight, bias, output=None):
    """A linear layer of weights of half precision. Nothing of it has a gradient.

    Args:
        input: float32 (..., inputs). packed_weight: of `fbgemm_pack_gemm_matrix_fp16`. bias: float32 (outputs,) or None.
        output: float32, takes the results.

    Returns:
        float32 (..., outputs).

    Raises:
        RuntimeError: for dtypes and sizes that do not fit.

    >>> import ftorch as torch
    >>> packed = torch.fbgemm_pack_gemm_matrix_fp16(torch.eye(2))
    >>> torch.fbgemm_linear_fp16_weight(torch.ones(1, 2), packed, torch.zeros(2))
    tensor([[1., 1.]])
    """
    return _fp16(input, packed_weight, bias, output)


@_public
def fbgemm_linear_fp16_weight(input, packed_weight, bias, output=None):
    """`fbgemm_linear_fp16_weight_fp32_activation` by its older name, with a bias."""
    _tensor(bias, "fbgemm_linear_fp16_weight", "bias", 3)
    return _fp16(input, packed_weight, bias, output)


def _fp16(input, packed_weight, bias, output):
    _deprecated("fbgemm_linear_fp16_weight_fp32_activation")
    _is(input, _dtype.float32)
    weight = _unpacked(packed_weight, _dtype.float16)
    _holds(input.size(-1) == weight.size(1), "input.size(input.dim() - 1) == packed_weight_fp16.numRows()")
    _holds(input.dim() >= 2, "input.dim() >= 2")
    result = torch.nn.functional.linear(input.detach(), weight.float())
    if bias is not None:
        _holds(bias.dim() == 1, "bias.dim() == 1")
        result = result + bias
    if output is None:
        return result
    return output.resize_(result.shape).copy_(result)


# --- cells ---------------------------------------------------------------------------------


def _gates(input, h, weights):
    (w_ih, w_hh, b_ih, b_hh, packed_ih, packed_hh, sums_ih, sums_hh, scale_ih, scale_hh, zero_point_ih, zero_point_hh) = weights
    return (fbgemm_linear_int8_weight(input, w_ih, packed_ih, sums_ih, scale_ih, zero_point_ih, b_ih),
            fbgemm_linear_int8_weight(h, w_hh, packed_hh, sums_hh, scale_hh, zero_point_hh, b_hh))


@_public
def quantized_lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh, packed_ih, packed_hh, col_offsets_ih, col_offsets_hh, scale_ih,
                        scale_hh, zero_point_ih, zero_point_hh):
    """One step of an LSTM of int8 weights.

    Args:
        input: float32 (batch, inputs). hx: (h, c), each float32 (batch, hidden).
        w_ih, w_hh, col_offsets_ih, ...: what `fbgemm_linear_quantize_weight` makes of (4 * hidden, inputs) and (4 * hidden,
            hidden). packed_ih, packed_hh: of `fbgemm_pack_quantized_matrix`. b_ih, b_hh: float32 (4 * hidden,).

    Returns:
        (h, c).

    Raises:
        RuntimeError: for sizes and dtypes that do not fit.
    """
    of_input, of_state = _gates(input, hx[0], (
        w_ih, w_hh, b_ih, b_hh, packed_ih, packed_hh, col_offsets_ih, col_offsets_hh, scale_ih, scale_hh, zero_point_ih,
        zero_point_hh))
    return lstm_step(of_state + of_input, hx[1])


@_public
def quantized_gru_cell(input, hx, w_ih, w_hh, b_ih, b_hh, packed_ih, packed_hh, col_offsets_ih, col_offsets_hh, scale_ih,
                       scale_hh, zero_point_ih, zero_point_hh):
    """One step of a GRU of int8 weights: h. See `quantized_lstm_cell`; here three times the hidden size."""
    return gru_step(*_gates(input, hx, (
        w_ih, w_hh, b_ih, b_hh, packed_ih, packed_hh, col_offsets_ih, col_offsets_hh, scale_ih, scale_hh, zero_point_ih,
        zero_point_hh)), hx)


def _elman_cell(name, activate):
    def cell(input, hx, w_ih, w_hh, b_ih, b_hh, packed_ih, packed_hh, col_offsets_ih, col_offsets_hh, scale_ih, scale_hh,
             zero_point_ih, zero_point_hh):
        """One step of an Elman cell of int8 weights: h. See `quantized_lstm_cell`; here the hidden size once."""
        of_input, of_state = _gates(input, hx, (
            w_ih, w_hh, b_ih, b_hh, packed_ih, packed_hh, col_offsets_ih, col_offsets_hh, scale_ih, scale_hh, zero_point_ih,
            zero_point_hh))
        return activate(of_state + of_input)

    cell.__name__ = cell.__qualname__ = name
    return _public(cell)


quantized_rnn_relu_cell = _elman_cell("quantized_rnn_relu_cell", lambda x: torch.relu(x))
quantized_rnn_tanh_cell = _elman_cell("quantized_rnn_tanh_cell", lambda x: torch.tanh(x))
