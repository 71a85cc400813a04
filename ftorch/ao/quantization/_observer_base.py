"""What observers derive from: constructors with arguments given, ranges and their quantizers."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from functools import partial

import ftorch as torch
from ftorch import nn

from .utils import (
    calculate_qmin_qmax,
    check_min_max_valid,
    validate_qmin_qmax,
)


class _PartialWrapper:
    """A constructor with some arguments given, and others that are computed at each call."""

    def __init__(self, p):
        self.p = p
        self.callable_args: dict = {}

    def __call__(self, *args, **keywords):
        for name, make in self.callable_args.items():
            if name not in keywords:
                keywords[name] = make()
        return self.p(*args, **keywords)

    def __repr__(self):
        return self.p.__repr__() + self.callable_args.__repr__()

    def with_args(self, **kwargs):
        """A constructor with these arguments given, too."""
        return _with_args(self, **kwargs)

    def with_callable_args(self, **kwargs):
        """A constructor whose arguments are what these functions give when it is called."""
        result = _PartialWrapper(self.p)
        result.callable_args = {**self.callable_args, **kwargs}
        return result


def _with_args(cls_or_self, **kwargs):
    return _PartialWrapper(partial(cls_or_self, **kwargs))


def _with_callable_args(cls_or_self, **kwargs):
    return _PartialWrapper(partial(cls_or_self)).with_callable_args(**kwargs)


class ObserverBase(nn.Module, metaclass=ABCMeta):
    """A module that looks at what passes and computes a scale and a zero point.

    Args:
        dtype: the quantized dtype.
        is_dynamic: whether the quantizer is chosen for each input.
    """

    __module__ = "ftorch.ao.quantization.observer"  # where users find it

    def __init__(self, dtype, is_dynamic: bool = False):
        super().__init__()
        self.dtype = dtype
        self.is_dynamic = is_dynamic

    @abstractmethod
    def forward(self, x):
        """Looks at a tensor and returns it."""

    @abstractmethod
    def calculate_qparams(self, **kwargs):
        """(scale, zero_point)."""

    with_args = classmethod(_with_args)
    with_callable_args = classmethod(_with_callable_args)


_DTYPES = (
    torch.qint8, torch.quint8, torch.quint4x2, torch.qint32, torch.int8, torch.uint8, torch.int16, torch.int32,
    torch.float8_e5m2, torch.float8_e4m3fn, torch.uint16,
)


class UniformQuantizationObserverBase(ObserverBase):
    """The common part of observers of ranges.

    Args:
        dtype, qscheme: what is to be made of the tensor.
        reduce_range: whether one bit less is used.
        quant_min, quant_max: the integers; by default all of the dtype.
        eps: the smallest scale.

    Raises:
        NotImplementedError: for schemes and dtypes that it does not know.
    """

    __module__ = "ftorch.ao.quantization.observer"  # where users find it

    _version = 3
    eps: torch.Tensor

    def __init__(self, dtype=torch.quint8, qscheme=torch.per_tensor_affine, reduce_range=False, quant_min=None,
                 quant_max=None, factory_kwargs=None, eps=torch.finfo(torch.float32).eps, is_dynamic=False,
                 **kwargs) -> None:
        factory = dict(factory_kwargs or {})
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.qscheme = qscheme
        if reduce_range:
            warnings.warn(
                "Please use quant_min and quant_max to specify the range for observers. "
                "                    reduce_range will be deprecated in a future release of PyTorch.",
                stacklevel=2,
            )
        self.reduce_range = reduce_range
        self.register_buffer("eps", torch.tensor([eps], **factory))
        if qscheme not in (
            torch.per_tensor_affine, torch.per_tensor_symmetric, torch.per_channel_affine,
            torch.per_channel_symmetric, torch.per_channel_affine_float_qparams,
        ):
            raise AssertionError(
                "Default Observer only works for per_tensor_affine, per_tensor_symmetric, per_channel_affine, "
                "per_channel_symmetric and per_channel_float_qparams quantization scheme"
            )
        if self.dtype not in _DTYPES:
            raise AssertionError(f"Default Observer only works for {_DTYPES} data type")
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if self.has_customized_qrange:
            validate_qmin_qmax(quant_min, quant_max)
        self.quant_min, self.quant_max = calculate_qmin_qmax(
            quant_min, quant_max, self.has_customized_qrange, self.dtype, self.reduce_range
        )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        if (local_metadata.get("version") or 1) == 1:  # files of PyTorch before 1.7 have no eps
            state_dict[prefix + "eps"] = torch.tensor([torch.finfo(torch.float32).eps])
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    @torch.jit.export
    def _validate_qmin_qmax(self, quant_min: int, quant_max: int) -> None:
        validate_qmin_qmax(quant_min, quant_max)

    @torch.jit.export
    def _calculate_qparams(self, min_val: torch.Tensor, max_val: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(scale, zero_point) of ranges: tensors of one element or of one for each channel."""
        # Scripts run this as well: comparisons by ==, one type for each name.
        if not check_min_max_valid(min_val, max_val):
            return (torch.tensor([1.0], device=min_val.device.type), torch.tensor([0], device=min_val.device.type))
        low, high = self.quant_min, self.quant_max
        zero = torch.zeros_like(min_val)
        least, largest = torch.min(min_val, zero), torch.max(max_val, zero)
        where = least.device
        scale = torch.ones(least.size(), dtype=torch.float32, device=where)
        zero_point = torch.zeros(least.size(), dtype=torch.int64, device=where)
        floating = self.qscheme == torch.per_channel_affine_float_qparams
        if self.qscheme == torch.per_tensor_symmetric or self.qscheme == torch.per_channel_symmetric:
            largest = torch.max(-least, largest)
            scale = torch.max(largest / (float(high - low) / 2), self.eps)
            if self.dtype == torch.quint8 or self.dtype == torch.uint8:
                middle = (low + high) // 2 if self.has_customized_qrange else 128
                zero_point = zero_point.new_full(zero_point.size(), middle)
        elif floating:
            scale = (max_val - min_val) / float(high - low)
            scale = torch.where(scale > self.eps, scale, torch.ones_like(scale))
            zero_point = -1 * min_val / scale
        else:
            scale = torch.max((largest - least) / float(high - low), self.eps)
            zero_point = torch.clamp(low - torch.round(least / scale).to(torch.int), low, high)
        if len(scale.shape) == 0:
            scale = torch.tensor([float(scale)], dtype=scale.dtype, device=where)
        if len(zero_point.shape) == 0:
            if floating:
                zero_point = torch.tensor([float(zero_point)], dtype=zero_point.dtype, device=where)
            else:
                zero_point = torch.tensor([int(zero_point)], dtype=zero_point.dtype, device=where)
        return scale, zero_point

    def reset_min_max_vals(self):
        """Forgets what was seen.

        Raises:
            NotImplementedError: observers of ranges say how.
        """
        raise NotImplementedError("Cannot reset min/max values in the given observer.")


_UniformQuantizationObserverBase = UniformQuantizationObserverBase
