"""Moving channels into pixels and back."""

from __future__ import annotations

from ...eager.tensor import Tensor as Tensor
from ._function import FunctionModule
from .module import Module as Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(FunctionModule):
    """(*, C r^2, H, W) to (*, C, H r, W r), with ``r`` the ``upscale_factor``."""

    _ftorch_function = "pixel_shuffle"
    _ftorch_arguments = ("upscale_factor",)

    def __init__(self, upscale_factor):
        super().__init__(upscale_factor)


class PixelUnshuffle(FunctionModule):
    """(*, C, H r, W r) to (*, C r^2, H, W), with ``r`` the ``downscale_factor``."""

    _ftorch_function = "pixel_unshuffle"
    _ftorch_arguments = ("downscale_factor",)

    def __init__(self, downscale_factor):
        super().__init__(downscale_factor)
