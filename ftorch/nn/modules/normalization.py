"""Layer, group, root-mean-square and local response normalisation."""

from __future__ import annotations

import numbers

from ...eager.tensor import Tensor as Tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter as Parameter
from ._function import FunctionModule
from .module import Module
from .utils import new_parameter

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class _ResponseNorm(FunctionModule):
    _ftorch_function = "local_response_norm"
    _ftorch_arguments = ("size", "alpha", "beta", "k")
    _ftorch_shown = ("size", "alpha=", "beta=", "k=")


class LocalResponseNorm(_ResponseNorm):
    """Divides each channel by a power of the mean square of ``size`` neighbouring channels."""

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        super().__init__(size, alpha, beta, k)


class CrossMapLRN2d(_ResponseNorm):
    """The older form of `LocalResponseNorm`, of (N, C, H, W)."""

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1):
        super().__init__(size, alpha, beta, k)


class _AffineNorm(Module):
    """A normalisation with an optional learned scale (1 at first) and shift (0 at first)."""

    def _ftorch_add_affine(self, shape, weight, bias, **factory):
        for name, wanted in (("weight", weight), ("bias", bias)):
            self.register_parameter(name, new_parameter(*shape, **factory) if wanted else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the scale to 1 and the shift to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self._parameters.get("bias") is not None:
            init.zeros_(self.bias)


def _as_shape(normalized_shape):
    if isinstance(normalized_shape, numbers.Integral):
        normalized_shape = (normalized_shape,)
    return tuple(normalized_shape)


class LayerNorm(_AffineNorm):
    """Normalises the last dimensions to mean 0 and variance 1, then scales and shifts.

    Args:
        normalized_shape: the sizes of those dimensions.
        eps: added to the variance.
        elementwise_affine: whether there are scale and shift, of ``normalized_shape``.
        bias: whether there is a shift.

    >>> import ftorch as torch
    >>> torch.nn.LayerNorm(4)(torch.zeros(2, 4)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None,
        dtype=None,
    ):
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._ftorch_add_affine(
            self.normalized_shape, elementwise_affine, elementwise_affine and bias,
            device=device, dtype=dtype,
        )

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class GroupNorm(_AffineNorm):
    """Normalises groups of channels of (N, C, *), then scales and shifts every channel.

    Raises:
        ValueError: ``num_groups`` does not divide ``num_channels``.
    """

    def __init__(
        self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, *,
        bias=True,
    ):
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._ftorch_add_affine((num_channels,), affine, affine and bias, device=device, dtype=dtype)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(_AffineNorm):
    """Divides by the root mean square over the last dimensions, then scales.

    Args:
        eps: added to the mean square; None is the dtype's machine epsilon.
    """

    def __init__(
        self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None
    ):
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = None
        if elementwise_affine:
            weight = new_parameter(*self.normalized_shape, device=device, dtype=dtype)
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}"
        )
