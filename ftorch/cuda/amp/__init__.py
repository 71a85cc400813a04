"""The older names of mixed precision on GPUs (``torch.cuda.amp``)."""

from __future__ import annotations

import functools
import warnings

from ..._old_names import place_in
from ..._submodules import on_demand as _on_demand
from ...amp import autocast_mode as _modern
from ...amp.grad_scaler import GradScaler as _GradScaler
from ...eager.core.dtype import float16
from .common import amp_definitely_not_available

__getattr__ = _on_demand(globals(), "autocast_mode grad_scaler")

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]


def _warn(old, new):
    warnings.warn(
        f"`torch.cuda.amp.{old}(args...)` is deprecated. Please use `torch.amp.{new}` instead.",
        FutureWarning, stacklevel=3,
    )


class autocast(_modern.autocast):
    """``torch.amp.autocast("cuda", ...)``."""

    def __init__(self, enabled: bool = True, dtype=float16, cache_enabled: bool = True):
        _warn("autocast", "autocast('cuda', args...)")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(_GradScaler):
    """``torch.amp.GradScaler("cuda", ...)``."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5,
                 growth_interval=2000, enabled=True):
        _warn("GradScaler", "GradScaler('cuda', args...)")
        super().__init__(
            "cuda", init_scale=init_scale, growth_factor=growth_factor,
            backoff_factor=backoff_factor, growth_interval=growth_interval, enabled=enabled,
        )


@functools.wraps(_modern.custom_fwd)
def custom_fwd(fwd=None, *, cast_inputs=None):
    _warn("custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return _modern.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


@functools.wraps(_modern.custom_bwd)
def custom_bwd(bwd=None):
    _warn("custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return _modern.custom_bwd(bwd, device_type="cuda")

place_in("cuda.amp.grad_scaler", GradScaler)
place_in("cuda.amp.autocast_mode", autocast)
