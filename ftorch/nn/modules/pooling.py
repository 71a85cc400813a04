"""Pooling."""

from __future__ import annotations

from ...eager.tensor import Tensor as Tensor
from .. import functional as F
from .module import Module
from .utils import ntuple

__all__ = [
    f"{kind}{n}d"
    for kind in ("AdaptiveAvgPool", "AdaptiveMaxPool", "AvgPool", "LPPool", "MaxPool", "MaxUnpool")
    for n in (1, 2, 3)
] + ["FractionalMaxPool2d", "FractionalMaxPool3d"]


class _Pool(Module):
    """The function of nn.functional carries the number of dimensions in its name."""

    _ftorch_dimensions: int
    _ftorch_shown: tuple[str, ...] = ("kernel_size", "stride", "padding")

    def extra_repr(self):
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._ftorch_shown)


class _MaxPoolNd(_Pool):
    """
    Args:
        kernel_size, stride, padding, dilation: one int, or one per dimension; the stride is the
            kernel size by default, padding counts as minus infinity.
        return_indices: also return where the maxima are, for `MaxUnpool2d`.
        ceil_mode: whether windows may go over the end.
    """

    _ftorch_shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False,
        ceil_mode=False,
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input):
        return getattr(F, f"max_pool{self._ftorch_dimensions}d")(
            input, self.kernel_size, self.stride, self.padding, self.dilation,
            ceil_mode=self.ceil_mode, return_indices=self.return_indices,
        )


class MaxPool1d(_MaxPoolNd):
    """The maximum of sliding windows of (N, C, L) or (C, L). See `MaxPool2d`."""

    _ftorch_dimensions = 1


class MaxPool2d(_MaxPoolNd):
    """The maximum of sliding windows of (N, C, H, W) or (C, H, W).

    Args:
        kernel_size, stride, padding, dilation: one int, or one per dimension; the stride is the
            kernel size by default, padding counts as minus infinity.
        return_indices: also return where the maxima are, for `MaxUnpool2d`.
        ceil_mode: whether windows may go over the end.

    >>> import ftorch as torch
    >>> torch.nn.MaxPool2d(2)(torch.arange(4.0).view(1, 2, 2)).tolist()
    [[[3.0]]]
    """

    _ftorch_dimensions = 2


class MaxPool3d(_MaxPoolNd):
    """The maximum of sliding windows of (N, C, D, H, W) or (C, D, H, W). See `MaxPool2d`."""

    _ftorch_dimensions = 3


class _MaxUnpoolNd(_Pool):
    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        several = ntuple(self._ftorch_dimensions)
        self.kernel_size = several(kernel_size)
        self.stride = several(stride if stride is not None else kernel_size)
        self.padding = several(padding)

    def forward(self, input, indices, output_size=None):
        """Puts values where ``indices`` say; ``output_size`` chooses among possible sizes."""
        return getattr(F, f"max_unpool{self._ftorch_dimensions}d")(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool1d(_MaxUnpoolNd):
    """Undoes `MaxPool1d`, with zeros where a value was not the maximum."""

    _ftorch_dimensions = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """Undoes `MaxPool2d`, with zeros where a value was not the maximum."""

    _ftorch_dimensions = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """Undoes `MaxPool3d`, with zeros where a value was not the maximum."""

    _ftorch_dimensions = 3


class _AvgPoolNd(_Pool):
    pass


class AvgPool1d(_AvgPoolNd):
    """The mean of sliding windows of (N, C, L) or (C, L). See `AvgPool2d`."""

    _ftorch_dimensions = 1

    def __init__(
        self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True
    ):
        super().__init__()
        several = ntuple(1)
        self.kernel_size = several(kernel_size)
        self.stride = several(stride if stride is not None else kernel_size)
        self.padding = several(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input):
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )


class _AvgPoolOfSeveral(_AvgPoolNd):
    def __init__(
        self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
        divisor_override=None,
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input):
        return getattr(F, f"avg_pool{self._ftorch_dimensions}d")(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )


class AvgPool2d(_AvgPoolOfSeveral):
    """The mean of sliding windows of (N, C, H, W) or (C, H, W).

    Args:
        kernel_size, stride, padding: one int, or one per dimension; the stride is the kernel size
            by default.
        ceil_mode: whether windows may go over the end.
        count_include_pad: whether padding counts in the mean.
        divisor_override: divide by this number instead.
    """

    _ftorch_dimensions = 2


class AvgPool3d(_AvgPoolOfSeveral):
    """The mean of sliding windows of (N, C, D, H, W) or (C, D, H, W). See `AvgPool2d`."""

    _ftorch_dimensions = 3

    def __setstate__(self, state):
        super().__setstate__(state)
        for name, usual in (
            ("padding", 0), ("ceil_mode", False), ("count_include_pad", True),
        ):
            self.__dict__.setdefault(name, usual)


class _FractionalMaxPoolNd(_Pool):
    _ftorch_shown = ()

    def __init__(
        self, kernel_size, output_size=None, output_ratio=None, return_indices=False,
        _random_samples=None,
    ):
        super().__init__()
        several, name = ntuple(self._ftorch_dimensions), type(self).__name__
        self.kernel_size = several(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else several(output_size)
        self.output_ratio = None if output_ratio is None else several(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input):
        return getattr(F, f"fractional_max_pool{self._ftorch_dimensions}d")(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The maximum of windows at random distances, over (N, C, H, W) or (C, H, W).

    Args:
        kernel_size: of the windows.
        output_size: of the result; or
        output_ratio: its size in proportion to the input's, between 0 and 1.
        return_indices: also return where the maxima are.

    Raises:
        ValueError: not exactly one of size and ratio, or a ratio out of range.
    """

    _ftorch_dimensions = 2


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """`FractionalMaxPool2d` of (N, C, T, H, W) or (C, T, H, W)."""

    _ftorch_dimensions = 3

    def __init__(
        self, kernel_size, output_size=None, output_ratio=None, return_indices=False,
        _random_samples=None,
    ):
        if any(k <= 0 for k in ntuple(1)(kernel_size)):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        super().__init__(kernel_size, output_size, output_ratio, return_indices, _random_samples)


class _LPPoolNd(_Pool):
    _ftorch_shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input):
        return getattr(F, f"lp_pool{self._ftorch_dimensions}d")(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool1d(_LPPoolNd):
    """The ``norm_type``-norm of sliding windows of (N, C, L) or (C, L)."""

    _ftorch_dimensions = 1


class LPPool2d(_LPPoolNd):
    """The ``norm_type``-norm of sliding windows of (N, C, H, W) or (C, H, W)."""

    _ftorch_dimensions = 2


class LPPool3d(_LPPoolNd):
    """The ``norm_type``-norm of sliding windows of (N, C, D, H, W) or (C, D, H, W)."""

    _ftorch_dimensions = 3


class _AdaptiveMaxPoolNd(_Pool):
    _ftorch_shown = ("output_size",)

    def __init__(self, output_size, return_indices=False):
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input):
        pool = getattr(F, f"adaptive_max_pool{self._ftorch_dimensions}d")
        return pool(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The maxima of ``output_size`` equal parts of (N, C, L) or (C, L)."""

    _ftorch_dimensions = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The maxima of equal parts of (N, C, H, W) or (C, H, W); None leaves a size as it is."""

    _ftorch_dimensions = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The maxima of equal parts of (N, C, D, H, W) or (C, D, H, W)."""

    _ftorch_dimensions = 3


class _AdaptiveAvgPoolNd(_Pool):
    _ftorch_shown = ("output_size",)

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, input):
        return getattr(F, f"adaptive_avg_pool{self._ftorch_dimensions}d")(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The means of ``output_size`` equal parts of (N, C, L) or (C, L)."""

    _ftorch_dimensions = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The means of equal parts of (N, C, H, W) or (C, H, W); None leaves a size as it is."""

    _ftorch_dimensions = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The means of equal parts of (N, C, D, H, W) or (C, D, H, W)."""

    _ftorch_dimensions = 3
