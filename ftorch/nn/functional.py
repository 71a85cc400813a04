"""``torch.nn.functional``: the functions of modules.

They are declared with their kernels in ``ftorch/eager/ops`` and ``ftorch/eager/composites`` and
found here on first use.
"""

from __future__ import annotations

import enum

from ..eager.api import nn as _nn


class ScalingType(enum.IntEnum):
    """How the scales of `scaled_mm` lie over a matrix. The blockwise ones are for GPUs."""

    TensorWise, RowWise, BlockWise1x16, BlockWise1x32, BlockWise1x128, BlockWise128x128 = range(6)


class SwizzleType(enum.IntEnum):
    """The order of scales in memory, for `scaled_mm`. Other than none are for GPUs."""

    NO_SWIZZLE, SWIZZLE_32_4_4 = range(2)


def __getattr__(name):
    value = getattr(_nn.functional, name, None)
    if value is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *dir(_nn.functional)})
