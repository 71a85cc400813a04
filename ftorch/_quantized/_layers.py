"""Linear layers and convolutions of quantized tensors, and the packed weights that they take.

Sums of products of integers are exact: weights of int8 without zero points are multiplied as such, others in the narrowest
floating-point dtype that holds every partial sum. What follows (scales, bias, rounding) is done in single precision in the
order of the kernels that PyTorch uses: FBGEMM's for linear layers, oneDNN's for convolutions under the engine "x86".
"""

from __future__ import annotations

import copy
import math

import numpy as np

from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from ..eager.native import multiplies_bytes
from . import _quantizer as q
from ._creation import choose_parameters, observed_range
from ._refusals import (
    check_convolved,
    check_linear_input,
    check_rows,
    check_weight,
    engine,
    refuse_points,
    require_onednn,
)
from ._tensor import QuantizedTensor, ScriptObject, build, integers

_SPATIAL = {1: "conv1d", 2: "conv2d", 3: "conv3d"}


def exact_dtype(terms, largest=255 * 128):
    """The dtype in which sums of so many products of integers are exact."""
    return _dtype.float32 if terms * largest < 2**24 else _dtype.float64


# --- packed weights ------------------------------------------------------------------


class LinearPackedParamsBase(ScriptObject):
    """The weight and bias of a linear layer, as its kernels want them.

    Attributes:
        weight: (out_features, in_features), qint8 with one scale or one for each row.
        bias: (out_features,) of float32, or None.
    """

    _qualified = "__torch__.torch.classes.quantized.LinearPackedParamsBase"

    def __init__(self, weight, bias=None):
        self.weight, self.bias = weight if engine() in ("onednn", "qnnpack") else _in_single_precision(weight), bias
        # (the weight of int8, the sums of its rows, its scales), or None where it has zero points
        self._bytes = _symmetric(weight) if isinstance(weight, QuantizedTensor) else None
        self._dynamic = self._bytes and _dynamic_operands(*self._bytes, bias)  # of `_linear_dynamic_int8`

    def unpack(self):
        """(weight, bias)."""
        return self.weight, self.bias

    def bias_(self):
        """The bias, or None."""
        return self.bias

    def __getstate__(self):
        return self.unpack()

    def __setstate__(self, state):
        self.__init__(*state)

    def __deepcopy__(self, memo):
        return type(self)(*(copy.deepcopy(v, memo) for v in self.__getstate__()))

    @property
    def _operand(self):
        """(the weight without zero points, transposed: for products; scales: (out,) or ())."""
        found = self.__dict__.get("_prepared")
        if found is None:
            found = self.__dict__["_prepared"] = _prepared(self.weight, 0)
        return found


class LinearPackedParamsFp16(LinearPackedParamsBase):
    """A linear layer's weight of half precision."""

    def __init__(self, weight, bias=None):
        super().__init__(weight, bias)


def _in_single_precision(weight):
    """A weight whose scale is that of the kernels, which keep it in single precision."""
    quantizer = getattr(weight, "_quantizer", None)
    if not isinstance(quantizer, q.PerTensor) or quantizer.scale == float(np.float32(quantizer.scale)):
        return weight
    rounded = q.PerTensor(float(np.float32(quantizer.scale)), quantizer.zero_point)
    return build(weight._ints, rounded, weight.dtype, weight.shape)


def _has_points(weight):
    quantizer = weight._quantizer
    return quantizer.zero_point != 0 if isinstance(quantizer, q.PerTensor) else bool((quantizer.zero_points != 0).any())


def _is_onednns(weight, groups, output_padding):
    """Whether oneDNN's kernels compute a convolution: under "x86" those of few groups, whose weights have no zero points."""
    if engine() != "x86":
        return engine() == "onednn"
    return not (groups > 100 or any(output_padding) or _has_points(weight))


def _as_kept(weight, transpose, groups, output_padding):
    """A convolution's weight as it is unpacked: oneDNN's kernels keep it, those of others lay the channels last."""
    if _is_onednns(weight, groups, output_padding):
        return weight
    if engine() == "qnnpack":
        return build(channels_last(weight._ints), weight._quantizer)
    weight = _in_single_precision(weight)
    ints = channels_last(weight._ints.transpose(0, 1) if transpose else weight._ints)
    return build(ints.transpose(0, 1) if transpose else ints, weight._quantizer)


def _prepared(weight, axis):
    quantizer = weight._quantizer
    ints = integers(weight)
    terms = ints.numel() // max(ints.shape[axis], 1)
    dtype = exact_dtype(terms, 255 * 255)
    shifted = quantizer.shifted(ints, dtype)
    if isinstance(quantizer, q.PerTensor):
        return shifted, np.float32(quantizer.scale)
    return shifted, np.asarray(quantizer.scales.numpy()).astype(np.float32)


def _packed_bytes(weight):
    """An int8 matrix as `_linear_dynamic_int8` wants it, where processors have instructions for that."""
    if not multiplies_bytes or not weight.numel():
        return weight.new_empty(1, 0, 0, 64)
    n, k = weight.shape
    rows, words = -(-n // 16), -(-k // 4)
    filled = torch.constant_pad_nd(weight, (0, words * 4 - k, 0, rows * 16 - n))
    return filled.view(rows, 16, words, 4).transpose(1, 2).reshape(1, rows, words, 64)


def _dynamic_operands(weight, sums, scales, bias):
    scales = scales.expand(len(sums)).contiguous()[None]
    return weight[None], _packed_bytes(weight), sums[None], scales, None if bias is None else bias.detach()[None]


def _symmetric(weight):
    quantizer = weight._quantizer
    is_one = isinstance(quantizer, q.PerTensor)
    points = quantizer.zero_point if is_one else quantizer.zero_points
    if weight.dtype is not _dtype.qint8 or (points != 0 if is_one else bool((points != 0).any())):
        return None
    ints = integers(weight).contiguous()
    scales = torch.tensor(np.float32(quantizer.scale)) if is_one else quantizer.scales.to(_dtype.float32)
    return ints, ints.sum(1, dtype=_dtype.int32), scales


def linear_prepack(W, B=None):
    """The packed weights of a linear layer.

    Raises:
        RuntimeError: unless the weight is a matrix, of qint8 for FBGEMM, and the bias has an element for each row.
    """
    kernels = engine() if engine() in ("onednn", "qnnpack") else "fbgemm"
    if W.dim() != 2:
        raise RuntimeError(
            "quantized::linear_prepack (qnnpack): Weight tensor rank should be == 2" if kernels == "qnnpack"
            else f"The weight tensor for quantized::linear_prepack ({kernels}) should be 2-dimensional."
        )
    if kernels == "fbgemm":
        check_weight(W)
    refuse_points(W, "linear_prepack")
    if B is not None and (B.dim() != 1 or B.numel() != W.shape[0]):
        if kernels == "qnnpack":
            raise RuntimeError(
                f"quantized::linear_prepack (qnnpack): Given weight of size {list(W.shape)}, expected bias to be 1-dimensional "
                f"with {W.shape[0]} elements, but got bias of size {list(B.shape)} instead"
            )
        if kernels == "onednn":
            raise RuntimeError(f"bias should have N elements: {W.shape[0]}, but got {B.shape[0]}")
        raise RuntimeError(
            f"bias should have N elements: {W.shape[0]}" if B.dim() == 1 else "bias should be a vector (1D Tensor)"
        )
    return LinearPackedParamsBase(W, B)


def linear_prepack_fp16(W, B=None):
    """The packed weights of a linear layer in half precision; larger numbers are clipped."""
    if engine() in ("onednn", "qnnpack"):
        raise RuntimeError(f"quantized::linear_prepack_fp16 is currently not supported by {engine().upper()}")
    limit = 65504.0
    return LinearPackedParamsFp16(torch.clamp(W.detach(), -limit, limit).to(_dtype.float16).to(_dtype.float32), B)


def linear_unpack(W_prepack):
    """(weight, bias) of packed weights."""
    return W_prepack.unpack()


class ConvPackedParamsBase(ScriptObject):
    """The weight and bias of a convolution and how it strides."""

    def __init__(self, weight, bias, stride, padding, dilation, groups, transpose=False, output_padding=None):
        self.weight, self._bias = _as_kept(weight, transpose, int(groups), output_padding or ()), bias
        self._stride, self._padding = tuple(stride), tuple(padding)
        self._dilation, self._groups = tuple(dilation), int(groups)
        self._transpose = bool(transpose)
        self._output_padding = tuple(output_padding or (0,) * len(self._stride))

    def unpack(self):
        """(weight, bias)."""
        return self.weight, self._bias

    def over(self, dims):
        """The same over ``dims`` dimensions: files have those over one as those over two."""
        if dims != 1 or len(self._stride) == 1:
            return self
        found = self.__dict__.get("_over_one")
        if found is None:
            settings = (self._stride, self._padding, self._dilation)
            stride, padding, dilation = ((given[1],) for given in settings)
            found = self.__dict__["_over_one"] = type(self)(
                self.weight.squeeze(2), self._bias, stride, padding, dilation, self._groups, self._transpose,
                (self._output_padding[1],),
            )
        return found

    def stride(self):
        """The strides, for each spatial dimension."""
        return list(self._stride)

    def padding(self):
        """The padding, for each spatial dimension."""
        return list(self._padding)

    def output_padding(self):
        """What a transposed convolution adds on one side."""
        return list(self._output_padding)

    def dilation(self):
        """The dilation, for each spatial dimension."""
        return list(self._dilation)

    def groups(self):
        """The number of groups."""
        return self._groups

    def transpose(self):
        """Whether it is a transposed convolution."""
        return self._transpose

    def __getstate__(self):
        return (self.weight, self._bias, self._stride, self._padding, self._dilation, self._groups,
                self._transpose, self._output_padding)

    def __setstate__(self, state):
        self.__init__(*state)

    def __deepcopy__(self, memo):
        return type(self)(*(copy.deepcopy(v, memo) for v in self.__getstate__()))

    def is_onednns(self):
        """Whether the engine has oneDNN's kernels compute it."""
        if engine() != "x86":
            return engine() == "onednn"
        found = self.__dict__.get("_is_onednns")
        if found is None:
            found = self.__dict__["_is_onednns"] = _is_onednns(self.weight, self._groups, self._output_padding)
        return found

    @property
    def _operand(self):
        found = self.__dict__.get("_prepared")
        if found is None:
            axis = 1 if self._transpose else 0
            found = self.__dict__["_prepared"] = _prepared(self.weight, axis)
        return found


class Conv2dPackedParamsBase(ConvPackedParamsBase):
    """Packed weights of convolutions over one or two dimensions."""

    _qualified = "__torch__.torch.classes.quantized.Conv2dPackedParamsBase"


class Conv3dPackedParamsBase(ConvPackedParamsBase):
    """Packed weights of convolutions over three dimensions."""

    _qualified = "__torch__.torch.classes.quantized.Conv3dPackedParamsBase"


def conv_prepack(dims, transpose=False):
    """The function that packs the weights of a convolution over ``dims`` dimensions."""
    cls = Conv3dPackedParamsBase if dims == 3 else Conv2dPackedParamsBase

    def prepack(weight, bias, stride, padding, *rest):
        output_padding = rest[0] if transpose else None
        dilation, groups = rest[-2:]
        if weight.dim() != dims + 2:
            wanted = f"Weights are expected to have {max(dims, 2) + 2} dimensions"  # those over one are run over two
            raise RuntimeError(f"quantized::conv_prepack (qnnpack): {wanted}, found shape {list(weight.shape)}"
                               if engine() == "qnnpack" else wanted)
        if transpose and isinstance(weight._quantizer, q.PerChannel) and engine() != "qnnpack":
            raise RuntimeError("Per Channel Quantization is currently disabled for transposed conv")
        if engine() == "fbgemm" or engine() == "x86" and not _is_onednns(weight, int(groups), output_padding or ()):
            check_weight(weight)
        refuse_points(weight, "qconv_prepack")
        return cls(weight, bias, stride, padding, dilation, groups, transpose, output_padding)

    return prepack


# --- the sums of products, and what follows ------------------------------------------


def _multipliers(x_scale, w_scale, out_scale):
    """(input scale times weight scales, that over the output's scale), in single precision."""
    both = (np.float32(x_scale) * w_scale).astype(np.float32)
    return both, None if out_scale is None else (both / np.float32(out_scale)).astype(np.float32)


def _channels(values, ndim, axis):
    """Values of the output's channels, so that they broadcast; a number stays one."""
    values = np.asarray(values)
    if not values.ndim:
        return float(values)
    shape = [1] * ndim
    shape[axis] = -1
    return torch.tensor(values.reshape(shape))


def _finish_fbgemm(total, both, multiplier, bias, zero_point, relu, axis):
    """Integers of a sum of products: FBGEMM adds the bias in the sum's own unit."""
    x = total.to(_dtype.float32)
    if bias is not None:
        shape = [1] * x.dim()
        shape[axis] = -1
        bias = bias.detach().reshape(shape)
        if np.ndim(both):
            x = x + bias / _channels(both, x.dim(), axis)
        else:
            x = x + bias * float(np.float32(1) / both)
    x = torch.round(x * _channels(multiplier, x.dim(), axis)) + zero_point
    return q.clipped(torch.clamp(x, min=zero_point) if relu else x, _dtype.quint8)


def _finish_qnnpack(total, both, multiplier, bias, zero_point, relu, axis):
    """Integers of a sum of products: QNNPACK adds the bias as an integer of the sum's own unit."""
    x = total.to(_dtype.int32)
    if bias is not None:
        shape = [1] * x.dim()
        shape[axis] = -1
        unit = 1 / _channels(both, x.dim(), axis) if np.ndim(both) else float(np.float32(1) / both)
        x = x + q.clipped(torch.round(bias.detach().reshape(shape) * unit), _dtype.qint32)
    x = torch.round(x.to(_dtype.float32) * _channels(multiplier, x.dim(), axis)) + zero_point
    return q.clipped(torch.clamp(x, min=zero_point) if relu else x, _dtype.quint8)


def _finish_onednn(total, factors, scale, bias, zero_point, relu, axis, dtype=_dtype.quint8):
    """Integers of a sum of products: oneDNN multiplies with one scale after the other, and adds the bias as a number."""
    x = total.to(_dtype.float32)
    for factor in factors:
        x = x * _channels(factor, total.dim(), axis)
    if bias is not None:
        shape = [1] * x.dim()
        shape[axis] = -1
        x = x + bias.detach().reshape(shape)
    if relu:
        x = torch.relu(x)
    x = torch.round(x * q.reciprocal(scale) + zero_point)
    return q.clipped(x, dtype)


def _linear_sums(X, packed):
    """The sums of products of a quantized input's integers and the weight's, without zero points."""
    if packed._bytes is not None and X.dtype is _dtype.quint8:
        weight, sums, _ = packed._bytes
        return torch._linear_int8(integers(X), weight, sums, torch.tensor(X._quantizer.zero_point, dtype=_dtype.int32))
    weight, _ = packed._operand
    levels = X._quantizer.shifted(integers(X))
    if levels.shape[-1:] != weight.shape[1:]:
        raise RuntimeError(f"The number of rows in the packB should be equal to K: {levels.shape[-1]}")
    return torch.nn.functional.linear(levels.to(weight.dtype), weight)


def linear(X, W_prepack, scale, zero_point, relu=False):
    """A linear layer: quantized input, packed weights, results in a quantizer."""
    check_linear_input(X)
    if engine() == "qnnpack" and X.dim() < 2:
        raise RuntimeError("quantized::linear(): Input tensor rank should be >= 2")
    if engine() != "onednn":
        check_rows(X)
    total = _linear_sums(X, W_prepack)
    both, multiplier = _multipliers(X._quantizer.scale, W_prepack._operand[1], scale)
    if engine() == "onednn":
        ints = _finish_onednn(total, (both,), scale, W_prepack.bias, zero_point, relu, -1, X.dtype)
    else:
        finish = _finish_qnnpack if engine() == "qnnpack" else _finish_fbgemm
        ints = finish(total, both, multiplier, W_prepack.bias, zero_point, relu, -1)
    return build(ints, q.PerTensor(scale, zero_point))


def _linear_numbers(X, W_prepack):
    """The numbers of a linear layer of a quantized input."""
    total = _linear_sums(X, W_prepack)
    both, _ = _multipliers(X._quantizer.scale, W_prepack._operand[1], None)
    out, factor = total.to(_dtype.float32), _channels(both, total.dim(), -1)
    return out * factor if W_prepack.bias is None else q.fused(out, factor, W_prepack.bias.detach())


def dynamically_quantized(x, reduce_range=False, by_fbgemm=True):
    """A tensor as quint8 in the range that it has; seven bits with ``reduce_range``."""
    x = x.detach()
    if x.dtype is not _dtype.float32:
        raise RuntimeError(f"expected scalar type Float but found {x.dtype.scalar_name}" if by_fbgemm else
                           f"Quantize only works on Float Tensor, got {x.dtype.scalar_name}")
    scale, zero_point = choose_parameters(*observed_range(x), 0, 127 if reduce_range else 255)
    quantizer = q.PerTensor(scale, zero_point)
    return build(quantizer.quantized(x, _dtype.quint8), quantizer)


def linear_dynamic(X, W_prepack, reduce_range=False, relu=False):
    """A linear layer that quantizes its input by the input's own range; float32 results."""
    if isinstance(W_prepack, LinearPackedParamsFp16):
        return linear_dynamic_fp16(X, W_prepack, relu)
    check_rows(X)
    reduce_range = reduce_range and engine() != "qnnpack"
    if W_prepack._bytes is not None and not isinstance(X, QuantizedTensor):
        out = torch._linear_dynamic_int8(X.detach() if X.requires_grad else X, *W_prepack._dynamic, reduce_range)
    else:
        out = _linear_numbers(dynamically_quantized(X, reduce_range), W_prepack)
    return torch.relu(out) if relu else out


def linear_dynamic_fp16(X, W_prepack, relu=False):
    """A linear layer whose weights are rounded to half precision."""
    if X.dim() < 2:
        raise RuntimeError("Expected input.dim() >= 2 to be true, but got false.  (Could this error message be improved?  If "
                           "so, please report an enhancement request to PyTorch.)")
    out = torch.nn.functional.linear(X.detach(), W_prepack.weight)
    out = out if W_prepack.bias is None else out + W_prepack.bias  # which is all that has a gradient
    return torch.relu(out) if relu else out


def linear_dynamic_fp16_unpacked_weight(X, weight, bias=None):
    """The same without packing first."""
    return linear_dynamic_fp16(X, linear_prepack_fp16(weight, bias))


def linear_leaky_relu(X, W_prepack, scale, zero_point, negative_slope):
    """A linear layer and `leaky_relu`."""
    require_onednn("linear_leaky_relu ")
    check_linear_input(X)
    x = torch.nn.functional.leaky_relu(_linear_numbers(X, W_prepack), negative_slope)
    quantizer = q.PerTensor(scale, zero_point)
    return build(q.clipped(torch.round(x * q.reciprocal(scale) + zero_point), X.dtype), quantizer)


def linear_tanh(X, W_prepack, scale, zero_point):
    """A linear layer and `tanh`."""
    require_onednn("linear_tanh ")
    check_linear_input(X)
    x = torch.tanh(_linear_numbers(X, W_prepack))
    quantizer = q.PerTensor(scale, zero_point)
    return build(q.clipped(torch.round(x * q.reciprocal(scale) + zero_point), X.dtype), quantizer)


def linear_of_quantized_input(X, scale, zero_point, W_prepack, relu=False):
    """A linear layer of numbers that are quantized first; float32 results."""
    quantizer = q.PerTensor(scale, zero_point)
    out = _linear_numbers(build(quantizer.quantized(X, _dtype.quint8), quantizer), W_prepack)
    return torch.relu(out) if relu else out


# --- convolutions --------------------------------------------------------------------


def _conv_sums(levels, packed, dims):
    weight, _ = packed._operand
    levels = levels.to(weight.dtype)
    one = dims == 1
    stride, padding, dilation, extra = (
        v[-1:] if one else v
        for v in (packed._stride, packed._padding, packed._dilation, packed._output_padding)
    )
    if one and weight.dim() == 4:
        weight = weight.squeeze(2)
    functional = torch.nn.functional
    if packed._transpose:
        function = getattr(functional, f"conv_transpose{dims}d")
        return function(levels, weight, None, stride, padding, extra, packed._groups, dilation)
    return getattr(functional, _SPATIAL[dims])(levels, weight, None, stride, padding, dilation, packed._groups)


def _convolved_sizes(qx, packed, dims):
    """The sizes of a convolution's result. Engines refuse empty ones in their own words; oneDNN's kernels make them."""
    weight, transpose, found = packed.weight, packed._transpose, []
    given = [v[-dims:] for v in (packed._stride, packed._padding, packed._dilation, packed._output_padding)]
    for i, (size, kernel, stride, padding, dilation, extra) in enumerate(zip(qx.shape[2:], weight.shape[-dims:], *given)):
        if transpose:
            found.append((size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1)
            if found[-1] <= 0:
                raise RuntimeError(
                    f"Output dimension is zero for {i + (dims == 1)} axis; kernel: {kernel}, stride: {stride}, input padding: "
                    f"{padding}, output padding: {extra}, dilation: {dilation}")
        else:
            found.append(math.trunc((size + 2 * padding - dilation * (kernel - 1) - 1) / stride) + 1)
    channels = weight.shape[1] * packed._groups if transpose else weight.shape[0]
    if min(found) <= 0 and engine() in ("fbgemm", "qnnpack") or min(found) < 0:
        count = max(dims, 2)  # those over one dimension are run over two
        if engine() == "qnnpack":
            raise RuntimeError(f"quantized::conv{count}d (qnnpack): each dimension of output tensor should be greater than 0.")
        if engine() == "fbgemm":
            raise RuntimeError(f"[QConv{count}D] each dimension of output tensor should be greater than 0")
        sizes = [qx.shape[0], channels, *[1] * (count - dims), *found]
        raise RuntimeError(f"Trying to create tensor with negative dimension {next(n for n in found if n < 0)}: {sizes}")
    return qx.shape[0], channels, *found


def conv(dims, relu=False, accumulates=False):
    """The convolution over ``dims`` dimensions: with `relu`, with a tensor that is added."""
    name = f"{_SPATIAL[dims]}{'_add' if accumulates else ''}{'_relu' if relu else ''}"

    def run(qx, *args, **kwargs):
        accumulated = args[0] if accumulates else None
        packed, *rest = args[1:] if accumulates else args
        scale, zero_point = rest[-2:] if len(rest) >= 2 else (kwargs["output_scale"], kwargs["output_zero_point"])
        if accumulates:
            require_onednn("conv2d_add.")
        check_convolved(qx, packed, f"conv_transpose{dims}d" if packed.transpose() else name)
        if qx.dim() != dims + 2:
            raise RuntimeError(f"{name}: expected {dims + 2}-dimensional input, got {qx.dim()}")
        packed = packed.over(dims)
        sizes = _convolved_sizes(qx, packed, dims)
        if 0 in sizes:
            return build(integers(qx).new_zeros(sizes), q.PerTensor(scale, zero_point))
        total = _conv_sums(qx._quantizer.shifted(integers(qx)), packed, dims)
        both, multiplier = _multipliers(qx._quantizer.scale, packed._operand[1], scale)
        if accumulated is not None:
            ints = _finish_with_sum(total, both, scale, packed._bias, zero_point, relu, accumulated)
        elif packed.is_onednns():
            factors = np.float32(qx._quantizer.scale), packed._operand[1]
            ints = _finish_onednn(total, factors, scale, packed._bias, zero_point, relu, 1)
        else:
            finish = _finish_qnnpack if engine() == "qnnpack" else _finish_fbgemm
            ints = finish(total, both, multiplier, packed._bias, zero_point, relu, 1)
        return build(channels_last(ints), q.PerTensor(scale, zero_point))

    return run


def channels_last(ints):
    """Integers of (N, C, ...) whose memory has the channels last, as PyTorch's results do."""
    from ..eager.core.geometry import channels_last_stride

    shape = tuple(ints.shape)
    return ints.movedim(1, -1).contiguous().as_strided(shape, channels_last_stride(shape))


def _finish_with_sum(total, both, scale, bias, zero_point, relu, accumulated):
    x = total.to(_dtype.float32) * _channels(both, total.dim(), 1)
    if bias is not None:
        x = x + bias.detach().reshape([-1 if d == 1 else 1 for d in range(x.dim())])
    x = x + accumulated._quantizer.real(integers(accumulated))
    x = torch.relu(x) if relu else x
    return q.clipped(torch.round(x * q.reciprocal(scale) + zero_point), _dtype.quint8)


def conv_dynamic(dims):
    """The convolution that quantizes its input, and its results, by the input's own range; float32 results."""

    convolve = conv(dims)

    def run(qx, packed_weight, reduce_range=False):
        x = dynamically_quantized(qx, reduce_range, engine() != "qnnpack" and not packed_weight.is_onednns())
        quantizer = x._quantizer
        out = convolve(x, packed_weight, quantizer.scale, quantizer.zero_point)
        return quantizer.real(out._ints)

    return run
