"""Quantization of dense tensors: making quantized ones, and errors of methods that need one.

Quantized tensors stand above the engine (`ftorch._quantized`); they are imported when first asked for.
"""

from __future__ import annotations

from ..call import op as _op
from ..core import api as torch
from ..core import dtype as dtypes
from ..core.composite import composite


def _quantized():
    return _op.hooks.quantized()


@composite()
def quantize_per_tensor(input, scale, zero_point, dtype):
    """A quantized tensor: ``round(input / scale) + zero_point``, clipped to the integers of a dtype.

    Args:
        input: float32, or a list of such, with tensors of scales and zero points.
        dtype: ``torch.quint8``, ``torch.qint8``, ``torch.qint32`` or ``torch.quint4x2``.

    Raises:
        RuntimeError: for other dtypes, or a zero point that is no integer of the dtype.

    >>> import ftorch as torch
    >>> torch.quantize_per_tensor(torch.tensor([-1.0, 0.0, 1.04]), 0.1, 10, torch.quint8).int_repr()
    tensor([ 0, 10, 20], dtype=torch.uint8)
    """
    return _quantized().quantize_per_tensor(input, scale, zero_point, dtype)


@composite()
def quantize_per_channel(input, scales, zero_points, axis, dtype):
    """`quantize_per_tensor` with a scale and a zero point for each index of dimension ``axis``.

    >>> import ftorch as torch
    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.quantize_per_channel(x, torch.tensor([0.1, 1.0]), torch.tensor([0, 1]), 0, torch.qint8).int_repr()
    tensor([[10, 20],
            [ 4,  5]], dtype=torch.int8)
    """
    return _quantized().quantize_per_channel(input, scales, zero_points, axis, dtype)


@composite()
def quantize_per_tensor_dynamic(input, dtype, reduce_range):
    """`quantize_per_tensor` with the scale and zero point of the input's own range."""
    return _quantized().quantize_per_tensor_dynamic(input, dtype, reduce_range)


@composite("function method")
def dequantize(input):
    """The float32 numbers that a quantized tensor stands for; of a list of them, a tuple."""
    if isinstance(input, (list, tuple)):
        return tuple(t.dequantize() for t in input)
    return input.to(dtypes.float32)


@composite()
def _choose_qparams_per_tensor(input, reduce_range=False):
    """(scale, zero point) of a tensor's range for quint8."""
    return _quantized().choose_qparams_per_tensor(input, reduce_range)


@composite()
def choose_qparams_optimized(input, numel, n_bins, ratio, bit_width):
    """(largest, smallest) number of the range by which least is lost, as a search finds it."""
    return _quantized().choose_qparams_optimized(input, numel, n_bins, ratio, bit_width)


@composite()
def _saturate_weight_to_fp16(weight):
    """Limits a float32 matrix to what half precision holds: in place where it is contiguous, else in a copy.

    Raises:
        RuntimeError: for other dtypes.
        IndexError: for fewer than two dimensions.
    """
    if weight.dtype is not dtypes.float32:
        raise RuntimeError(f"expected scalar type Float but found {weight.dtype.scalar_name}")
    weight = weight.contiguous()
    count = weight.size(0) * weight.size(1)
    weight.detach().view(-1)[:count].clamp_(-65504.0, 65504.0)
    return weight


@composite()
def _make_per_tensor_quantized_tensor(input, scale, zero_point):
    """The quantized tensor of given integers."""
    return _quantized().make_per_tensor(input, scale, zero_point)


@composite()
def _make_per_channel_quantized_tensor(input, scale, zero_point, axis):
    """The quantized tensor of given integers, with a scale for each channel."""
    return _quantized().make_per_channel(input, scale, zero_point, axis)


@composite()
def empty_quantized(size, qtensor, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """A quantized tensor of no particular values, with the scales and zero points of another."""
    if "per_tensor" in str(qtensor.qscheme()):
        return _empty_affine_quantized(
            size, dtype=dtype or qtensor.dtype, device=device, scale=qtensor.q_scale(), zero_point=qtensor.q_zero_point(),
            memory_format=memory_format,
        )
    return _empty_per_channel_affine_quantized(
        size, scales=qtensor.q_per_channel_scales(), zero_points=qtensor.q_per_channel_zero_points(),
        axis=qtensor.q_per_channel_axis(), dtype=dtype or qtensor.dtype, device=device, memory_format=memory_format,
    )


@composite()
def _empty_affine_quantized(size, *, dtype=None, layout=None, device=None, pin_memory=False, scale=1.0, zero_point=0,
                            memory_format=None, requires_grad=False):
    """A quantized tensor of no particular values."""
    return _quantized().empty_affine(size, scale=scale, zero_point=zero_point, dtype=dtype, device=device,
                                     memory_format=memory_format)


@composite()
def _empty_per_channel_affine_quantized(size, *, scales, zero_points, axis, dtype=None, layout=None, device=None,
                                        pin_memory=False, memory_format=None, requires_grad=False):
    """The same with a scale for each channel."""
    return _quantized().empty_per_channel(size, scales=scales, zero_points=zero_points, axis=axis, dtype=dtype,
                                          device=device, memory_format=memory_format)


def _of_quantized(name):
    def method(self):
        raise _quantized().not_run(name, "CPU")

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"``{name}`` of a quantized tensor; an ordinary one has none: NotImplementedError."
    composite("method" if name == "qscheme" else "function method", name=name)(method)


for _name in ("int_repr", "q_scale", "q_zero_point", "q_per_channel_scales", "q_per_channel_zero_points",
              "q_per_channel_axis", "qscheme"):
    _of_quantized(_name)


# --- fake quantization ---------------------------------------------------------------


@composite()
def fused_moving_avg_obs_fake_quant(input, observer_on, fake_quant_on, running_min, running_max, scale, zero_point,
                                    averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant=False,
                                    symmetric_quant=False):
    """Observes moving averages of a tensor's range, chooses the quantizer by them, and rounds.

    Args:
        observer_on, fake_quant_on: tensors of one element: what is to be done.
        running_min, running_max, scale, zero_point: written to.

    Returns:
        The rounded tensor; its gradient goes through where nothing was clipped.
    """
    if int(observer_on.item()):
        _quantized().observe_moving_average(
            input.detach(), running_min, running_max, scale, zero_point, averaging_const, ch_axis, per_row_fake_quant,
        )
    if not int(fake_quant_on.item()):
        return input.clone()
    _quantized().choose_by_averages(running_min, running_max, scale, zero_point, quant_min, quant_max, symmetric_quant)
    # The tape reads the quantizer later, when the next call may have chosen another one.
    scale, zero_point = scale.clone(), zero_point.clone()
    if per_row_fake_quant:
        return torch.fake_quantize_per_channel_affine(input, scale, zero_point, ch_axis, quant_min, quant_max)
    return torch.fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max)
