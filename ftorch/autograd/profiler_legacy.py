"""The profiler before the present one (``torch.autograd.profiler_legacy``)."""

from __future__ import annotations

import warnings

from .profiler import profile as _profile

__all__ = ["profile"]


class profile(_profile):
    """`torch.autograd.profiler.profile` under its former name."""

    def __init__(self, enabled=True, *, use_cuda=False, record_shapes=False, with_flops=False,
                 profile_memory=False, with_stack=False, with_modules=False):
        warnings.warn(
            "torch.autograd.profiler_legacy.profile is deprecated: use torch.profiler",
            FutureWarning, stacklevel=2,
        )
        super().__init__(
            enabled, use_cuda=use_cuda, record_shapes=record_shapes, with_flops=with_flops,
            profile_memory=profile_memory, with_stack=with_stack, with_modules=with_modules,
        )
