"""Convolutions."""

from __future__ import annotations

import math

from ...autograd import no_grad
from ...eager.tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter as Parameter
from ..parameter import UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module
from .utils import new_parameter, ntuple, reverse_repeat, single

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

_PADDINGS = ("same", "valid")
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _same_padding(kernel_size, dilation):
    """Padding for ``padding="same"`` as `F.pad` counts it; the odd one goes to the end."""
    pads = []
    for k, d in zip(reversed(kernel_size), reversed(dilation), strict=True):
        total = d * (k - 1)
        pads += [total // 2, total - total // 2]
    return pads


class _ConvNd(Module):
    """What all convolutions have: the arguments, the parameters, their initial values."""

    _ftorch_dimensions: int
    transposed = False

    def __init__(
        self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed,
        output_padding, groups, bias, padding_mode, device=None, dtype=None,
    ):
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups != 0:
                raise ValueError(f"{name} must be divisible by groups")
        if isinstance(padding, str):
            if padding not in _PADDINGS:
                raise ValueError(
                    f"Invalid padding string {padding!r}, should be one of {set(_PADDINGS)}"
                )
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {set(_PADDING_MODES)}, "
                f"but got padding_mode='{padding_mode}'"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        if padding == "same":
            self._reversed_padding_repeated_twice = _same_padding(kernel_size, dilation)
        elif padding == "valid":
            self._reversed_padding_repeated_twice = [0, 0] * len(kernel_size)
        else:
            self._reversed_padding_repeated_twice = reverse_repeat(padding, 2)
        factory = {"device": device, "dtype": dtype}
        self.weight = new_parameter(*self._ftorch_weight_shape(), **factory)
        if bias:
            self.bias = new_parameter(out_channels, **factory)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _ftorch_weight_shape(self):
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return first, second // self.groups, *self.kernel_size

    def reset_parameters(self) -> None:
        """Draws new values, uniform in +-1/sqrt(fan_in)."""
        with no_grad():
            init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self):
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        for name, usual in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            if value != (usual,) * len(value):
                text += f", {name}={value}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


class _Conv(_ConvNd):
    # `_conv_forward` is written out for each number of dimensions: scripts of derived classes call it.
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1,
        bias=True, padding_mode="zeros", device=None, dtype=None,
    ):
        several = ntuple(self._ftorch_dimensions)
        super().__init__(
            in_channels, out_channels, several(kernel_size), several(stride),
            padding if isinstance(padding, str) else several(padding), several(dilation), False,
            several(0), groups, bias, padding_mode, device, dtype,
        )

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0,
        groups=1, bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None,
    ):
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}'
            )
        several = ntuple(self._ftorch_dimensions)
        super().__init__(
            in_channels, out_channels, several(kernel_size), several(stride), several(padding),
            several(dilation), True, several(output_padding), groups, bias, padding_mode, device,
            dtype,
        )

    def _output_padding(
        self, input, output_size, stride, padding, kernel_size, num_spatial_dims, dilation=None
    ):
        """The output padding that makes the result ``output_size``."""
        if output_size is None:
            return single(self.output_padding)
        n = num_spatial_dims
        lead = input.dim() - n if input.dim() == n + 2 else 1
        if len(output_size) == lead + n:
            output_size = output_size[lead:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or "
                f"{lead + n} elements (got {len(output_size)})"
            )
        dilation = (1,) * n if dilation is None else dilation
        smallest = [
            (input.size(d + lead) - 1) * stride[d] - 2 * padding[d]
            + dilation[d] * (kernel_size[d] - 1) + 1
            for d in range(n)
        ]
        largest = [low + s - 1 for low, s in zip(smallest, stride, strict=True)]
        for size, low, high in zip(output_size, smallest, largest, strict=True):
            if not low <= size <= high:
                raise ValueError(
                    f"requested an output size of {output_size}, but valid sizes range from "
                    f"{smallest} to {largest} (for an input of {input.size()[2:]})"
                )
        return [size - low for size, low in zip(output_size, smallest, strict=True)]

    def forward(self, input, output_size=None):
        """Applies the convolution; ``output_size`` chooses among the sizes that are possible."""
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, self._ftorch_dimensions,
            self.dilation,
        )
        conv = getattr(F, f"conv_transpose{self._ftorch_dimensions}d")
        return conv(
            input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups,
            self.dilation,
        )


class Conv1d(_Conv):
    """Cross-correlation of (N, C, L) or (C, L) with learned kernels. See `Conv2d`."""

    _ftorch_dimensions = 1

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return F.conv1d(padded, weight, bias, self.stride, (0,), self.dilation, self.groups)
        return F.conv1d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2d(_Conv):
    """Cross-correlation of (N, C, H, W) or (C, H, W) with learned kernels.

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, dilation: one int, or one per dimension.
        padding: the same, or ``"valid"``, or ``"same"`` (the output is as large as the input).
        groups: how many groups of channels stay apart.
        bias: whether there is a bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device, dtype: of the parameters.

    Raises:
        ValueError: groups that do not divide the channels, an unknown padding.

    >>> import ftorch as torch
    >>> torch.nn.Conv2d(3, 8, 3, padding=1)(torch.zeros(1, 3, 5, 5)).shape
    torch.Size([1, 8, 5, 5])
    """

    _ftorch_dimensions = 2

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return F.conv2d(padded, weight, bias, self.stride, (0, 0), self.dilation, self.groups)
        return F.conv2d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class Conv3d(_Conv):
    """Cross-correlation of (N, C, D, H, W) or (C, D, H, W) with learned kernels. See `Conv2d`."""

    _ftorch_dimensions = 3

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return F.conv3d(padded, weight, bias, self.stride, (0, 0, 0), self.dilation, self.groups)
        return F.conv3d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class _ConvTransposeMixin(_ConvTransposeNd):
    """The older name of what `ConvTranspose1d`, 2d and 3d have in common."""

    def __init__(self, *args, **kwargs):
        import warnings

        warnings.warn(
            "`_ConvTransposeMixin` is a deprecated internal class. Please consider using public APIs.",
            FutureWarning, stacklevel=2,
        )
        super().__init__(*args, **kwargs)


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose of `Conv1d`. See `ConvTranspose2d`."""

    _ftorch_dimensions = 1


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose (gradient with respect to its input) of `Conv2d`, for making images larger.

    Args:
        output_padding: added to one side of the output, since several input sizes of a strided
            convolution have the same output size. Others: see `Conv2d`.
    """

    _ftorch_dimensions = 2


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of `Conv3d`. See `ConvTranspose2d`."""

    _ftorch_dimensions = 3


class _LazyConv(LazyModuleMixin):
    """A convolution that learns ``in_channels`` from its first input."""

    def __init__(self, out_channels, kernel_size, *args, bias, device, dtype, **kwargs):
        super().__init__(
            0, 0, kernel_size, *args, bias=False, device=device, dtype=dtype, **kwargs
        )
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input, *args, **kwargs) -> None:
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        self.weight.materialize(self._ftorch_weight_shape())
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input):
        unbatched, batched = self._ftorch_dimensions + 1, self._ftorch_dimensions + 2
        if input.dim() not in (unbatched, batched):
            raise RuntimeError(
                f"Expected {unbatched}D (unbatched) or {batched}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        return input.shape[1 if input.dim() == batched else 0]


class _LazyForward(_LazyConv):
    def __init__(
        self, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None,
    ):
        super().__init__(
            out_channels, kernel_size, stride, padding, dilation, groups, bias=bias,
            padding_mode=padding_mode, device=device, dtype=dtype,
        )


class _LazyTransposed(_LazyConv):
    def __init__(
        self, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
        bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None,
    ):
        super().__init__(
            out_channels, kernel_size, stride, padding, output_padding, groups, bias=bias,
            dilation=dilation, padding_mode=padding_mode, device=device, dtype=dtype,
        )


class LazyConv1d(_LazyForward, Conv1d):
    """A `Conv1d` that learns ``in_channels`` from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyForward, Conv2d):
    """A `Conv2d` that learns ``in_channels`` from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyForward, Conv3d):
    """A `Conv3d` that learns ``in_channels`` from its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """A `ConvTranspose1d` that learns ``in_channels`` from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """A `ConvTranspose2d` that learns ``in_channels`` from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """A `ConvTranspose3d` that learns ``in_channels`` from its first input."""

    cls_to_become = ConvTranspose3d
