"""Observers: modules that watch tensors and choose quantizers for them (``torch.ao.quantization.observer``)."""

from __future__ import annotations

import re
import warnings
from collections import OrderedDict
from typing import Any

import ftorch as torch

from ._granularity import (
    AffineQuantizedObserverBase,
    Granularity,
    MappingType,
    PerAxis,
    PerBlock,
    PerGroup,
    PerRow,
    PerTensor,
    PerToken,
    TorchAODType,
    ZeroPointDomain,
    get_block_size,
)
from ._histogram import HistogramSearch, combined_histogram
from ._observer_base import (  # noqa: F401
    ObserverBase,
    UniformQuantizationObserverBase,
    _PartialWrapper,
    _with_args,
)
from .utils import (
    is_per_channel,
    is_per_tensor,
)

__all__ = [
    "AffineQuantizedObserverBase", "FixedQParamsObserver", "Granularity", "HistogramObserver", "MappingType",
    "MinMaxObserver", "MovingAverageMinMaxObserver", "MovingAveragePerChannelMinMaxObserver", "NoopObserver",
    "ObserverBase", "PerAxis", "PerBlock", "PerChannelMinMaxObserver", "PerGroup", "PerRow", "PerTensor", "PerToken",
    "PlaceholderObserver", "RecordingObserver", "ReuseInputObserver", "TorchAODType",
    "UniformQuantizationObserverBase", "ZeroPointDomain", "default_affine_fixed_qparams_observer",
    "default_debug_observer", "default_dynamic_quant_observer", "default_fixed_qparams_range_0to1_observer",
    "default_fixed_qparams_range_neg1to1_observer", "default_float_qparams_observer",
    "default_float_qparams_observer_4bit", "default_histogram_observer", "default_observer",
    "default_per_channel_weight_observer", "default_placeholder_observer", "default_reuse_input_observer",
    "default_symmetric_fixed_qparams_observer", "default_weight_observer", "get_block_size",
    "get_observer_state_dict", "load_observer_state_dict", "per_channel_weight_observer_range_neg_127_to_127",
    "weight_observer_range_neg_127_to_127",
]


class MinMaxObserver(UniformQuantizationObserverBase):
    """Observes the least and largest number that ever passed.

    >>> import ftorch as torch
    >>> observer = torch.ao.quantization.MinMaxObserver()
    >>> _ = observer(torch.tensor([-1.0, 0.0, 3.0]))
    >>> observer.calculate_qparams()
    (tensor([0.0157]), tensor([64], dtype=torch.int32))
    """

    min_val: torch.Tensor
    max_val: torch.Tensor

    def __init__(self, dtype=torch.quint8, qscheme=torch.per_tensor_affine, reduce_range=False, quant_min=None,
                 quant_max=None, factory_kwargs=None, eps=torch.finfo(torch.float32).eps, is_dynamic=False,
                 **kwargs) -> None:
        if not is_per_tensor(qscheme):
            raise NotImplementedError(
                "MinMaxObserver's qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine."
            )
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        factory = dict(factory_kwargs or {})
        self.register_buffer("min_val", torch.tensor(float("inf"), **factory))
        self.register_buffer("max_val", torch.tensor(float("-inf"), **factory))
        if self.qscheme is torch.per_tensor_symmetric and self.reduce_range and self.dtype is torch.quint8:
            raise NotImplementedError("Cannot reduce range for symmetric quantization for quint8")

    def forward(self, x_orig):
        if x_orig.numel() == 0:
            return x_orig
        least, largest = torch.aminmax(x_orig.detach().to(self.min_val.dtype))
        self.min_val.copy_(torch.min(least, self.min_val))
        self.max_val.copy_(torch.max(largest, self.max_val))
        return x_orig

    @torch.jit.export
    def calculate_qparams(self):
        """(scale, zero_point) of the range that was seen."""
        return self._calculate_qparams(self.min_val, self.max_val)

    @torch.jit.export
    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"

    @torch.jit.export
    def reset_min_max_vals(self):
        """Forgets what was seen."""
        self.min_val.copy_(torch.tensor(float("inf")))
        self.max_val.copy_(torch.tensor(float("-inf")))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Observes moving averages of the least and the largest number of each tensor."""

    def __init__(self, averaging_constant=0.01, dtype=torch.quint8, qscheme=torch.per_tensor_affine,
                 reduce_range=False, quant_min=None, quant_max=None, eps=torch.finfo(torch.float32).eps,
                 is_dynamic=False, **kwargs) -> None:
        if not is_per_tensor(qscheme):
            raise NotImplementedError(
                f"MovingAverageMinMaxObserver's qscheme only support torch.per_tensor_symmetric and "
                f"torch.per_tensor_affine.             but got: {qscheme}"
            )
        self.averaging_constant = averaging_constant
        if is_dynamic and self.averaging_constant != 1:
            raise NotImplementedError(
                "MovingAverageMinMaxObserver doesn't support dynamic quantization for "
                f"averaging constant of {self.averaging_constant}"
            )
        super().__init__(dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min,
                         quant_max=quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs)

    def forward(self, x_orig):
        if x_orig.numel() == 0:
            return x_orig
        least, largest = torch.aminmax(x_orig.detach().to(self.min_val.dtype))
        if self.min_val == float("inf") and self.max_val == float("-inf"):
            self.min_val.copy_(least)
            self.max_val.copy_(largest)
        else:
            self.min_val.copy_(self.min_val + self.averaging_constant * (least - self.min_val))
            self.max_val.copy_(self.max_val + self.averaging_constant * (largest - self.max_val))
        return x_orig


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """Observes the least and largest number at each index of dimension ``ch_axis``."""

    min_val: torch.Tensor
    max_val: torch.Tensor

    def __init__(self, ch_axis=0, dtype=torch.quint8, qscheme=torch.per_channel_affine, reduce_range=False,
                 quant_min=None, quant_max=None, factory_kwargs=None, eps=torch.finfo(torch.float32).eps,
                 is_dynamic=False, **kwargs) -> None:
        if not is_per_channel(qscheme):
            raise NotImplementedError(
                "PerChannelMinMaxObserver's qscheme only support torch.per_channel_symmetric, "
                "torch.per_channel_affine and torch.per_channel_affine_float_qparams."
            )
        if is_dynamic:
            raise NotImplementedError("PerChannelMinMaxObserver doesn't support dynamic quantization")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        factory = dict(factory_kwargs or {})
        self.ch_axis = ch_axis
        self.register_buffer("min_val", torch.tensor([], **factory))
        self.register_buffer("max_val", torch.tensor([], **factory))
        if self.qscheme is torch.per_channel_symmetric and self.reduce_range and self.dtype is torch.quint8:
            raise NotImplementedError("Cannot reduce range for symmetric quantization for quint8")

    def _channel_range(self, x):
        rows = x.detach().transpose(0, self.ch_axis).to(self.min_val.dtype)
        return torch.aminmax(torch.flatten(rows, start_dim=1), dim=1)

    def forward(self, x_orig):
        return self._forward(x_orig)

    def _forward(self, x_orig):
        if x_orig.numel() == 0:
            return x_orig
        least, largest = self._channel_range(x_orig)
        if self.min_val.numel() and self.max_val.numel():
            least, largest = torch.min(least, self.min_val), torch.max(largest, self.max_val)
        self._keep(least, largest)
        return x_orig

    def _keep(self, least, largest):
        self.min_val.resize_(least.shape)
        self.max_val.resize_(largest.shape)
        self.min_val.copy_(least)
        self.max_val.copy_(largest)

    @torch.jit.export
    def calculate_qparams(self):
        """(scales, zero_points) of the ranges that were seen."""
        return self._calculate_qparams(self.min_val, self.max_val)

    @torch.jit.export
    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        version = local_metadata.get("version")
        if version is not None and version < 3:
            for name in ("min", "max"):
                if prefix + name + "_vals" in state_dict:
                    state_dict[f"{prefix}{name}_val"] = state_dict.pop(f"{prefix}{name}_vals")
        for name in ("min_val", "max_val"):
            given = state_dict.get(prefix + name)
            if given is not None:
                getattr(self, name).resize_(given.shape)
            elif strict:
                missing_keys.append(prefix + name)
        missing: list = []
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing, unexpected_keys, error_msgs
        )

    @torch.jit.export
    def reset_min_max_vals(self):
        """Forgets what was seen."""
        self.min_val = torch.rand(0)
        self.max_val = torch.rand(0)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Observes moving averages of the least and the largest number of each channel."""

    def __init__(self, averaging_constant=0.01, ch_axis=0, dtype=torch.quint8, qscheme=torch.per_channel_affine,
                 reduce_range=False, quant_min=None, quant_max=None, eps=torch.finfo(torch.float32).eps,
                 is_dynamic=False, **kwargs) -> None:
        if not is_per_channel(qscheme):
            raise NotImplementedError(
                "MovingAveragePerChannelMinMaxObserver's qscheme only support torch.per_channel_symmetric, "
                "torch.per_channel_affine and torch.per_channel_affine_float_qparams."
            )
        if is_dynamic:
            raise NotImplementedError("MovingAveragePerChannelMinMaxObserver doesn't support dynamic quantization")
        super().__init__(ch_axis=ch_axis, dtype=dtype, qscheme=qscheme, reduce_range=reduce_range,
                         quant_min=quant_min, quant_max=quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs)
        self.averaging_constant = averaging_constant

    def forward(self, x_orig):
        if x_orig.numel() == 0:
            return x_orig
        least, largest = self._channel_range(x_orig)
        if self.min_val.numel() and self.max_val.numel():
            least = self.min_val + self.averaging_constant * (least - self.min_val)
            largest = self.max_val + self.averaging_constant * (largest - self.max_val)
        self._keep(least, largest)
        return x_orig


class HistogramObserver(UniformQuantizationObserverBase):
    """Observes a histogram, and chooses the range whose quantization loses least.

    The range is narrowed from both ends as long as the squared error of quantizing the histogram falls.
    """

    histogram: torch.Tensor
    min_val: torch.Tensor
    max_val: torch.Tensor

    def __init__(self, bins: int = 2048, dtype: torch.dtype = torch.quint8, qscheme=torch.per_tensor_affine,
                 reduce_range=False, quant_min=None, quant_max=None, factory_kwargs=None,
                 eps=torch.finfo(torch.float32).eps, is_dynamic=False, **kwargs) -> None:
        if not is_per_tensor(qscheme):
            raise NotImplementedError(
                "HistogramObserver's qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine."
            )
        if is_dynamic:
            raise NotImplementedError("HistogramObserver doesn't support dynamic quantization")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        factory = dict(factory_kwargs or {})
        self.bins = bins
        self.register_buffer("histogram", torch.zeros(self.bins, **factory))
        self.register_buffer("min_val", torch.tensor(float("inf"), **factory))
        self.register_buffer("max_val", torch.tensor(float("-inf"), **factory))
        self.dst_nbins = 2 ** _bits(self.dtype)
        self.upsample_rate = 16

    def reset_histogram(self, x, min_val, max_val) -> None:
        """Begins with the histogram of one tensor."""
        self.min_val.copy_(min_val)
        self.max_val.copy_(max_val)
        self.histogram.copy_(torch.histc(x, self.bins, min=float(min_val), max=float(max_val)))

    def forward(self, x_orig):
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach()
        least, largest = torch.aminmax(x)
        if torch.isinf(least) or torch.isinf(largest):
            warnings.warn("torch.inf detected in input tensor, ignoring input", stacklevel=2)
            keep = ~torch.isinf(x)
            x = x[keep]
            if x.numel() == 0:
                return x_orig
            least, largest = torch.aminmax(x)
        current_min, current_max = self.min_val, self.max_val
        if current_min == float("inf") or current_max == float("-inf"):
            self.reset_histogram(x, least, largest)
            return x_orig
        new_min, new_max = torch.min(current_min, least), torch.max(current_max, largest)
        update = torch.histc(x, self.bins, min=float(new_min), max=float(new_max)).to(self.histogram.device)
        if new_min == current_min and new_max == current_max:
            combined = self.histogram + update
        else:
            combined = combined_histogram(
                self.histogram, current_min, current_max, update, new_min, new_max, self.bins, self.upsample_rate
            )
        self.histogram.resize_(combined.shape)
        self.histogram.copy_(combined)
        self.min_val.copy_(new_min)
        self.max_val.copy_(new_max)
        return x_orig

    @torch.jit.ignore
    def _non_linear_param_search(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(least, largest) number of the range that loses least."""
        search = HistogramSearch(self.histogram, float(self.min_val), float(self.max_val), self.bins, self.dst_nbins)
        first, last = search.best()
        width = (self.max_val - self.min_val) / self.bins
        return self.min_val + width * first, self.min_val + width * (last + 1)

    @torch.jit.export
    def calculate_qparams(self):
        """(scale, zero_point) of the range that loses least."""
        if self.min_val == float("inf") and self.max_val == float("-inf"):
            warnings.warn(
                "must run observer before calling calculate_qparams.                                    Returning "
                "default scale and zero point ",
                stacklevel=2,
            )
            return (torch.tensor([1.0], device=self.min_val.device.type),
                    torch.tensor([0], device=self.min_val.device.type))
        if self.bins != len(self.histogram):
            raise AssertionError(
                "The number of bins in histogram should be equal to the number of bins supplied while making "
                "this observer"
            )
        least, largest = self._non_linear_param_search()
        return self._calculate_qparams(least, largest)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "min_val"] = self.min_val
        destination[prefix + "max_val"] = self.max_val

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        for name in ("min_val", "max_val"):  # files of PyTorch before 1.9 have them empty
            given = state_dict.get(prefix + name)
            if given is not None and given.shape == torch.Size([0]):
                state_dict[prefix + name] = torch.tensor(float("inf" if name == "min_val" else "-inf"))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    @torch.jit.export
    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"


def _bits(dtype):
    return {torch.quint4x2: 4, torch.quint2x4: 2, torch.qint32: 32}.get(dtype, dtype.itemsize * 8)


class FixedQParamsObserver(ObserverBase):
    """A scale and a zero point that are given: of functions whose range is known."""

    def __init__(self, scale, zero_point, dtype=torch.quint8, qscheme=torch.per_tensor_affine, quant_min=0,
                 quant_max=255, is_dynamic=False, **kwargs):
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min, self.quant_max = quant_min, quant_max
        self.register_buffer("scale", torch.tensor([scale], dtype=torch.float))
        self.register_buffer("zero_point", torch.tensor([zero_point], dtype=torch.int))
        self.qscheme = qscheme

    def forward(self, X):
        return X

    @torch.jit.export
    def calculate_qparams(self):
        """What was given."""
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Observes nothing: it says which dtype is wanted, as for dynamic quantization and half precision."""

    def __init__(self, dtype=torch.float32, custom_op_name="", compute_dtype=None, quant_min=None, quant_max=None,
                 qscheme=None, eps=None, is_dynamic=False) -> None:
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        self.qscheme = torch.per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max = quant_min, quant_max
        self.eps = torch.finfo(torch.float32).eps if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            is_dynamic = True
            warnings.warn("Please use `is_dynamic` instead of `compute_dtype`. "
                          "                    `compute_dtype` will be deprecated in a future release "
                          "                    of PyTorch.", stacklevel=2)

    def forward(self, x):
        return x

    @torch.jit.export
    def extra_repr(self):
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"

    @torch.jit.export
    def calculate_qparams(self):
        """Raises Exception: there is nothing to compute it of."""
        raise Exception("calculate_qparams should not be called for PlaceholderObserver")  # noqa: TRY002


class RecordingObserver(ObserverBase):
    """Keeps a copy of everything that passes."""

    def __init__(self, dtype=torch.quint8):
        super().__init__(dtype=dtype, is_dynamic=False)
        self.tensor_val: list[torch.Tensor] = []

    def forward(self, x):
        self.tensor_val.append(x.clone())
        return x

    @torch.jit.export
    def calculate_qparams(self):
        """Raises Exception: it chooses none."""
        raise Exception("calculate_qparams should not be called for RecordingObserver")  # noqa: TRY002

    @torch.jit.export
    def get_tensor_value(self):
        """What passed."""
        return self.tensor_val


class NoopObserver(ObserverBase):
    """Observes nothing; layers that have it stay in floating point."""

    def __init__(self, dtype=torch.float16, custom_op_name="") -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.dtype = dtype
        self.custom_op = custom_op_name

    def forward(self, x):
        return x

    @torch.jit.export
    def calculate_qparams(self):
        """Raises Exception: it chooses none."""
        raise Exception("calculate_qparams should not be called for NoopObserver")  # noqa: TRY002


class ReuseInputObserver(ObserverBase):
    """Says that the quantizer of the input is the output's, too."""

    def __init__(self) -> None:
        super().__init__(torch.quint8, is_dynamic=False)

    def forward(self, x):
        return x

    @torch.jit.export
    def calculate_qparams(self):
        """Raises Exception: the input's is used."""
        raise Exception("calculate_qparams should not be called for ReuseInputObserver")  # noqa: TRY002


def _is_observer_script_module(mod, obs_type_name):
    """Whether a module is a scripted observer: whose qualified name, without what makes it unique, has ``obs_type_name``."""
    return isinstance(mod, torch.jit.RecursiveScriptModule) and (
        obs_type_name in re.sub(r"\.___torch_mangle_\d+", "", mod._c.qualified_name.partition(".")[2])
    )


def _is_activation_post_process(module) -> bool:
    from .fake_quantize import FakeQuantizeBase

    return isinstance(module, (ObserverBase, FakeQuantizeBase)) or _is_observer_script_module(module, "quantization.observer")


def get_observer_state_dict(mod):
    """The part of a model's state that is its observers'."""
    found: Any = OrderedDict()
    state = mod.state_dict()
    named = "observer" if isinstance(mod, torch.jit.RecursiveScriptModule) else "activation_post_process"
    for key, value in state.items():
        if named in key:
            found[key] = value
    found._metadata = state._metadata
    return found


def load_observer_state_dict(mod, obs_dict):
    """Puts back what `get_observer_state_dict` gave.

    Raises:
        Exception: if something is missing or unknown.
    """
    missing, unexpected = [], []
    for name, module in mod.named_modules():
        prefix = name + "."
        if _is_activation_post_process(module):
            module._load_from_state_dict(obs_dict, prefix, {}, False, missing, unexpected, [])
    for key in missing:
        if re.search("observer|activation_post_process", key):
            raise Exception(f"Missing keys for observer {key} in state_dict")  # noqa: TRY002
    for key in unexpected:
        if re.search("observer|activation_post_process", key):
            raise Exception(f"Unexpected keys for observer {key} in state_dict")  # noqa: TRY002


default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer = MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(
    dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=torch.qint8, qscheme=torch.per_channel_symmetric
)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=torch.qint8, qscheme=torch.per_channel_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=torch.quint8, quant_min=0, quant_max=255, is_dynamic=True
)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=torch.quint8, qscheme=torch.per_channel_affine_float_qparams, ch_axis=0
)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(
    dtype=torch.quint4x2, qscheme=torch.per_channel_affine_float_qparams, ch_axis=0
)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, dtype=torch.quint8, quant_min=0, quant_max=255
)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, dtype=torch.quint8, quant_min=0, quant_max=255
)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver
